"""`react.form`: does the answer look like one? Nothing of it is compiled.

An anchor for comparisons: a policy that learns this alone has learned how to be paid, not how to
write components. It needs no sandbox.
"""

from __future__ import annotations

from collections.abc import Sequence

from botgrpo.rewards.base import Example, RewardSpec, Rollout, Score
from botgrpo.rewards.react.extract import extract

_FILE = "export default function A() {\n  return <p>a</p>;\n}\n"


class ReactForm:
    """1 if the last React block is fenced, closed and holds `export default`, whatever else it is.

    Verdicts: ok, no_code, unclosed, no_default_export.
    """

    spec = RewardSpec(
        name="react.form",
        version="1",
        outcome_range=(0.0, 1.0),
        summary="1 if there is a closed React block with a default export; nothing is compiled",
    )

    async def score(self, rollouts: Sequence[Rollout]) -> list[Score]:
        """One score a rollout, from its text alone."""
        return [Score(r.id, float((v := _verdict(r.completion)) == "ok"), v) for r in rollouts]

    def examples(self) -> Sequence[Example]:
        """A right answer, a broken one that still looks right, and three that do not."""
        broken = _FILE.replace("</p>", "<p>")
        return [
            _example("gold", f"```tsx\n{_FILE}```", "ok"),
            _example("looks-right", f"```tsx\n{broken}```", "ok"),
            _example("unclosed", f"```tsx\n{_FILE}", "unclosed"),
            _example("no-fence", "A component shows a paragraph.", "no_code"),
            _example(
                "no-default", f"```tsx\n{_FILE.replace(' default', '')}```", "no_default_export"
            ),
        ]


def _verdict(completion: str) -> str:
    found = extract(completion)
    if found is None or not found.fenced:
        return "no_code"
    if found.truncated:
        return "unclosed"
    return "ok" if "export default" in found.code else "no_default_export"


def _example(name: str, text: str, verdict: str) -> Example:
    right = float(verdict == "ok")
    rollout = Rollout(name, name, "Write a component.", text)
    return Example(rollout, (right, right), verdict, gold=verdict == "ok")
