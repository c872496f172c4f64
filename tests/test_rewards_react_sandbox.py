"""React rewards on the real compiler, where something here can isolate it."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from botgrpo.rewards import Composite, Design, Rollout, build
from botgrpo.rewards.react.compile import ReactCompile
from botgrpo.rewards.react.complete import ReactComplete
from botgrpo.rewards.tokens import TokenBytes
from botgrpo.rewards.validate import validate
from botgrpo.sandbox.errors import SandboxUnavailable
from botgrpo.sandbox.react import shared_compiler

CASES = Path(os.environ.get("BOTGRPO_CASES") or Path(__file__).parents[2] / "shared" / "cases")
GOOD = "```tsx\nexport default function App() { return <p>next</p>; }\n```\n"


@pytest.fixture(scope="module")
def backend() -> str:
    """The first kind of isolation that works here."""
    try:
        return _first_that_works("bubblewrap", "docker")
    except SandboxUnavailable as error:
        pytest.skip(f"no sandbox here: {error}")


def _first_that_works(name: str, *others: str) -> str:
    try:
        asyncio.run(shared_compiler(name).compile("export default () => null"))
    except SandboxUnavailable:
        if not others:
            raise
        return _first_that_works(*others)
    return name


def score(reward, *rollouts: Rollout):
    return asyncio.run(reward.score(rollouts))


@pytest.mark.parametrize(
    "reference",
    [
        "react.compile",
        "react.complete",
        "noise.gaussian(react.compile, sigma=0.5)",
        "noise.permute_lines(react.compile)",
        "noise.flip(react.compile, p=0.3)",
    ],
)
def test_every_built_in_reward_accepts_its_gold_and_refuses_what_was_tampered_with(
    backend, reference
):
    reward = build(reference, defaults={"backend": backend})
    checks = asyncio.run(validate(reward))
    failed = [check for check in checks if not check.ok]
    assert not failed
    # a noise does not promise to repeat itself, so that is not asked of it
    assert len(checks) >= 8 + reward.spec.deterministic
    assert ("repeatable" in {check.name for check in checks}) == reward.spec.deterministic


def cases():
    path = CASES / "react_verdicts.jsonl"
    if not path.exists():
        return [pytest.param({}, marks=pytest.mark.skip(reason=f"no shared cases at {path}"))]
    lines = path.read_text(encoding="utf-8").splitlines()
    return [pytest.param(case, id=case["id"]) for case in map(json.loads, lines)]


@pytest.mark.parametrize("case", cases())
def test_shared_cases_get_their_verdict_and_leave_the_next_candidate_alone(backend, case):
    reward = ReactCompile(backend)
    (judged,) = score(reward, Rollout(case["id"], "g", "p", case["completion"]))
    assert judged.verdict in case["compile"]
    assert judged.outcome == float(judged.verdict == "ok")
    # Another text each time, so that no cache answers for the worker.
    fresh = GOOD.replace("next", f"after {case['id']}")
    assert score(reward, Rollout("next", "g", "p", fresh))[0].verdict == "ok"


NOISE = st.text(
    st.one_of(
        st.sampled_from("\t \n\r\u2028\u2029\x0b\x0c\x85\ufeffé漢🤨\ud83d{}<>"),
        st.characters(exclude_characters="*/`\\"),
    ),
    max_size=40,
)
ONE_LINE = dict.fromkeys(map(ord, "\n\r\u2028\u2029"))
PLANTED = [("const b = ", ";", ";"), ("let k = 1; let ", "k", " = 2;"), ("", ")", "")]


@given(
    NOISE, NOISE.filter(lambda t: not set(t) & set("\n\r\u2028\u2029")), st.sampled_from(PLANTED)
)
@settings(max_examples=150, deadline=None)
def test_the_blame_lands_on_the_planted_error_in_any_unicode_program(
    backend, noise, same_line, planted
):
    before, wrong, after = planted
    head = f"漢🤨\n```tsx\n/*{noise}*/\n/*{same_line}*/ {before}"
    text = f"{head}{wrong}{after}\nexport default () => <p/>;\n```\n"
    (judged,) = score(ReactCompile(backend), Rollout("r", "g", "p", text))
    assert judged.verdict == "syntax"
    assert [(s.start, s.end) for s in judged.spans] == [(len(head), len(head) + len(wrong))]


def test_the_blamed_tokens_of_sampled_ids_cover_the_error(backend):
    text = "```tsx\nconst a = '🤨é漢', b = ;\nexport default () => <p/>;\n```\n"
    raw = text.encode()
    table = TokenBytes.from_pieces([raw[i : i + 3] for i in range(0, len(raw), 3)])
    decoded, token_spans = table.decode(range(len(table)))
    design = Design({"react.compile": 1.0}, {"react.compile": 1.0})
    rollout = Rollout("r", "g", "p", decoded, token_spans=token_spans)
    (judged,) = score(Composite(design, backend=backend), rollout)
    error = text.index("= ;") + 2
    assert judged.local is not None
    hit = [span for span, v in zip(token_spans, judged.local, strict=True) if v == -1.0]
    assert len(hit) == 1 and hit[0][0] <= error < hit[0][1]


def test_a_second_declaration_is_blamed_and_not_the_first(backend):
    text = "```tsx\nlet twin = 1;\nlet twin = 2;\nexport default () => <p/>;\n```"
    (judged,) = score(ReactCompile(backend), Rollout("r", "g", "p", text))
    assert [(s.start, s.end) for s in judged.spans] == [
        (text.rindex("twin"), text.rindex("twin") + 4)
    ]


def test_both_tags_of_a_mismatch_are_blamed_since_either_may_be_wrong(backend):
    text = (
        "```tsx\nexport default function App() {\n  return (\n    <main>\n"
        "      <small>Reset<small>\n      <p>x</p>\n    </main>\n  );\n}\n```\n"
    )
    (result,) = score(ReactCompile(backend), Rollout("a", "a", "p", text))
    assert [text[s.start - 1 : s.end + 1] for s in result.spans] == ["<small>", "/main>"]
    assert text.count("<small>") == 2
    assert result.spans[0].start > text.index("Reset")  # the one that should have closed


def test_every_unresolved_import_is_blamed(backend):
    text = (
        '```tsx\nimport a from "aa";\nimport b from "bb";\nexport default () => <p>{a}{b}</p>;\n```'
    )
    (judged,) = score(ReactCompile(backend), Rollout("r", "g", "p", text))
    assert [text[s.start : s.end] for s in judged.spans] == ['"aa"', '"bb"']


def test_the_shortest_component_that_compiles_is_not_complete(backend):
    trivial = Rollout("r", "g", "p", "```tsx\nexport default () => null\n```", {"elements": ["b"]})
    assert score(ReactCompile(backend), trivial)[0].outcome == 1.0
    judged = score(ReactComplete(backend), trivial)[0]
    assert judged.outcome == 0.0 and judged.verdict == "incomplete"
