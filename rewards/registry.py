"""One registry of rewards with three doors: a decorator, a path, an installed distribution.

A reference is `NAME` or `NAME(arguments)`; an argument is a literal or another reference:

    react.compile
    react.compile(backend="docker")
    noise.gaussian(react.compile, sigma=0.5)
    my_rewards.py:length_bonus
    acme-rewards/tests.pass_rate

Names are `area.name`, and `distribution/name` for a plug-in, which registers under the entry-point
group `botgrpo.rewards`.
"""

from __future__ import annotations

import difflib
import hashlib
import importlib
import importlib.util
import inspect
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from botgrpo.rewards.base import Reward
from botgrpo.rewards.functions import FunctionReward
from botgrpo.rewards.reference import Reference, parse
from botgrpo.sandbox.errors import ConfigError

GROUP = "botgrpo.rewards"

# The one list of our own rewards. pyproject.toml repeats it as entry points for other tools; ours
# resolve from here, so that a checkout works before it is installed.
BUILTINS: Mapping[str, str] = {
    "react.compile": "botgrpo.rewards.react.compile:ReactCompile",
    "react.complete": "botgrpo.rewards.react.complete:ReactComplete",
    "react.eslint": "botgrpo.rewards.react.eslint:ReactEslint",
    "react.visual": "botgrpo.rewards.react.visual:ReactVisual",
    "react.code_judge": "botgrpo.rewards.react.code_judge:CodeJudge",
    "react.vlm_judge": "botgrpo.rewards.react.vlm_judge:VlmJudge",
    "react.compiler_linter": "botgrpo.rewards.react.stacks:CompilerLinter",
    "react.no_vlm": "botgrpo.rewards.react.stacks:NoVlm",
    "react.paper_full": "botgrpo.rewards.react.stacks:PaperFull",
    "react.form": "botgrpo.rewards.react.form:ReactForm",
    "math.answer": "botgrpo.rewards.math.answer:MathAnswer",
    "math.aime": "botgrpo.rewards.math.aime:MathAime",
    "math.format": "botgrpo.rewards.math.format_tags:MathFormat",
    "math.steps_sympy": "botgrpo.rewards.math.steps_sympy:StepsSympy",
    "math.steps_judge": "botgrpo.rewards.math.steps_judge:StepsJudge",
    "math.prm": "botgrpo.rewards.math.prm:MathPrm",
    "implicit.prime": "botgrpo.rewards.implicit:ImplicitPrime",
    "noise.gaussian": "botgrpo.rewards.noise:Gaussian",
    "noise.permute_lines": "botgrpo.rewards.noise:PermuteLines",
    "noise.flip": "botgrpo.rewards.noise:Flip",
    "noise.heavy_tail": "botgrpo.rewards.noise:HeavyTail",
    "noise.drift": "botgrpo.rewards.noise:Drift",
    "noise.judge_disagree": "botgrpo.rewards.noise:JudgeDisagree",
    "noise.length_bias": "botgrpo.rewards.noise:LengthBias",
    "noise.scale_blowup": "botgrpo.rewards.noise:ScaleBlowup",
    "noise.sparse_drop": "botgrpo.rewards.noise:SparseDrop",
    "noise.quantise": "botgrpo.rewards.noise:Quantise",
    "noise.shift": "botgrpo.rewards.noise:Shift",
    "noise.delay": "botgrpo.rewards.noise:Delay",
    "noise.flip_asym": "botgrpo.rewards.noise:FlipAsym",
    "noise.swap": "botgrpo.rewards.noise:Swap",
    "noise.adversarial": "botgrpo.rewards.noise:Adversarial",
    "noise.offset": "botgrpo.rewards.noise:Offset",
    "noise.scale": "botgrpo.rewards.noise:Scale",
}

Factory = Callable[..., Any]
F = TypeVar("F", bound=Factory)
_registered: dict[str, Factory] = {}


@dataclass(frozen=True, slots=True)
class Entry:
    """A reward that can be named.

    Attributes:
        name: what to write in a config.
        origin: "built-in", "registered" (by the decorator) or the distribution that ships it.
        target: `module:attribute` where it lives.
    """

    name: str
    origin: str
    target: str

    def summary(self) -> str:
        """First line of its docstring, or why it does not load; imports it."""
        try:
            return (inspect.getdoc(_factory(self.name)) or "").partition("\n")[0]
        except ConfigError as error:  # one broken plug-in must not hide the others
            return str(error)


def register(name: str) -> Callable[[F], F]:
    """`@register("area.name")` on a reward class or a TRL-style function; names are unique."""

    def keep(factory: F) -> F:
        if name in BUILTINS or _registered.get(name, factory) is not factory:
            raise ConfigError(f"got a second reward named {name!r}; choose another name")
        _registered[name] = factory
        return factory

    if not re.fullmatch(r"[\w-]+([./][\w-]+)+", name):
        raise ConfigError(f"got the reward name {name!r}; allowed: area.name or distribution/name")
    return keep


