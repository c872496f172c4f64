"""React rewards against a stand-in for the compiler: what is made of its answers."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from botgrpo.rewards import Composite, Design, Rollout, Score, local_of
from botgrpo.rewards.react.compile import ReactCompile
from botgrpo.rewards.react.complete import ReactComplete
from botgrpo.sandbox.errors import ConfigError, SandboxUnavailable
from botgrpo.sandbox.react import CompileResult, Diagnostic

CODE = "const a = '🤨é漢';\nconst b = ;\nexport default () => <p/>;\n"
COMPLETION = f"漢 Here:\n```tsx\n{CODE}```\n"
FACTS = {"component": "Tally", "returns_jsx": True, "tags": {"button": 2}, "props": ["title"]}


class StandIn:
    """Answers every source with one result, in place of a sandboxed compiler."""

    def __init__(self, result: CompileResult | Exception) -> None:
        self.result = result
        self.sources: list[str] = []

    async def compile(self, source: str) -> CompileResult:
        self.sources.append(source)
        if isinstance(self.result, Exception):
            raise self.result
        return self.result


def at(line: int, column: int, length: int, kind: str = "syntax", unit="utf8") -> Diagnostic:
    return Diagnostic(kind, f"line {line}", line, column, length, unit)


def compile_with(*diagnostics: Diagnostic, rollout: Rollout | None = None) -> Score:
    result = CompileResult(diagnostics[0].kind, diagnostics, reason=diagnostics[0].message)
    return run(ReactCompile(compiler=StandIn(result)), rollout)


def run(reward, rollout: Rollout | None = None) -> Score:
    (score,) = asyncio.run(reward.score([rollout or Rollout("r", "g", "p", COMPLETION)]))
    return score


def blamed(score: Score, text: str = COMPLETION) -> list[str]:
    return [text[s.start : s.end] for s in score.spans]


@pytest.mark.parametrize(
    "diagnostic", [at(1, 10, 11), at(1, 10, 6, unit="utf16")], ids=["bytes", "utf16"]
)
def test_a_place_in_the_code_is_found_in_the_completion_in_code_points(diagnostic):
    score = compile_with(diagnostic)
    assert blamed(score) == ["'🤨é漢'"]
    assert score.outcome == 0.0 and score.verdict == "syntax"
    assert score.spans[0].value == -1.0 and score.spans[0].label == "syntax: line 1"


def test_only_the_first_syntax_error_counts():
    score = compile_with(at(2, 10, 1), at(3, 0, 6), at(1, 0, 5))
    assert blamed(score) == [";"]


def test_every_import_that_fails_counts_once_a_place():
    score = compile_with(at(1, 0, 5, "link"), at(1, 0, 5, "link"), at(3, 0, 6, "link"))
    assert blamed(score) == ["const", "export"]
    assert all(s.value == -1.0 for s in score.spans)


def test_overlapping_places_become_one_span():
    assert blamed(compile_with(at(1, 0, 7, "link"), at(1, 6, 3, "link"))) == ["const a ="]


@pytest.mark.parametrize("place", [(4, 0, 0), (9, 3, 2), (3, 26, 0)])
def test_an_error_at_the_end_counts_as_truncated_on_the_last_character_of_the_code(place):
    score = compile_with(at(*place))
    assert blamed(score) == [";"] and score.spans[0].end == COMPLETION.index("\n```\n")
    assert score.spans[0].label.startswith("syntax (truncated)")
    assert score.spans[0].value == -1.0


def test_where_the_length_limit_cut_the_completion_its_end_is_not_blamed():
    cut = Rollout("r", "g", "p", "```tsx\nexport defa", finish_reason="length")
    score = compile_with(at(1, 11, 0), rollout=cut)
    assert score.spans[0].value == 0.0 and score.outcome == 0.0
    assert score.metrics["truncated"] == 1.0


def test_a_place_without_length_reaches_its_enclosing_token():
    tokens = tuple((i, min(i + 4, len(COMPLETION))) for i in range(0, len(COMPLETION), 4))
    rollout = Rollout("r", "g", "p", COMPLETION, token_spans=tokens)
    reward = ReactCompile(compiler=StandIn(CompileResult("syntax", (at(2, 10, 0),))))
    values = local_of(reward, rollout, run(reward, rollout))
    at_error = COMPLETION.index("= ;") + 2
    assert [t for t, v in zip(tokens, values, strict=True) if v] == [
        (at_error // 4 * 4, at_error // 4 * 4 + 4)
    ]


def known(status: str, *diagnostics, completion: str = COMPLETION, **fields) -> list[float | None]:
    """Values of one token a character and an end token, of what is known alone."""
    tokens = (*((i, i + 1) for i in range(len(completion))), (len(completion),) * 2)
    rollout = Rollout("r", "g", "p", completion, token_spans=tokens, **fields)
    reward = ReactCompile(compiler=StandIn(CompileResult(status, diagnostics)), known_only=True)
    return list(local_of(reward, rollout, run(reward, rollout)) or ())


def test_behind_a_syntax_error_nothing_is_known():
    values = known("syntax", at(2, 10, 1))
    error = COMPLETION.index("= ;") + 2
    assert values[:error] == [0.0] * error and values[error] == -1.0
    assert values[error + 1 :] == [None] * (len(COMPLETION) - error)


def test_a_failure_without_a_place_or_cut_off_says_nothing_of_any_token():
    assert set(known("no_default_export")) == {None}
    assert set(known("syntax", at(4, 0, 0))) == {None}  # the end of the file, wherever the fault is
    assert set(known("syntax", at(1, 11, 0), completion="```tsx\nexport defa")) == {None}
    assert set(known("syntax", at(2, 10, 1), finish_reason="length")) == {None}


def test_what_was_read_to_its_end_is_known():
    assert set(known("ok")) == {0.0}
    assert set(known("resolve", at(2, 10, 1, kind="resolve"))) == {0.0, -1.0}


@pytest.mark.parametrize(
    "status",
    ["no_default_export", "not_a_component", "too_large", "timeout", "oom", "crash"],
)
def test_verdicts_without_a_place_are_wrong_without_spans(status):
    score = run(ReactCompile(compiler=StandIn(CompileResult(status))))
    assert (score.outcome, score.verdict, score.spans) == (0.0, status, ())
    assert score.metrics["compile"] == 0.0


def test_no_code_is_wrong_and_asks_no_compiler():
    stand_in = StandIn(CompileResult("ok"))
    score = run(ReactCompile(compiler=stand_in), Rollout("r", "g", "p", "Sure!"))
    assert (score.outcome, score.verdict) == (0.0, "no_code") and stand_in.sources == []


def test_only_the_code_reaches_the_compiler():
    stand_in = StandIn(CompileResult("ok"))
    score = run(ReactCompile(compiler=stand_in))
    assert stand_in.sources == [CODE]
    assert score.outcome == 1.0 and score.metrics == {
        "compile": 1.0,
        "chars": float(len(CODE)),
        "truncated": 0.0,
    }


@pytest.mark.parametrize(
    "result",
    [CompileResult("infra_error", reason="worker lost"), SandboxUnavailable("worker lost")],
)
@pytest.mark.parametrize("kind", [ReactCompile, ReactComplete])
def test_a_failure_of_the_sandbox_is_unscored_and_never_a_zero(kind, result):
    score = run(kind(compiler=StandIn(result)))
    assert score.outcome is None and not score.local_scored
    assert (score.verdict, score.reason) == ("infra_error", "worker lost")
    assert "compile" not in score.metrics


def complete(reference: dict, status: str = "ok", **facts) -> Score:
    stand_in = StandIn(CompileResult(status, facts={**FACTS, **facts}))
    return run(ReactComplete(compiler=stand_in), Rollout("r", "g", "p", COMPLETION, reference))


def test_complete_needs_every_element_and_says_what_lacks():
    assert complete({"elements": ["button"]}).outcome == 1.0
    score = complete({"elements": ["button", "h2", "ul"]})
    assert score.outcome == 0.0 and score.verdict == "incomplete"
    assert score.reason == "lacks <h2>, <ul>"


def test_complete_needs_jsx_to_come_back():
    score = complete({}, returns_jsx=False)
    assert score.outcome == 0.0 and score.reason == "lacks returned JSX"


def test_match_is_the_share_of_checks_and_names_do_not_decide():
    reference = {"name": "Other", "elements": ["button"], "props": ["title", "step"]}
    score = complete(reference)
    assert score.outcome == 1.0
    assert score.metrics["match"] == 0.5 and score.metrics["complete"] == 1.0
    assert complete({}).metrics["match"] == 1.0
    assert complete(reference, status="syntax").metrics["match"] == 0.0


@pytest.mark.parametrize("wrong", [{"name": 3}, {"elements": "button"}, {"props": [1]}])
def test_a_reference_of_another_form_is_named(wrong):
    with pytest.raises(ConfigError, match=f"reference of 'r': got {next(iter(wrong))}"):
        complete(wrong)


def test_complete_has_no_local_signal_and_pairs_with_that_of_compile():
    result = CompileResult("syntax", (at(2, 10, 1),), reason="x")
    design = Design({"react.complete": 1.0}, {"react.compile": 1.0})
    parts = {
        "react.complete": ReactComplete(compiler=StandIn(result)),
        "react.compile": ReactCompile(compiler=StandIn(result)),
    }
    tokens = ((0, len(COMPLETION)),)
    (score,) = asyncio.run(
        Composite(design, parts).score(
            [replace(Rollout("r", "g", "p", COMPLETION), token_spans=tokens)]
        )
    )
    assert score.outcome == 0.0 and score.local == (-1.0,)
    with pytest.raises(ConfigError, match="no local signal"):
        Composite(Design({"react.compile": 1.0}, {"react.complete": 1.0}), parts)
