"""react.eslint by hand, and the further places of react.compile(typescript=True)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from botgrpo.rewards import Rollout, Score, build
from botgrpo.rewards.react.compile import ReactCompile
from botgrpo.rewards.react.eslint import ReactEslint
from botgrpo.rewards.spans import project
from botgrpo.rewards.validate import validate
from botgrpo.sandbox.base import DEFAULT_LIMITS
from botgrpo.sandbox.bubblewrap import Bubblewrap
from botgrpo.sandbox.checker import CheckResult, Finding, ReactChecker
from botgrpo.sandbox.errors import SandboxUnavailable
from botgrpo.sandbox.react import ReactCompiler


class Told:
    """A checker that says what it was told to say."""

    def __init__(self, answer: CheckResult | SandboxUnavailable) -> None:
        self.answer = answer

    async def check(self, source: str) -> CheckResult:
        if isinstance(self.answer, SandboxUnavailable):
            raise self.answer
        return self.answer


@pytest.fixture(scope="module")
def checker() -> Iterator[ReactChecker]:
    try:
        Bubblewrap(DEFAULT_LIMITS).check()
    except SandboxUnavailable as error:
        pytest.skip(f"bubblewrap: {error}")
    made = ReactChecker("bubblewrap")
    yield made
    made.close()


def fenced(code: str) -> str:
    return f"漢🤨 Here:\n```tsx\n{code}```\n"


def score(reward: object, text: str, **fields: object) -> Score:
    (judged,) = asyncio.run(reward.score([Rollout("r", "g", "p", text, **fields)]))  # type: ignore
    return judged


def linted(answer: CheckResult | SandboxUnavailable, code: str = "a b c\n") -> Score:
    return score(ReactEslint(checker=Told(answer)), fenced(code))  # type: ignore[arg-type]


def finding(severity: str, column: int = 0, length: int = 1, line: int = 1) -> Finding:
    return Finding("eslint", "rule", severity, "wrong", line, column, length)  # type: ignore


def test_the_weights_are_the_papers_and_add_up() -> None:
    found = [finding("fatal"), finding("error", 2), finding("error", 4), finding("warning", 4)]
    judged = linted(CheckResult("checked", tuple(found)))
    assert judged.outcome == pytest.approx(-0.5 - 0.1 - 0.1 - 0.02)
    assert judged.verdict == "fatal"
    assert judged.metrics == {"fatal": 1.0, "error": 2.0, "warning": 1.0}
    text = fenced("a b c\n")
    start = text.index("a b c")
    places = [(s.start - start, s.end - start, s.value) for s in judged.spans]
    assert places == [(0, 1, -0.5), (2, 3, -0.1), (4, 5, -0.1), (4, 5, -0.02)]


def test_contributions_on_one_line_add_up_and_fade_with_distance() -> None:
    code = "one\ntwo two\nthree\n"
    found = (finding("error", 0, 3, line=2), finding("warning", 4, 3, line=2))
    judged = linted(CheckResult("checked", found), code)
    text = fenced(code)
    tokens = [(text.index(word), text.index(word) + len(word)) for word in ("one", "two", "three")]
    by_line = project(judged.spans, tokens, text, decay_lines=1).tolist()
    assert by_line == pytest.approx([-0.06, -0.12, -0.06])
    exact = project(judged.spans, tokens, text).tolist()
    assert exact == pytest.approx([0.0, -0.1, 0.0])


def test_the_outcome_goes_no_lower_than_minus_one() -> None:
    judged = linted(CheckResult("checked", (finding("error"),) * 50))
    assert judged.outcome == -1.0 and len(judged.spans) == 50


def test_types_are_not_eslints_business() -> None:
    other = Finding("typescript", "TS2304", "error", "Cannot find name", 1, 0, 1)
    judged = linted(CheckResult("checked", (other,)))
    assert (judged.outcome, judged.verdict, judged.spans) == (0.0, "ok", ())


def test_a_place_past_the_code_is_its_last_character() -> None:
    judged = linted(CheckResult("checked", (finding("fatal", 0, 0, 9),)), "ab \n")
    text = fenced("ab \n")
    assert [text[s.start : s.end] for s in judged.spans] == ["b"]


@pytest.mark.parametrize("status", ["too_large", "timeout", "oom", "crash"])
def test_what_cannot_be_linted_counts_as_one_fatal_finding(status: str) -> None:
    judged = linted(CheckResult(status, reason="why"))
    assert (judged.outcome, judged.verdict, judged.spans) == (-0.5, status, ())
    assert score(ReactEslint(checker=Told(CheckResult("checked"))), "prose").outcome == -0.5  # type: ignore


@pytest.mark.parametrize(
    "answer",
    [CheckResult("infra_error", reason="we failed"), SandboxUnavailable("nothing isolates")],
)
def test_our_own_failure_is_unscored(answer: CheckResult | SandboxUnavailable) -> None:
    judged = linted(answer)
    assert judged.outcome is None and judged.reason and not judged.local_scored


def test_it_accepts_its_gold_and_refuses_what_was_tampered_with(checker: ReactChecker) -> None:
    checks = asyncio.run(validate(ReactEslint(checker=checker)))
    assert [check for check in checks if not check.ok] == []


def test_it_can_be_named() -> None:
    assert build("react.eslint", defaults={"backend": "unsafe"}).spec.local_range == (-0.5, 0.0)


@pytest.mark.parametrize(
    "code",
    [
        "const f: HTMLInputElement | null = null;\nexport default () => <p>{f?.value}</p>;",
        "export default function A(props: React.PropsWithChildren<{ a: Record<string, Date> }>) {\n"
        "  const e: EventListenerOrEventListenerObject = () => {};\n"
        "  window.addEventListener('x', e);\n  return <svg>{props.children}</svg>;\n}",
        "export default ({ a }: { a: JSX.Element }) => { fetch('/x'); return <>{a}</>; };",
        "enum Tone { Dark, Light }\nexport default () => <p>{Tone.Dark satisfies number}</p>;",
        "type Pick = { onPick: (name: string) => void };\n"
        "export default ({ onPick }: Pick) => <b onClick={() => onPick('a')}>x</b>;",
        "import React from 'react';\nexport default () => <p>{structuredClone([1])}</p>;",
        "const first = <T,>(xs: T[]): T => xs[0];\nexport default () => <b>{first(['a'])}</b>;",
    ],
)
def test_what_a_browser_and_typescript_know_is_not_undefined(
    checker: ReactChecker, code: str
) -> None:
    judged = score(ReactEslint(checker=checker), fenced(f"{code}\n"))
    assert (judged.verdict, judged.reason) == ("ok", "")


def compiled(checker: object, text: str, **fields: object) -> tuple[Score, Score]:
    """Without and with TypeScript's places."""
    compiler = ReactCompiler("bubblewrap")
    plain = score(ReactCompile(compiler=compiler), text, **fields)
    more = score(ReactCompile(compiler=compiler, checker=checker), text, **fields)  # type: ignore
    compiler.close()
    return plain, more


