"""A plan from config.json alone: what fits, what does not, and what to change."""

from __future__ import annotations

from pathlib import Path

import pytest

from botgrpo.benchmarks import plan, training
from botgrpo.sandbox.errors import ConfigError


def test_a_run_that_fits_is_described_with_its_memory_and_time(
    capsys: pytest.CaptureFixture[str],
) -> None:
    from botgrpo.benchmarks.cli import main

    assert main(["train", "react_micro", "--plan", "--set", "run.threads=1"]) == 0
    text = capsys.readouterr().out
    assert "631,680 parameters" in text and "64 rollouts" in text
    assert "a step       at most" in text and "11 evaluations of 128 prompts" in text


def test_a_plan_names_a_sandbox_only_where_something_is_run() -> None:
    answers = plan.write(training.load_config("aime_micro", []))
    assert "sandbox      none is needed" in answers
    components = plan.write(training.load_config("react_micro", ["sandbox=bubblewrap"]))
    assert "sandbox      bubblewrap" in components


def test_a_run_that_cannot_fit_says_what_would_help_and_by_how_much() -> None:
    config = training.load_config("react_micro", ["optim.microbatch_tokens=40000"])
    with pytest.raises(ConfigError) as error:
        plan.write(config, memory_gib=1.2)
    text = str(error.value)
    assert "this run cannot fit" in text and "of 1.2 GiB. What would help:" in text
    assert "--set optim.microbatch_tokens=2048" in text
    # and it does help
    config = training.load_config("react_micro", ["optim.microbatch_tokens=2048"])
    assert "1.20 GiB  of which 90% may be used" in plan.write(config, memory_gib=1.2)


def test_a_model_that_is_not_here_and_has_no_shape_is_refused() -> None:
    config = training.load_config("react_micro", ["policy.model=nobody/nothing"], weights=False)
    with pytest.raises(ConfigError, match="nobody/nothing"):
        plan.write(config)
    with pytest.raises(ConfigError, match="nobody/nothing"):
        training.load_config("react_micro", ["policy.model=nobody/nothing"])


def test_more_minibatches_than_rollouts_are_refused_before_anything_is_loaded() -> None:
    with pytest.raises(ConfigError, match=r"optim\.minibatches is 65; a step has 64 rollouts"):
        training.load_config("react_micro", ["optim.minibatches=65"])


def test_prompts_are_counted_by_the_tokenizer_where_there_is_one(tmp_path: Path) -> None:
    config = training.load_config("react_micro", [])
    folder, remark = plan.model_shape(config)
    assert remark == ""
    tokens, counted = plan.prompt_tokens(config, folder)
    assert "by its tokenizer" in counted and 20 < tokens < 100
    assumed, counted = plan.prompt_tokens(config, tmp_path)
    assert "assumed" in counted and assumed > 48


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "billions"),
    [("react_qwen2.5_3b", 3.09), ("react_smollm3_3b", 3.08), ("react_phi4_mini", 3.84)],
)
def test_shipped_three_billion_policies_fit_one_gpu_and_not_a_small_machine(
    name: str, billions: float
) -> None:
    pytest.importorskip("peft")
    config = training.load_config(name, [], weights=False)
    text = plan.write(config, memory_gib=80)
    (line,) = (line for line in text.splitlines() if "parameters" in line)
    parameters = int(line.split("GiB")[1].split()[0].replace(",", ""))
    if config.policy.lora:
        (line,) = (line for line in text.splitlines() if "that learn" in line)
        parameters -= int(line.split(" of ")[1].split()[0].replace(",", ""))
    assert parameters / 1e9 == pytest.approx(billions, abs=0.01)  # as published
    with pytest.raises(ConfigError, match="What would help"):
        plan.write(config, memory_gib=20)
