"""`botgrpo rewards new`: what it makes works as it is, and what it cannot make it refuses."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from botgrpo.benchmarks import cli
from botgrpo.benchmarks.new_reward import new_reward
from botgrpo.rewards import build
from botgrpo.rewards.validate import validate
from botgrpo.sandbox.errors import ConfigError


def test_a_new_plugin_installs_passes_its_tests_and_is_found_and_accepted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With pip and its entry point, in processes of their own that see this environment too."""
    made, site = tmp_path / "made", tmp_path / "site"
    assert cli.main(["rewards", "new", "acme-rewards/text.polite_words", str(made)]) == 0
    assert "botgrpo rewards validate acme-rewards/text.polite_words" in capsys.readouterr().out
    path = os.pathsep.join([str(site), *sys.path])
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}

    def python(*words: str, cwd: Path = tmp_path) -> str:
        done = subprocess.run(
            [sys.executable, *words], capture_output=True, text=True, env=environment, cwd=cwd
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    install = "-m pip install -q --disable-pip-version-check --no-deps --no-build-isolation"
    python(*install.split(), "--target", str(site), str(made))
    assert "4 passed" in python("-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=made)
    botgrpo = ("-m", "botgrpo.benchmarks.cli", "rewards")
    assert "acme-rewards/text.polite_words" in python(*botgrpo, "list")
    checks = python(*botgrpo, "validate", "acme-rewards/text.polite_words").splitlines()
    assert len(checks) == 9 and all(line.startswith("ok ") for line in checks)


def test_a_name_alone_takes_the_distribution_from_the_folder(tmp_path: Path) -> None:
    plugin, files = new_reward("polite", tmp_path / "My_New.Rewards")
    assert plugin.reference == "my-new-rewards/polite"
    assert (plugin.module, plugin.class_name) == ("my_new_rewards", "PoliteReward")
    assert all(path.is_file() for path in files)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("acme/", "allowed: distribution/name"),
        ("/polite", "allowed: distribution/name"),
        ("Acme/polite", "lower-case"),
        ("acme/po lite", "allowed"),
        ("acme/../polite", "allowed"),
        ("acme/polite\n", "allowed"),
        ('acme/x"]', "allowed"),
        ("acme/" + "x" * 61, "allowed"),
        ("class/polite", "Python has 'class' already"),
        ("json/polite", "Python has 'json' already"),
        ("botgrpo/polite", "Python has 'botgrpo' already"),
        ("numpy/polite", "my-numpy/polite"),
    ],
)
def test_a_name_that_cannot_be_one_is_refused_and_nothing_written(
    tmp_path: Path, name: str, says: str
) -> None:
    with pytest.raises(ConfigError, match=says):
        new_reward(name, tmp_path / "made")
    assert not (tmp_path / "made").exists()


def test_a_folder_that_holds_something_is_left_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    for place in (tmp_path, tmp_path / "mine.txt"):
        assert cli.main(["rewards", "new", "acme/polite", str(place)]) == 2
        assert "not empty; choose another" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_an_empty_folder_is_filled(tmp_path: Path) -> None:
    (tmp_path / "made").mkdir()
    new_reward("acme/polite", tmp_path / "made")
    assert (tmp_path / "made" / "pyproject.toml").is_file()


@pytest.mark.parametrize("name", ["score", "class", "text.reward_spec", "a.b.sequence", "x__1_"])
def test_a_name_that_python_uses_for_something_else_does_no_harm(tmp_path: Path, name: str) -> None:
    plugin, files = new_reward(f"acme/{name}", tmp_path / "made")
    source = next(path for path in files if path.name == "__init__.py")
    reward = build(f"{source}:{plugin.class_name}")
    assert [check for check in asyncio.run(validate(reward)) if not check.ok] == []


def test_the_example_plugin_keeps_its_promises_and_declares_what_it_has() -> None:
    folder = Path(__file__).parents[1] / "examples" / "house-rules"
    project = tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"]
    ((name, target),) = project["entry-points"]["botgrpo.rewards"].items()
    module, _, attribute = target.partition(":")
    reward = build(f"{folder / 'src' / module / '__init__.py'}:{attribute}")
    assert reward.spec.name == f"{project['name']}/{name}"
    assert [check for check in asyncio.run(validate(reward)) if not check.ok] == []
