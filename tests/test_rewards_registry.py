from __future__ import annotations

import asyncio
import math
import sys
import tomllib
from pathlib import Path

import pytest

from botgrpo.rewards import RewardError, RewardSpec, Rollout, Score, available, build, register
from botgrpo.rewards import registry as registry_module
from botgrpo.rewards.reference import Reference, parse
from botgrpo.sandbox.errors import ConfigError
from botgrpo.sandbox.react import shared_compiler

ROOT = Path(__file__).parents[1]
ROLLOUTS = [
    Rollout("a", "g", "hi", "one", {"accepted": [1]}, token_ids=(1, 2)),
    Rollout("b", "g", [{"role": "user", "content": "hi"}], "three", {}),
]


def score(reward, rollouts=ROLLOUTS):
    return asyncio.run(reward.score(rollouts))


def test_the_entry_points_of_the_distribution_are_the_builtins():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["botgrpo.rewards"] == dict(registry_module.BUILTINS)


def test_every_builtin_target_exists():
    for name in registry_module.BUILTINS:
        assert callable(registry_module._factory(name))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("react.compile", Reference("react.compile")),
        (" a.b( ) ", Reference("a.b")),
        ("a.b(1, -2.5, x=[1, 'z'])", Reference("a.b", (1, -2.5), {"x": [1, "z"]})),
        (
            "noise.gaussian(react.compile, sigma=0.5)",
            Reference("noise.gaussian", (Reference("react.compile"),), {"sigma": 0.5}),
        ),
        (
            "a.b(c.d(e.f, k=1))",
            Reference("a.b", (Reference("c.d", (Reference("e.f"),), {"k": 1}),)),
        ),
        ("dir/my-file.py:fn(low=0)", Reference("dir/my-file.py:fn", (), {"low": 0})),
        ("acme-rewards/tests.pass", Reference("acme-rewards/tests.pass")),
    ],
)
def test_references_parse(text, expected):
    assert parse(text) == expected


@pytest.mark.parametrize(
    "text",
    ["", "(x)", "a.b(", "a.b(1)(2)", "a.b(1) + c(2)", "a.b(**{})", "a.b(x=1, x=2)", "a.b(1 + 1)",
     "a.b([c.d])", "a.b(__import__('os').system('true'))", "a.b(lambda: 1)", "a.b(" + "(" * 3000,
     "a.b(" + "-" * 900 + "1)", "a.b(\x00)"],
)  # fmt: skip
def test_anything_else_is_refused_and_never_run(text):
    with pytest.raises(ConfigError):
        build(text)


def test_defaults_go_to_every_nested_reward_that_takes_them():
    reward = build("noise.gaussian(react.compile, sigma=0.5)", defaults={"backend": "unsafe"})
    assert reward.inner._compiler is shared_compiler("unsafe")
    for given in ("react.compile('auto')", "react.compile(backend='auto')"):
        named = build(given, defaults={"backend": "unsafe"})
        assert named._compiler is shared_compiler("auto")


def test_a_reference_in_quotes_is_built_by_the_reward_that_takes_it(file):
    reward = build(f"noise.flip('{file}:Half(value=0.25)', p=1)")
    assert score(reward)[0].outcome == 0.75


def test_an_unknown_name_lists_what_exists_and_the_nearest():
    with pytest.raises(ConfigError, match=r"Did you mean react\.compile\?.*noise\.gaussian"):
        build("react.complie")


def test_wrong_arguments_show_what_is_taken():
    with pytest.raises(ConfigError, match=r"react\.compile: .*colour.*it takes \(.*backend"):
        build("react.compile(colour=1)")
    with pytest.raises(ConfigError, match="backend twice"):
        build("react.compile(backend='auto')", backend="auto")


@pytest.fixture
def clean_registry(monkeypatch):
    monkeypatch.setattr(registry_module, "_registered", {})


class Ones:
    """Everything is right."""

    def __init__(self, value: float = 1.0) -> None:
        self.spec = RewardSpec("test.ones", "1", (0.0, 1.0))
        self.value = value

    async def score(self, rollouts):
        return [Score(r.id, self.value) for r in rollouts]


def test_the_decorator_door(clean_registry):
    assert register("test.ones")(Ones) is Ones
    assert score(build("test.ones(0.5)"))[0].outcome == 0.5
    assert score(build("test.ones", value=0.25))[0].outcome == 0.25
    entry = next(e for e in available() if e.name == "test.ones")
    assert entry.origin == "registered" and entry.summary() == "Everything is right."
    with pytest.raises(ConfigError, match="second reward"):
        register("test.ones")(lambda: None)
    with pytest.raises(ConfigError, match="second reward"):
        register("react.compile")(Ones)
    with pytest.raises(ConfigError, match=r"area\.name"):
        register("ones")


