"""`implicit.prime`: the reward that two language models imply, token by token.

r_t = beta (log p_phi(y_t) - log p_ref(y_t)), and sigmoid(beta sum_t q_t) is the probability that
the answer is right. Source: PRIME, arXiv 2502.01456, as implemented in verl-recipe/prime, with beta
0.05 in training. There the last token's r is left 0 and phi learns along with the policy; here
every token has its r, and phi stays as it was given. `[prime]` in a training configuration is the
one that learns along.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from botgrpo.rewards.base import Example, RewardSpec, Rollout, Score, Span
from botgrpo.rewards.tokens import TokenBytes, TokenSpans
from botgrpo.sandbox.errors import ConfigError

if TYPE_CHECKING:
    from botgrpo.rewards.prm import Sequenced

_MOST = 1.0  # of |r_t|: e^20 in odds at PRIME's beta


class ImplicitPrime:
    """beta times the log-ratio of two models at each token; the outcome is its sum's sigmoid.

    `model` (phi, trained on outcomes) and `reference` (what it was trained from) are transformers
    folders or a hub's OWNER/MODEL, with the policy's tokenizer. Loads torch and both models when
    constructed; ConfigError where their vocabularies differ or there is no chat template.

    Token values are held within -1 and 1 and those that were beyond are counted. Verdicts: right
    (outcome 0.5 or more), wrong, empty (no token; outcome 0.5); too_long (more than `max_tokens`),
    other_tokens (the ids do not spell the completion here: another tokenizer) and not_finite are
    unscored. Rollouts without sampled ids are encoded anew. Metrics: `log_ratio` (sum, nats),
    `held` (tokens at a bound), `tokens`. `budget_tokens` bounds the padded tokens of one batch.
    """

    def __init__(
        self,
        model: str,
        reference: str,
        *,
        beta: float = 0.05,
        max_tokens: int = 4096,
        budget_tokens: int = 16_384,
    ) -> None:
        if not 0 < beta < math.inf:
            raise ConfigError(f"got beta = {beta}; allowed: above 0, PRIME's is 0.05")
        if not 1 <= max_tokens <= budget_tokens:
            raise ConfigError(
                f"got max_tokens = {max_tokens} and budget_tokens = {budget_tokens}; allowed are "
                "1 <= max_tokens <= budget_tokens"
            )
        from botgrpo.rewards import prm

        folder = prm.folder_of(model)
        self._tokenizer = prm.tokenizer_of(folder)
        if self._tokenizer.chat_template is None:
            raise ConfigError(f"the tokenizer in {folder} has no chat template, so no prompt")
        self._bytes = TokenBytes(self._tokenizer)
        self._model = prm.LanguageModel(folder)
        self._reference = prm.LanguageModel(prm.folder_of(reference))
        if self._model.vocabulary != self._reference.vocabulary:
            raise ConfigError(
                f"{model} has a vocabulary of {self._model.vocabulary} and {reference} of "
                f"{self._reference.vocabulary}; a log-ratio needs two models of one tokenizer"
            )
        self._beta, self._max_tokens, self._budget_tokens = beta, max_tokens, budget_tokens
        self.spec = RewardSpec(
            name="implicit.prime",
            version="1",
            outcome_range=(0.0, 1.0),
            local_range=(-_MOST, _MOST),
            deterministic=False,  # the last bits of a sum depend on what else is in the batch
            needs=("model",),
            summary="beta times the log-ratio of two models at each token (PRIME)",
        )

    async def score(self, rollouts: Sequence[Rollout]) -> list[Score]:
        """All rollouts in few batches, off the event loop."""
        return await asyncio.to_thread(self._score, rollouts)

    def examples(self) -> Sequence[Example]:
        """A right answer and a wrong one, of which a trained model should think so."""
        gold = Rollout("gold", "examples", "What is 2 + 2?", "2 + 2 = 4, so the answer is 4.")
        wrong = replace(gold, id="wrong", completion="2 + 2 = 5, so the answer is 5.")
        return (
            Example(gold, (0.5, 1.0), "right"),
            Example(wrong, (0.0, 0.5), "wrong", gold=False),
        )

    def _score(self, rollouts: Sequence[Rollout]) -> list[Score]:
        began = time.perf_counter()
        scores: dict[int, Score] = {}
        asked: list[tuple[int, Sequenced, TokenSpans]] = []
        for i, rollout in enumerate(rollouts):
            prepared = self._prepared(rollout)
            if isinstance(prepared, Score):
                scores[i] = prepared
            else:
                asked.append((i, *prepared))
        sequences = [sequence for _, sequence, _ in asked]
        ours = self._model.logps(sequences, self._budget_tokens)
        theirs = self._reference.logps(sequences, self._budget_tokens)
        seconds = (time.perf_counter() - began) / max(1, len(asked))
        for (i, _, spans), ours_T, theirs_T in zip(asked, ours, theirs, strict=True):
            q_T = [a - b for a, b in zip(ours_T, theirs_T, strict=True)]
            scores[i] = self._scored(rollouts[i], q_T, spans, seconds)
        return [scores[i] for i in range(len(rollouts))]

    def _prepared(self, rollout: Rollout) -> Score | tuple[Sequenced, TokenSpans]:
        """Prompt and completion as ids, and the completion's token spans."""
        from botgrpo.rewards.prm import Sequenced

        ids = rollout.token_ids
        if ids is None:
            ids = tuple(self._tokenizer.encode(rollout.completion, add_special_tokens=False))
        if not ids:
            return Score(rollout.id, 0.5, verdict="empty", local=(), metrics={"tokens": 0.0})
        if len(ids) > self._max_tokens:
            reason = f"{len(ids)} tokens; at most {self._max_tokens} are read"
            return Score.unscored(rollout.id, reason, verdict="too_long")
        text, spans = self._bytes.decode(ids)
        if text != rollout.completion or max(ids) >= self._model.vocabulary:
            reason = "the token ids do not spell the completion in this model's tokenizer"
            return Score.unscored(rollout.id, reason, verdict="other_tokens")
        prompt = self._prompt_ids(rollout)
        if len(prompt) + len(ids) > self._budget_tokens:
            reason = f"{len(prompt) + len(ids)} tokens with the prompt; a batch has no more room"
            return Score.unscored(rollout.id, reason, verdict="too_long")
        places = range(len(prompt), len(prompt) + len(ids))
        return Sequenced([*prompt, *ids], places), spans

    def _prompt_ids(self, rollout: Rollout) -> list[int]:
        prompt = rollout.prompt
        chat = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else list(prompt)
        encoded = self._tokenizer.apply_chat_template(
            chat, add_generation_prompt=True, tokenize=True, return_dict=True
        )
        return list(encoded["input_ids"])

    def _scored(
        self, rollout: Rollout, q_T: Sequence[float], spans: TokenSpans, seconds: float
    ) -> Score:
        total = math.fsum(q_T)
        if not math.isfinite(total):
            reason = "a log-ratio of the two models is not finite"
            return Score.unscored(rollout.id, reason, verdict="not_finite", seconds=seconds)
        r_T = [self._beta * q for q in q_T]
        held_T = tuple(max(-_MOST, min(_MOST, r)) for r in r_T)
        outcome = 0.5 * (1 + math.tanh(0.5 * self._beta * total))  # the sigmoid, without overflow
        return Score(
            rollout.id,
            outcome,
            verdict="right" if outcome >= 0.5 else "wrong",
            spans=tuple(
                Span(start, end, value, f"log-ratio {q:+.3f}")
                for (start, end), value, q in zip(spans, held_T, q_T, strict=True)
            ),
            local=held_T if rollout.token_ids is not None else None,
            metrics={
                "log_ratio": total,
                "held": float(sum(abs(r) > _MOST for r in r_T)),
                "tokens": float(len(r_T)),
            },
            seconds=seconds,
        )
