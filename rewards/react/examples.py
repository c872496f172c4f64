"""Gold and tampered answers for the React rewards: what `validate` runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from botgrpo.rewards.base import Example, Rollout

_COUNTER = """import { useState } from "react";

export default function Counter({ title }) {
  const [n, setN] = useState(0);
  return (
    <section>
      <h2>{title}</h2>
      <button onClick={() => setN(n + 1)}>Clicked {n} times</button>
    </section>
  );
}
"""
_ASKED = {"name": "Counter", "elements": ["button", "h2"], "props": ["title"]}
_RIGHT, _NOTHING = (1.0, 1.0), (0.0, 0.0)


def compile_examples() -> Sequence[Example]:
    """For react.compile: one right answer, and it tampered with in one place each."""
    return (
        _example("gold", _COUNTER, "ok"),
        _tampered("unclosed-tag", "</h2>", "</h3>", "syntax", "h3"),
        _tampered("emoji-before", '"react";', '"react"; const a = "🤨é漢", b = ;', "syntax", ";"),
        _tampered("package", '"react"', '"super-charts-9000"', "resolve", '"super-charts-9000"'),
        _tampered("export-name", "useState", "useStat", "link", "useStat"),
        _tampered("declared-twice", "  return (", "  const n = 1;\n  return (", "syntax", "n"),
        _tampered("no-default", "export default ", "", "no_default_export"),
        _tampered("cut-off", "</section>\n  );\n}\n", "", "syntax", close=False),
        Example(_rollout("prose", "I would use a counter."), _NOTHING, "no_code", gold=False),
    )


def mounted_examples() -> Sequence[Example]:
    """For react.compile with `mount`: what compiles, and fails only when it runs."""
    return (
        *compile_examples(),
        _tampered("undefined", "<h2>{title}</h2>", "<Heading />", "runtime_error"),
        _tampered("render-loop", "  return (", "  setN(n + 1);\n  return (", "runtime_error"),
        _tampered("object-as-child", "{title}", "{{ title }}", "runtime_error"),
        _tampered("nothing-shown", "<section>", "<section hidden>", "blank"),
    )


def complete_examples() -> Sequence[Example]:
    """For react.complete: the right answer, one without an element, one that does not compile."""
    return (
        _example("gold", _COUNTER, "ok"),
        _tampered("no-button", "button", "span", "incomplete"),
        _tampered("trivial", _COUNTER, "export default () => null;\n", "incomplete"),
        _tampered("broken", "return (", "return", "syntax"),
    )


def eslint_examples() -> Sequence[Example]:
    """For react.eslint: the right answer, and it with one finding each of every severity."""
    hook = "  if (title) useState(1);\n  return ("
    return (
        Example(_fenced("gold", _COUNTER), (0.0, 0.0), "ok"),
        _linted(
            "cannot-be-read", '"react";', '"react"; const a = "🤨é漢", b = ;', -0.5, "fatal", ";"
        ),
        _linted("undefined", "<h2>", "<h2>{missing}", -0.1, "error", "missing"),
        _linted("hook-in-condition", "  return (", hook, -0.1, "error", "useState"),
        _linted(
            "unused", "  return (", "  const spare = 1;\n  return (", -0.02, "warning", "spare"
        ),
        Example(_rollout("prose", "I would use a counter."), (-0.5, -0.5), "no_code", gold=False),
    )


def judge_examples() -> Sequence[Example]:
    """For judges that read the code: the right answer, an empty page, and prose."""
    empty = "export default function Counter() {\n  return <div></div>;\n}\n"
    return (
        Example(_fenced("gold", _COUNTER), (0.5, 1.0)),
        Example(_fenced("empty-page", empty), (-0.3, 0.45), gold=False),
        Example(_rollout("prose", "I would use a counter."), (-0.3, -0.3), gold=False),
    )


def vlm_examples() -> Sequence[Example]:
    """For judges that see the page: the right answer; pages that nobody has to see; prose."""
    return (
        Example(_fenced("gold", _COUNTER), (0.5, 1.0), "judged"),
        _unseen("nothing-shown", "<section>", "<section hidden>", 0.0, "blank"),
        _unseen("undefined", "<h2>{title}</h2>", "<Heading />", -0.3, "runtime_error"),
        _unseen("unclosed-tag", "</h2>", "</h3>", -0.3, "syntax"),
        Example(_rollout("prose", "I would use a counter."), (-0.3, -0.3), "no_code", gold=False),
    )


def stack_examples(gold: tuple[float, float], broken: tuple[float, float]) -> Sequence[Example]:
    """For stacks of rewards: the right answer, and what does not compile."""
    return (
        Example(_fenced("gold", _COUNTER), gold, "ok"),
        replace(_tampered("unclosed-tag", "</h2>", "</h3>", "syntax"), outcome=broken),
    )


def _example(name: str, code: str, verdict: str) -> Example:
    return Example(_fenced(name, code), _RIGHT, verdict)


def _tampered(
    name: str, old: str, new: str, verdict: str, blames: str | None = None, *, close: bool = True
) -> Example:
    code = _COUNTER.replace(old, new)
    assert code != _COUNTER
    fence = "```\n" if close else ""
    rollout = _rollout(name, f"Here it is:\n\n```tsx\n{code}{fence}", _ASKED)
    return Example(rollout, _NOTHING, verdict, blames, gold=False)


def _linted(name: str, old: str, new: str, outcome: float, verdict: str, blames: str) -> Example:
    code = _COUNTER.replace(old, new, 1)
    assert code != _COUNTER
    return Example(_fenced(name, code), (outcome, outcome), verdict, blames, gold=False)


def _unseen(name: str, old: str, new: str, outcome: float, verdict: str) -> Example:
    code = _COUNTER.replace(old, new)
    assert code != _COUNTER
    return Example(_fenced(name, code), (outcome, outcome), verdict, gold=False)


def _fenced(name: str, code: str) -> Rollout:
    return _rollout(name, f"Here it is:\n\n```tsx\n{code}```\n", _ASKED)


def _rollout(name: str, completion: str, reference: Mapping[str, Any] | None = None) -> Rollout:
    return Rollout(name, "examples", "Write a counter.", completion, reference or {})
