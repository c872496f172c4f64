"""A configuration mistake is found before anything heavy starts, and named."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from botgrpo.sandbox.errors import ConfigError
from botgrpo.trainer import config as configs

MINIMAL = {
    "name": "x",
    "task": "react",
    "policy": {"model": "m"},
    "reward": {"outcomes": {"react.compile": 1.0}},
}


def test_a_minimal_configuration_is_filled_with_defaults() -> None:
    config = configs.parse(MINIMAL, "here")
    assert config.sampling.group_size == 8
    assert config.algorithm == "bot_grpo"


@pytest.mark.parametrize(
    ("assignment", "says"),
    [
        ("run.stesp=3", "unknown key 'run.stesp'. Did you mean 'steps'"),
        ("run.steps=0", "run.steps"),
        ("run.steps=many", "run.steps"),
        ("sampling.group_size=1", "sampling.group_size"),
        ("sandbox=none", "sandbox"),
        ("optim.learning_rate=-1", "optim.learning_rate"),
        ("reward.outcomes={}", "reward.outcomes"),
        ("policy.warm_start.steps=0", "policy.warm_start.steps"),
        ("policy.warm_start.stpes=5", "Did you mean 'steps'"),
    ],
)
def test_a_wrong_value_names_its_key(assignment: str, says: str) -> None:
    with pytest.raises(ConfigError) as error:
        configs.parse(configs.override(MINIMAL, [assignment]), "here")
    assert says in str(error.value)


def test_what_is_missing_is_named() -> None:
    with pytest.raises(ConfigError, match=r"policy: field required"):
        configs.parse({"name": "x", "task": "react"}, "here")


def test_overrides_take_toml_values_or_text() -> None:
    data = configs.override(MINIMAL, ["run.steps=3", "algorithm=grpo", 'policy.model="a=b"'])
    assert (data["run"]["steps"], data["algorithm"], data["policy"]["model"]) == (3, "grpo", "a=b")
    assert MINIMAL["policy"] == {"model": "m"}  # the original is left alone
    with pytest.raises(ConfigError, match=r"key\.subkey=value"):
        configs.override(MINIMAL, ["run.steps"])
    with pytest.raises(ConfigError, match="'name' is a value, not a table"):
        configs.override(MINIMAL, ["name.first=1"])


def test_a_key_of_one_section_may_be_written_without_it() -> None:
    data = configs.override(MINIMAL, ["steps=3", "group_size=4", "model=other"])
    assert data["run"]["steps"] == 3 and data["sampling"]["group_size"] == 4
    assert data["policy"]["model"] == "other"
    with pytest.raises(ConfigError, match="unknown key 'stpes'"):
        configs.parse(configs.override(MINIMAL, ["stpes=3"]), "here")


def test_a_file_that_is_not_there_or_not_toml_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file"):
        configs.read_toml(tmp_path / "gone.toml")
    bad = tmp_path / "bad.toml"
    bad.write_text("a = = 1")
    with pytest.raises(ConfigError, match="not valid TOML"):
        configs.read_toml(bad)
    with pytest.raises(ConfigError, match="is a folder"):
        configs.read_toml(tmp_path)


keys = st.text(min_size=1, max_size=8)
values = st.recursive(
    st.one_of(
        st.booleans(),
        st.integers(-(2**53), 2**53),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(st.characters(exclude_categories=["Cs"])),
        st.lists(st.integers(0, 9), max_size=3),
    ),
    lambda inner: st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8), inner, max_size=3
    ),
    max_leaves=12,
)


@given(
    st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8),
        values,
        max_size=4,
    )
)
def test_what_is_written_as_toml_reads_back_the_same(data: dict[str, object]) -> None:
    assert tomllib.loads(configs.to_toml(data)) == data


def test_a_whole_configuration_reads_back_the_same() -> None:
    config = configs.parse(configs.override(MINIMAL, ["policy.warm_start.steps=5"]), "here")
    again = configs.parse(tomllib.loads(configs.to_toml(config.model_dump())), "there")
    assert again == config
