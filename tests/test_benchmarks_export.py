"""Launch files for other trainers carry the configuration and say what is lost."""

from __future__ import annotations

import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

from botgrpo.benchmarks import cli
from botgrpo.benchmarks.export_trl import trl_script
from botgrpo.benchmarks.export_verl import verl_script
from botgrpo.benchmarks.training import load_config
from botgrpo.sandbox.errors import ConfigError
from botgrpo.trainer import config as configs


def between(text: str, start: str, end: str) -> str:
    return text.partition(start)[2].partition(end)[0]


@pytest.mark.parametrize("method", ["bot_grpo", "grpo", "dr_grpo", "dapo", "gspo"])
def test_the_trl_file_is_python_that_carries_the_configuration(method: str) -> None:
    config = load_config("react_micro", [f"algorithm={method}"])
    script = trl_script(config, "mine.py")
    compile(script, "mine.py", "exec")
    assert configs.parse(tomllib.loads(between(script, 'r"""\n', '"""')), "x") == config
    assert "accelerate launch mine.py" in script and "exact resumption" in script
    assert ("local rewards: TRL's trainer" in script) == (method != "bot_grpo")


@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("bot_grpo", ["adv_estimator=bot_grpo", "loss_agg_mode=seq-mean-token-mean"]),
        ("gspo_token", ["adv_estimator=bot_grpo", "loss_mode=gspo", "clip_ratio_low=0.0003"]),
        ("grpo", ["adv_estimator=botgrpo_grpo", "loss_mode=vanilla"]),
        ("dapo_mean", ["adv_estimator=botgrpo_grpo", "loss_agg_mode=token-mean", "high=0.28"]),
        ("dr_grpo", ["seq-mean-token-sum-norm", "loss_scale_factor=192"]),
        ("reinforce_pp", ["adv_estimator=reinforce_pp", "loss_agg_mode=token-mean"]),
    ],
)
def test_the_verl_script_is_shell_that_sets_the_method(method: str, settings: list[str]) -> None:
    config = load_config("react_micro", [f"algorithm={method}"])
    script = verl_script(config, "mine.sh")
    if bash := shutil.which("bash"):
        done = subprocess.run([bash, "-n"], input=script, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    compile(between(script, "<<'PYTHON'\n", "\nPYTHON"), "x", "exec")
    assert [s for s in settings if s not in script] == []
    carried = configs.parse(tomllib.loads(between(script, "<<'TOML'\n", "TOML\n")), "x")
    sees_locals = method not in ("grpo", "dr_grpo", "reinforce_pp")  # an outcome has none
    assert bool(carried.reward.locals) == sees_locals
    assert carried.reward.outcomes == config.reward.outcomes


def test_a_warm_start_is_named_as_something_to_do_first() -> None:
    config = load_config("react_micro", ["policy.warm_start.steps=5"])
    assert "botgrpo sft" in trl_script(config, "x") and "botgrpo sft" in verl_script(config, "x")
    assert "botgrpo sft" not in trl_script(load_config("react_micro", []), "x")


@pytest.mark.parametrize(
    ("trainer", "sets", "says"),
    [
        ("trl", ["algorithm=pure"], "Possible: bot_grpo, dapo"),
        ("verl", ["algorithm=prime"], "Possible: bot_grpo, bot_grpo_token_mean, dapo"),
        ("verl", ["algorithm=grpo_lambda"], "it lacks a part of it"),
        ("verl", ["algorithm_options.uniform_group=damp"], "no outcomes"),
        ("trl", ["algorithm=grpo", "algorithm_options.ddof=1"], "takes none of ours"),
    ],
)
def test_what_the_other_trainer_cannot_do_is_refused(
    trainer: str, sets: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [word for s in sets for word in ("--set", s)]
    assert cli.main(["export", trainer, "react_micro", *arguments]) == 2
    printed = capsys.readouterr()
    assert says in printed.err and printed.out == ""


@pytest.mark.parametrize("script", [trl_script, verl_script])
def test_what_the_other_trainer_must_be_told_by_hand_is_named(script: Any) -> None:
    plain = script(load_config("react_micro", []), "x")
    assert "by hand" not in plain
    told = script(load_config("react_micro", ["optim.epochs=2", "optim.kl=0.1"]), "x")
    assert "optim.epochs, optim.kl: set what that trainer has for it by hand" in told


def test_options_of_the_estimator_go_along() -> None:
    config = load_config("react_micro", ["algorithm_options.ddof=1"])
    assert "+algorithm.botgrpo_options.ddof=1" in verl_script(config, "x")
    assert "ddof = 1" in trl_script(config, "x")


def test_the_command_writes_to_a_file_or_to_standard_output(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "mine.py"
    assert cli.main(["export", "trl", "react_micro", "--out", str(out)]) == 0
    assert capsys.readouterr().out == ""
    assert cli.main(["export", "trl", "react_micro"]) == 0
    assert capsys.readouterr().out == out.read_text().replace("mine.py", "train.py")


def test_a_method_that_does_not_exist_is_named() -> None:
    with pytest.raises(ConfigError, match="Did you mean 'bot_grpo'"):
        load_config("react_micro", ["algorithm=bot_gpro"])