def test_typescript_adds_the_syntax_errors_after_the_first(checker: ReactChecker) -> None:
    text = fenced(
        'const é = "🤨"; const a = ;\nconst b = ;\nconst c = ;\nexport default () => 1;\n'
    )
    plain, more = compiled(checker, text)
    assert [s.start for s in plain.spans] == [text.index("= ;") + 2]
    assert [text[s.start : s.end] for s in more.spans] == [";"] * 3
    assert (plain.outcome, plain.verdict, plain.reason) == (more.outcome, more.verdict, more.reason)
    assert all(span.value == -1.0 for span in more.spans)


@pytest.mark.parametrize(
    "text",
    [
        fenced("export default () => <p>x</p>;\n"),
        fenced("import a from 'aa';\nexport default () => <p>{a}</p>;\n"),
        "```tsx\nexport default function App() {\n  return <div><p>cut off",
    ],
)
def test_typescript_adds_nothing_without_a_syntax_error_or_where_the_source_was_cut(
    checker: ReactChecker, text: str
) -> None:
    plain, more = compiled(checker, text)
    assert plain.spans == more.spans and plain.verdict == more.verdict


def test_without_typescript_the_outcome_stands_and_the_places_are_unknown() -> None:
    try:
        Bubblewrap(DEFAULT_LIMITS).check()
    except SandboxUnavailable as error:
        pytest.skip(f"bubblewrap: {error}")
    for answer in (CheckResult("infra_error", reason="lost"), SandboxUnavailable("gone")):
        _, more = compiled(Told(answer), fenced("const a = ;\n"))
        assert (more.outcome, more.verdict, more.spans) == (0.0, "syntax", ())
        assert not more.local_scored and more.reason in ("lost", "gone")