FILE = '''
import math
from botgrpo.rewards import RewardSpec, Score

class Half:
    def __init__(self, value=0.5):
        self.spec = RewardSpec("test.half", "1", (0.0, 1.0))
        self.value = value
    async def score(self, rollouts):
        return [Score(r.id, self.value) for r in rollouts]

ready = Half(0.75)

def length(completions, accepted, **columns):
    """Counts characters."""
    assert set(columns) == {"prompts", "completion_ids"}
    assert accepted == [[1], None] and columns["completion_ids"] == [[1, 2], None]
    assert completions[1] == [{"role": "assistant", "content": "three"}]
    return [len(completions[0]), None]

def strict(completions):
    return [0.5 for _ in completions]

async def later(prompts, completions):
    return [1.0, math.nan]

def short(completions):
    return []

def words(completions):
    return ["high" for _ in completions]

def broken(completions):
    raise KeyError("x")

number = 3
'''


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(FILE)
    yield path
    for key in [k for k in sys.modules if k.startswith("botgrpo_file_")]:
        del sys.modules[key]


def test_the_path_door_takes_classes_rewards_and_functions(file):
    assert score(build(f"{file}:Half"))[0].outcome == 0.5
    assert score(build(f"{file}:Half(value=0.25)"))[0].outcome == 0.25
    assert score(build(f"{file}:ready"))[0].outcome == 0.75
    assert score(build(f"{file}:strict"))[0].outcome == 0.5
    with pytest.raises(ConfigError, match="finished reward"):
        build(f"{file}:ready(1)")
    with pytest.raises(ConfigError, match="expected a reward class"):
        build(f"{file}:number")


def test_a_plain_function_sees_columns_and_may_skip(file):
    first, second = score(build(f"{file}:length"))
    assert first.outcome == 3.0
    assert second.outcome is None and "returned None" in second.reason
    assert build(f"{file}:length(low=0, high=9)").spec.outcome_range == (0, 9)
    assert build(f"{file}:length").spec.outcome_range == (-math.inf, math.inf)


def test_an_async_function_is_awaited_and_nan_is_unscored(file):
    first, second = score(build(f"{file}:later"))
    assert first.outcome == 1.0 and second.outcome is None


@pytest.mark.parametrize(
    ("name", "message"),
    [("short", "0 values for 2"), ("broken", "KeyError"), ("words", "'high' for 'a'")],
)
def test_a_function_that_fails_is_an_error_and_not_a_zero(file, name, message):
    with pytest.raises(RewardError, match=message):
        score(build(f"{file}:{name}"))


def test_the_module_door(plugin):
    assert score(build("acme_plugin:Half(0.2)"))[0].outcome == 0.2


def test_missing_files_modules_and_attributes_are_named(file, tmp_path):
    with pytest.raises(ConfigError, match="there is no file"):
        build(f"{tmp_path}/none.py:x")
    with pytest.raises(ConfigError, match="cannot import no_such_module"):
        build("no_such_module:x")
    with pytest.raises(ConfigError, match="did you mean Half"):
        build(f"{file}:Halve")
    broken = tmp_path / "broken.py"
    broken.write_text("1 / 0")
    with pytest.raises(ConfigError, match="ZeroDivisionError"):
        build(f"{broken}:x")


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    info = tmp_path / "acme_rewards-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-rewards\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[botgrpo.rewards]\ntests.half = acme_plugin:Half\ntests.gone = acme_missing:Gone\n"
    )
    (tmp_path / "acme_plugin.py").write_text(FILE)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sys.modules.pop("acme_plugin", None)


def test_the_plug_in_door_prefixes_the_distribution(plugin):
    names = {e.name: e.origin for e in available()}
    assert names["acme-rewards/tests.half"] == "acme-rewards"
    assert score(build("acme-rewards/tests.half(0.1)"))[0].outcome == 0.1


def test_a_plug_in_that_fails_to_import_says_why(plugin):
    with pytest.raises(ConfigError, match=r"acme-rewards/tests\.gone .*No module named"):
        build("acme-rewards/tests.gone")
    gone = next(e for e in available() if e.name == "acme-rewards/tests.gone")
    assert "No module named" in gone.summary()
