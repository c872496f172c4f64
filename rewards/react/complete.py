"""`react.complete`: compiles, returns JSX, and holds every element that the prompt asked for.

Compiling alone is cheap to please: the shortest component does. This outcome is the guard.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from botgrpo.rewards.base import Example, RewardSpec, Rollout, Score
from botgrpo.rewards.react.compile import compile_metrics, judge
from botgrpo.rewards.react.examples import complete_examples
from botgrpo.sandbox.errors import ConfigError
from botgrpo.sandbox.react import ReactCompiler, shared_compiler


@dataclass(frozen=True, slots=True)
class Checks:
    """What a task asks of a component; every part may be absent."""

    name: str | None = None
    elements: tuple[str, ...] = ()
    props: tuple[str, ...] = ()


class ReactComplete:
    """1 if the source compiles, its component returns JSX and every asked element occurs, else 0.

    The reference is `{"name": "Tally", "elements": ["button"], "props": ["title"]}`, each key
    optional. Verdicts are those of react.compile and `incomplete`. Metrics: `compile`, `complete`
    and `match`, the share of checks met (name, each element, each prop; 0 for what does not
    compile). No local signal: pair it with that of react.compile, whose compiler it shares.
    """

    def __init__(self, backend: str = "auto", compiler: ReactCompiler | None = None) -> None:
        self.spec = RewardSpec(
            name="react.complete",
            version="1",
            outcome_range=(0.0, 1.0),
            needs=("sandbox",),
            summary="1 if the React source compiles and holds every element that was asked for",
        )
        self._compiler = compiler or shared_compiler(backend)

    async def score(self, rollouts: Sequence[Rollout]) -> list[Score]:
        """All rollouts at once. Raises `ConfigError` for a reference of another form."""
        checks = [checks_of(r) for r in rollouts]
        judged = await asyncio.gather(*(judge(self._compiler, r.completion) for r in rollouts))
        scores = []
        for rollout, check, (code, result) in zip(rollouts, checks, judged, strict=True):
            if result.status == "infra_error":
                unscored = Score.unscored(rollout.id, result.reason, seconds=result.seconds)
                scores.append(unscored)
                continue
            compiled = result.status == "ok"
            lacks, match = _compare(check, result.facts) if compiled else ([], 0.0)
            complete = compiled and not lacks
            metrics = compile_metrics(rollout, code, result)
            scores.append(
                Score(
                    rollout.id,
                    float(complete),
                    verdict="incomplete" if compiled and lacks else result.status,
                    reason=f"lacks {', '.join(lacks)}" if lacks else result.reason,
                    metrics={**metrics, "complete": float(complete), "match": match},
                    seconds=result.seconds,
                )
            )
        return scores

    def examples(self) -> Sequence[Example]:
        """Gold and tampered answers with the verdicts that must come out."""
        return complete_examples()


def checks_of(rollout: Rollout) -> Checks:
    """The checks in a rollout's reference; `ConfigError` names the key that is wrong."""
    reference = rollout.reference
    name = reference.get("name")
    if name is not None and not isinstance(name, str):
        raise _wrong(rollout, "name", name, "text")
    for key in ("elements", "props"):
        value = reference.get(key, ())
        if not isinstance(value, list | tuple) or not all(isinstance(v, str) for v in value):
            raise _wrong(rollout, key, value, "a list of names")
    return Checks(name, tuple(reference.get("elements", ())), tuple(reference.get("props", ())))


def _wrong(rollout: Rollout, key: str, got: object, allowed: str) -> ConfigError:
    return ConfigError(f"reference of {rollout.id!r}: got {key} = {got!r}; allowed: {allowed}")


def _compare(checks: Checks, facts: Mapping[str, Any]) -> tuple[list[str], float]:
    """(what keeps it from being complete, share of the checks met); no checks are all met."""
    tags, props = facts.get("tags", {}), facts.get("props", ())
    lacks = [] if facts.get("returns_jsx") else ["returned JSX"]
    missing = [e for e in checks.elements if not tags.get(e)]
    met = [e not in missing for e in checks.elements]
    met += [p in props for p in checks.props]
    if checks.name is not None:
        met.append(facts.get("component") == checks.name)
    return lacks + [f"<{e}>" for e in missing], sum(met) / len(met) if met else 1.0
