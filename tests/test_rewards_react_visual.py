"""`react.visual`: shares, weights and spans by hand, requirements as records, and real pages."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from botgrpo.rewards import Rollout, build
from botgrpo.rewards.pictures import collecting
from botgrpo.rewards.react.extract import Extraction, extract
from botgrpo.rewards.react.opening_tag import opening_tag
from botgrpo.rewards.react.requirements import Requirements, requirements_of
from botgrpo.rewards.react.visual import (
    WEIGHTS,
    ReactVisual,
    blame,
    losses_of,
    shares_of,
    weights_of,
)
from botgrpo.rewards.react.visual_examples import visual_examples
from botgrpo.rewards.validate import validate
from botgrpo.sandbox import chromium
from botgrpo.sandbox.browser import ReactBrowser
from botgrpo.sandbox.errors import ConfigError, SandboxUnavailable
from botgrpo.sandbox.inspection import CHECKS, Action, Blemish, Check, Inspection, State

CLEAN = {name: Check(0, 4) for name in CHECKS}


def inspected(shown: str = "", states: tuple[State, ...] = (), **checks: Check) -> Inspection:
    now = State(shown, (("button", "Add item"), ("image", "logo")))
    return Inspection(True, now, {"h1": 1}, {**CLEAN, **checks}, states)


def asked(reference: dict) -> Requirements:
    return requirements_of(Rollout("r", "g", "p", "c", reference))


def test_the_outcome_is_the_weighted_share_of_the_checks_that_apply() -> None:
    seen = inspected("Total 3", contrast=Check(1, 4), names=Check(0, 0), overflow=Check(1, 1))
    page = {"texts": ["total", "missing"], "roles": [{"role": "button", "name": "ADD"}]}
    shares, missing = shares_of(seen, asked({"page": page}))
    assert missing == ['text "missing"']
    assert shares == {
        "mounted": 1.0,
        "required": pytest.approx(2 / 3),
        "text": 1.0,
        "contrast": 0.75,
        "overflow": 0.0,
        "clipping": 1.0,
        "overlap": 1.0,
    }
    losses = losses_of(shares, WEIGHTS)
    # .9 of the weights apply: required .3, contrast .1, overflow .05 of them lose something
    assert losses["required"] == pytest.approx(0.3 / 3 / 0.9)
    assert losses["contrast"] == pytest.approx(0.1 * 0.25 / 0.9)
    assert losses["overflow"] == pytest.approx(0.05 / 0.9)


def test_a_page_of_too_many_elements_keeps_the_weight_of_mounting_alone() -> None:
    shares, _ = shares_of(Inspection(False), asked({"page": {"texts": ["x"]}}))
    assert 1 - math.fsum(losses_of(shares, WEIGHTS).values()) == pytest.approx(0.2)
    assert math.fsum(WEIGHTS.values()) == pytest.approx(1.0)


@pytest.mark.parametrize(
    "wrong",
    [{"colour": 1.0}, {"text": -1.0}, {"text": math.nan}, {"text": math.inf}, {"mounted": 0}],
)
def test_a_wrong_weight_is_refused(wrong: dict) -> None:
    with pytest.raises(ConfigError, match="allowed"):
        weights_of(wrong)


CODE = "export default () => <main>\n  <p className='a'>漢</p><button />\n</main>;\n"


def extraction() -> Extraction:
    found = extract(f"🤨 here:\n```tsx\n{CODE}```\n")
    assert found is not None
    return found


CHECKED = st.integers(0, 40).flatmap(
    lambda total: st.builds(
        Check,
        st.integers(0, total),
        st.just(total),
        st.lists(
            st.builds(
                Blemish,
                st.text(max_size=5),
                st.sampled_from([None, (1, 22), (2, 3), (2, 25), (7, 7), (0, 0), (2, 10**6)]),
            ),
            max_size=30,
        ).map(tuple),
    )
)


@given(
    st.fixed_dictionaries({name: CHECKED for name in CHECKS}),
    st.fixed_dictionaries({name: st.floats(0, 9) for name in WEIGHTS if name != "mounted"}),
    st.integers(0, 3),
)
@settings(max_examples=200, deadline=None)
def test_spans_cost_no_more_than_the_outcome_lost_and_lie_on_opening_tags(
    checks: dict, weights: dict, texts: int
) -> None:
    seen = inspected("t0 t1", **checks)
    shares, _ = shares_of(seen, asked({"page": {"texts": [f"t{i}" for i in range(texts)]}}))
    losses = losses_of(shares, weights_of(weights))
    lost = math.fsum(losses.values())
    assert -1e-12 <= lost <= 1 + 1e-12
    code = extraction()
    text = f"🤨 here:\n```tsx\n{CODE}```\n"
    spans = blame(code, seen, {**dict.fromkeys(CHECKS, 0.0), **losses})
    assert math.fsum(span.value for span in spans) >= -lost - 1e-9
    assert {text[s.start : s.end] for s in spans} <= {"<main>", "<p className='a'>", "<button />"}
    assert all(-1 <= span.value <= 0 for span in spans)


def test_what_a_check_lost_is_what_its_spans_cost_when_all_have_a_place() -> None:
    pale = [Blemish("pale", (2, 3))] * 3 + [Blemish("pale", (2, 25))]
    seen = inspected(contrast=Check(4, 8, tuple(pale)))
    losses = losses_of(shares_of(seen, Requirements())[0], WEIGHTS)
    assert losses["contrast"] == pytest.approx(0.1 * 0.5 / 0.7)
    first, second = blame(extraction(), seen, losses)
    assert first.value == pytest.approx(3 * second.value)
    assert first.value + second.value == pytest.approx(-losses["contrast"])
    assert first.label == "contrast: pale (3 times)" and second.label == "contrast: pale"


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("<p>x", "<p>"),
        ("<br/> y>", "<br/>"),
        ("<p title='a > b' x>", "<p title='a > b' x>"),
        ("<p onClick={() => a > b}>x", "<p onClick={() => a > b}>"),
        ("<p a={{ b: '}' }}>x", "<p a={{ b: '}' }}>"),
        ("<p a={`}${b}>`}>x", "<p a={`}${b}>`}>"),
        ("<p a={/* > } */ 1}>x", "<p a={/* > } */ 1}>"),
        ("<p\n  a='b'\n>x", "<p\n  a='b'\n>"),
        ("<a.b-c:d e>", "<a.b-c:d e>"),
        ("<p icon={<b>don't</b>}>x", "<p icon={<b>don't</b>}>"),
        ("<p " + "a " * 2000 + ">", "<p"),
        ("<p", "<p"),
        ("<p }", "<p"),
    ],
)
def test_an_opening_tag_ends_where_it_does(text: str, want: str) -> None:
    assert opening_tag(f"漢{text}", 1) == (1, 1 + len(want))


@pytest.mark.parametrize("text", ["", "p>", "<", "</p>", "<>", "< p>", "<3"])
def test_what_opens_no_element_has_no_tag(text: str) -> None:
    assert opening_tag(text, 0) is None


@given(st.text("<>{}'\"`\\/* =\nabc", max_size=300), st.integers(0, 310))
def test_any_text_has_an_opening_tag_inside_it_or_none(text: str, start: int) -> None:
    found = opening_tag(text, start)
    assert found is None or (found[0] == start < found[1] <= len(text) and text[start] == "<")


STEP = {"do": [{"click": {"role": "button", "name": "Add"}}], "then": {"texts": ["1"]}}


def test_a_record_becomes_actions_and_a_wish() -> None:
    do = [
        {"fill": {"role": "textbox", "name": "Item"}, "with": "milk"},
        {"press": "Enter"},
        {"click": {"role": "img"}},
    ]
    found = asked({"page": {"steps": [{"do": do, "then": {"gone": ["Nothing"]}}]}})
    assert found.wish().steps == (
        (
            Action("fill", "textbox", "Item", "milk"),
            Action("press", text="Enter"),
            Action("click", "image"),
        ),
    )
    assert found.wish().roles and not asked({}).wish().roles


@pytest.mark.parametrize(
    ("state", "met"),
    [
        (State("Total 1"), True),
        (State("Total 2"), False),
        (State("Total 1", problem="an error"), False),
        (None, False),
    ],
)
def test_a_step_is_met_by_what_comes_of_it(state: State | None, met: bool) -> None:
    found = asked({"page": {"steps": [STEP]}})
    missing, total = found.unmet(inspected("Total 0", (state,) if state else ()))
    assert (not missing, total) == (met, 1)


def test_a_step_whose_end_was_there_before_it_is_not_met() -> None:
    found = asked({"page": {"steps": [STEP, STEP]}})
    already = found.unmet(inspected("Total 1", (State("Total 1"), State("Total 1"))))
    assert already == (["step 1", "step 2"], 2)
    # and a step that a problem hid is not what the next one is compared with
    third = asked({"page": {"steps": [STEP, STEP]}})
    assert third.unmet(inspected("1", (State(problem="lost"), State("1"))))[0] == [
        "step 1 (lost)",
        "step 2",
    ]


def test_texts_are_compared_without_case_and_with_blanks_as_one() -> None:
    found = asked({"elements": ["h1", "nav"], "page": {"texts": ["total\n  COST", "straße"]}})
    seen = inspected("Your Total Cost: STRASSE")
    assert found.unmet(seen) == (["<nav>"], 4)


@pytest.mark.parametrize(
    "page",
    [
        *([], {"text": ["x"]}, {"texts": "x"}, {"texts": [1]}, {"texts": [" "]}, {"steps": [{}]}),
        *({"texts": ["x" * 201]}, {"texts": ["x"] * 21}, {"roles": [{"role": "B<"}]}),
        *({"roles": [{}]}, {"roles": ["button"]}, {"steps": [STEP] * 9}),
        {"steps": [{**STEP, "then": {}}]},
        {"steps": [{**STEP, "do": []}]},
        {"steps": [{**STEP, "do": [{"press": "F12"}]}]},
        {"steps": [{**STEP, "do": [{"press": ["Enter"]}]}]},
        {"steps": [{**STEP, "do": [{"fill": {"role": "textbox"}}]}]},
        {"steps": [{**STEP, "do": [{"click": {"role": "button"}, "press": "Enter"}]}]},
    ],
)
def test_a_record_of_another_form_is_refused_by_name(page: object) -> None:
    with pytest.raises(ConfigError, match=r"reference of 'r': got .* allowed: "):
        asked({"page": page})


def test_where_no_browser_is_nothing_is_scored(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("BOTGRPO_CHROMIUM", str(tmp_path / "none"))
    chromium.files.cache_clear()
    reward = ReactVisual(browser=ReactBrowser("unsafe"))
    rollouts = [example.rollout for example in visual_examples()]
    scores = asyncio.run(reward.score(rollouts))
    monkeypatch.undo()
    chromium.files.cache_clear()
    assert {score.outcome for score in scores} == {None}
    assert all("no Chromium" in score.reason for score in scores)


@pytest.fixture(
    scope="module", params=["bubblewrap", pytest.param("docker", marks=pytest.mark.docker)]
)
def reward(request: pytest.FixtureRequest) -> ReactVisual:
    made = build("react.visual", defaults={"backend": request.param})
    assert isinstance(made, ReactVisual)
    try:
        asyncio.run(made._browser.ready())
    except SandboxUnavailable as error:
        pytest.skip(f"{request.param}: {error}")
    return made


@pytest.mark.browser
def test_it_accepts_its_gold_and_finds_what_was_tampered_with(reward: ReactVisual) -> None:
    checks = asyncio.run(validate(reward))
    assert [check for check in checks if not check.ok] == []
    assert len(checks) >= 9


@pytest.mark.browser
def test_a_page_offers_its_picture_and_a_share_for_each_check(reward: ReactVisual) -> None:
    gold = visual_examples()[0].rollout
    with collecting() as pictures:
        (score,) = asyncio.run(reward.score([gold]))
    assert pictures["gold"].startswith(b"\x89PNG")
    assert set(score.metrics) == set(WEIGHTS) and set(score.metrics.values()) == {1.0}


NOISE = st.text(
    st.one_of(
        st.sampled_from("\t \u2028\u2029\r\n\x0b\x0c\x85\ufeffé漢🤨<>"),
        st.characters(exclude_characters="*/`\\", exclude_categories=["Cs"]),
    ),
    max_size=30,
)


@pytest.mark.browser
@given(NOISE, NOISE)
@settings(max_examples=15, deadline=None, derandomize=True)
def test_the_blame_lands_on_the_tag_in_any_unicode_program(
    reward: ReactVisual, noise: str, more: str
) -> None:
    tag = "<b style={{ color: '#ccc' }}>"
    head = f"漢🤨\n```tsx\n/*{noise}*/\nexport default () => <p>/*{{/*{more}*/ 1}} "
    text = f"{head}{tag}pale</b> </p>;\n```\n"
    if text.count("```") != 2:
        return
    (score,) = asyncio.run(reward.score([Rollout("r", "g", "p", text)]))
    blamed = [s for s in score.spans if s.label.startswith("contrast")]
    assert [text[s.start : s.end] for s in blamed] == [tag], score
