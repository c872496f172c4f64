"""Writes a tiny vision-language model with random weights:  python tiny_vlm.py TOKENIZER OUT

Runs in the environment of the server. The shape is that of Idefics3 and SmolVLM, the public
configuration whose image processor needs no torchvision; the tokenizer is the 135M model's. Its
opinions are noise: what it makes real is the wire, the image's way to it and the grammar.
"""

from __future__ import annotations

import sys

TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n"
    "{% if m['content'] is string %}{{ m['content'] }}{% else %}{% for p in m['content'] %}"
    "{% if p['type'] == 'text' %}{{ p['text'] }}{% else %}<image>{% endif %}{% endfor %}{% endif %}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def main(tokenizer_folder: str, out: str) -> None:
    """Pictures become at most 2 x 2 tiles and the whole, 4 tokens each."""
    import torch
    from transformers import (
        AutoTokenizer,
        Idefics3Config,
        Idefics3ForConditionalGeneration,
        Idefics3ImageProcessorPil,
        Idefics3Processor,
    )

    words = AutoTokenizer.from_pretrained(tokenizer_folder)
    tiles = [f"<row_{row}_col_{column}>" for row in range(1, 7) for column in range(1, 7)]
    marks = ["<fake_token_around_image>", "<image>", "<end_of_utterance>", "<global-img>"]
    words.add_special_tokens({"additional_special_tokens": marks + tiles})
    ends = {name: getattr(words, name) for name in ("eos_token_id", "bos_token_id", "pad_token_id")}
    small = {"num_hidden_layers": 2, "num_attention_heads": 4}
    vision = {"hidden_size": 64, "intermediate_size": 128, "image_size": 64, "patch_size": 16}
    text = {
        "model_type": "llama", "vocab_size": len(words), "hidden_size": 128,
        "intermediate_size": 256, "num_key_value_heads": 4, "max_position_embeddings": 8192,
    }  # fmt: skip
    torch.manual_seed(0)
    config = Idefics3Config(
        image_token_id=words.convert_tokens_to_ids("<image>"),
        scale_factor=2,
        vision_config={**vision, **small},
        text_config={**text, **small, **ends},
        pad_token_id=words.pad_token_id,
    )
    Idefics3ForConditionalGeneration(config).to(torch.bfloat16).save_pretrained(out)
    cut = Idefics3ImageProcessorPil(size={"longest_edge": 128}, max_image_size={"longest_edge": 64})
    made = Idefics3Processor(cut, words, image_seq_len=4, chat_template=TEMPLATE)
    made.save_pretrained(out)


if __name__ == "__main__":
    main(*sys.argv[1:])