def available() -> list[Entry]:
    """Every reward that can be named, sorted; imports none of them."""
    entries = [Entry(name, "built-in", target) for name, target in BUILTINS.items()]
    entries += [
        Entry(name, "registered", f"{f.__module__}:{f.__qualname__}")
        for name, f in _registered.items()
    ]
    entries += [Entry(name, point.dist.name, point.value) for name, point in _plugins().items()]
    return sorted(entries, key=lambda entry: entry.name)


def build(reference: str, *, defaults: Mapping[str, Any] | None = None, **options: Any) -> Reward:
    """A reward from its reference.

    `options` are further keyword arguments of the outermost reward; `defaults` go to every reward
    of the reference that takes such an argument and is not given one, e.g. {"backend": "docker"}.

    Raises `ConfigError` for an unknown name (with the nearest ones), wrong arguments, or a plug-in
    that fails to import (with the cause).
    """
    return _build(parse(reference), options, defaults or {})


def _build(reference: Reference, options: Mapping[str, Any], defaults: Mapping[str, Any]) -> Reward:
    both = sorted(set(options) & set(reference.options))
    if both:
        raise ConfigError(f"got {', '.join(both)} twice for {reference.name}")

    def value(item: Any) -> Any:
        return _build(item, {}, defaults) if isinstance(item, Reference) else item

    args = [value(a) for a in reference.args]
    named = {k: value(v) for k, v in {**reference.options, **options}.items()}
    target: Any = _factory(reference.name)
    if inspect.isfunction(target):
        target, args = FunctionReward, [target, *args]
    elif not inspect.isclass(target) and isinstance(target, Reward):
        if args or named:
            raise ConfigError(f"{reference.name} is a finished reward; it takes no arguments")
        return target
    if not callable(target):
        raise ConfigError(f"{reference.name} is {target!r}; expected a reward class or a function")
    signature = inspect.signature(target)
    try:
        given = signature.bind_partial(*args, **named).arguments
        free = signature.parameters.keys() - given.keys()
        named |= {k: v for k, v in defaults.items() if k in free}
        signature.bind(*args, **named)
    except TypeError as error:
        raise ConfigError(f"{reference.name}: {error}; it takes {signature}") from error
    reward = target(*args, **named)
    if not isinstance(reward, Reward):
        raise ConfigError(
            f"{reference.name} made {type(reward).__name__}, which has no `spec` and `score`"
        )
    return reward


def _factory(name: str) -> Any:
    if name in BUILTINS:
        return _attribute(name, *BUILTINS[name].split(":"))
    if name in _registered:
        return _registered[name]
    if ":" in name:
        place, _, attribute = name.rpartition(":")
        if place.endswith(".py"):
            return _get(name, _module_from_path(place), attribute)
        return _attribute(name, place, attribute)
    plugins = _plugins()
    if name in plugins:
        try:
            return plugins[name].load()
        except (Exception, SystemExit) as error:
            raise ConfigError(
                f"the plug-in {name} ({plugins[name].value} of {plugins[name].dist.name}) failed "
                f"to load: {type(error).__name__}: {error}"
            ) from error
    raise ConfigError(_unknown(name, [*BUILTINS, *_registered, *plugins]))


def _unknown(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return (
        f"no reward {name!r}."
        + (f" Did you mean {near[0]}?" if near else "")
        + f" Available: {', '.join(sorted(known))}. A file's reward is path.py:name; plug-ins "
        f"register under the entry-point group {GROUP!r}."
    )


def _plugins() -> dict[str, Any]:
    """`distribution/name` -> entry point, of every distribution but our own."""
    found: dict[str, Any] = {}
    for point in metadata.entry_points(group=GROUP):
        if point.dist is not None and point.dist.name != "botgrpo":
            found[f"{point.dist.name}/{point.name}"] = point
    return found


def _attribute(name: str, module: str, attribute: str) -> Any:
    try:
        loaded = importlib.import_module(module)
    except ImportError as error:
        raise ConfigError(f"{name}: cannot import {module}: {error}") from error
    return _get(name, loaded, attribute)


def _get(name: str, module: ModuleType, attribute: str) -> Any:
    if not hasattr(module, attribute):
        public = sorted(n for n in vars(module) if not n.startswith("_"))
        near = difflib.get_close_matches(attribute, public, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise ConfigError(f"{name}: {module.__name__} has no {attribute!r}{hint}")
    return getattr(module, attribute)


def _module_from_path(place: str) -> ModuleType:
    path = Path(place).expanduser().resolve()
    if not path.is_file():
        raise ConfigError(f"got {place}:..., but there is no file {path}")
    # Named after its place: two files may share a base name, and one file loads only once.
    key = f"botgrpo_file_{hashlib.sha256(str(path).encode()).hexdigest()[:12]}"
    if key in sys.modules:
        return sys.modules[key]
    spec = importlib.util.spec_from_file_location(key, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[key] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[key]
        raise ConfigError(f"{place} failed to load: {type(error).__name__}: {error}") from error
    return module
