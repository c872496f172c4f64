"""The page of `botgrpo score --html`: exact, whole, small enough, and it runs nothing."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from botgrpo.benchmarks import cli, view
from botgrpo.benchmarks.report import rows
from botgrpo.benchmarks.report.runs import Run, exact, runs, shortened
from botgrpo.benchmarks.view import view_html, write_view
from botgrpo.rewards import RewardSpec, Rollout, Score, Span, picture, pictures, project
from botgrpo.sandbox.errors import ConfigError
from test_benchmarks_report import CHROMIUM, HOSTILE

SPEC = RewardSpec("test.view", "3", (0.0, 1.0), (-1.0, 1.0), summary="for the page")
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
STEPS = "<step 1>1 + 1 = 2</step>\n<step 2>2 * 3 = 7</step>\n<step 3>so it is odd</step>\n"


def tokens_of(text: str) -> tuple[tuple[int, int], ...]:
    """Words, gaps and signs, as a tokenizer might cut them, and an end token without text."""
    found = [m.span() for m in re.finditer(r"\s?\w+|\s|[^\w\s]", text)]
    return (*found, (len(text), len(text)))


def rollout(id: str, text: str = STEPS, **changes: Any) -> Rollout:
    spans = tokens_of(text)
    made = Rollout(id, "p1", "Is it odd?", text, {}, tuple(range(len(spans))), spans)
    return replace(made, **changes)


def step(n: int, value: float, label: str) -> Span:
    found = re.search(rf"<step {n}>(.*?)</step>", STEPS)
    assert found
    return Span(*found.span(1), value, label)


VERDICTS = (step(1, 1.0, "both are 2"), step(2, -1.0, "6, not 7"), step(3, 0.0, "no claim"))


def scored(one: Rollout, outcome: float | None = 0.0, **changes: Any) -> Score:
    made = Score(one.id, outcome, verdict="wrong", reason="7 is not 6", spans=VERDICTS)
    made = replace(made, **changes)
    if one.token_spans is not None and made.local is None and made.local_scored:
        local = tuple(project(made.spans, one.token_spans, one.completion).tolist())
        made = replace(made, local=local)
    return made


class Page(HTMLParser):
    """Elements with attributes and the text inside each `.tokens` block."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.blocks: list[str] = []
        self.depth = 0
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {k: v or "" for k, v in attrs}))
        if tag == "div":
            if self.depth:
                self.depth += 1
            elif dict(attrs).get("class") == "tokens":
                self.depth = 1
                self.blocks.append("")

    def handle_endtag(self, tag: str) -> None:
        if tag == "div" and self.depth:
            self.depth -= 1

    def handle_data(self, data: str) -> None:
        if self.depth:
            self.blocks[-1] += data

    def where(self, tag: str, **wanted: str) -> list[dict[str, str]]:
        return [
            a for t, a in self.tags if t == tag and all(a.get(k) == v for k, v in wanted.items())
        ]


def page_of(rollouts: Sequence[Rollout], *passes: Sequence[Score], **more: Any) -> str:
    return view_html(SPEC, rollouts, passes, **more)


# ---- runs: what a reader can point at ----


def flat(made: Sequence[Run]) -> list[tuple[str, str, tuple[int, ...]]]:
    return [(bit.text, bit.value, run.spans) for run in made for bit in run.bits]


def test_a_token_that_a_span_cuts_comes_in_parts_of_one_value() -> None:
    made, findings = runs("ab cd", [(0, 2), (2, 5)], [0.0, -0.5], [Span(3, 4, -0.5, "why")], 1.0)
    assert flat(made) == [
        ("ab", "", ()),
        (" ", "−0.5", ()),
        ("c", "−0.5", (1,)),
        ("d", "−0.5", ()),
    ]
    assert [bit.whole for run in made for bit in run.bits] == ["", " cd", " cd", " cd"]
    assert (findings[0].run, findings[0].excerpt, findings[0].label) == (1, "c", "why")


def test_overlapping_spans_make_runs_that_name_each_span_above_them() -> None:
    spans = [Span(0, 3, -1.0, "a"), Span(2, 5, 1.0, "b")]
    made, findings = runs("abcdef", None, None, spans, 1.0)
    assert [(r.bits[0].text, r.spans, r.ends, r.tone) for r in made] == [
        ("ab", (1,), (), "neg"),
        ("c", (1, 2), (1,), "neg"),
        ("de", (2,), (2,), "pos"),
        ("f", (), (), ""),
    ]
    assert [bit.value for r in made for bit in r.bits] == ["−1", "", "+1", ""]  # sums, as projected
    assert [f.run for f in findings] == [0, 1]


@pytest.mark.parametrize(("start", "drawn"), [(0, "a"), (1, "b"), (2, "b")])
def test_a_span_without_text_is_drawn_on_the_character_at_its_place(start: int, drawn: str) -> None:
    made, findings = runs("ab", [(0, 1), (1, 2)], [0.0, 0.0], [Span(start, start, -1.0)], 1.0)
    assert [bit.text for run in made if run.spans for bit in run.bits] == [drawn]
    assert findings[0].excerpt == drawn


def test_a_shared_character_is_shown_once_and_an_end_token_lies_under_no_span() -> None:
    spans = [(0, 1), (0, 1), (1, 1)]  # an emoji of two byte tokens, and the end
    made, _ = runs("🙂", spans, [-1.0, -1.0, None], [Span(0, 1, -1.0)], 1.0)
    assert flat(made) == [("🙂", "−1", (1,)), ("", "−1", (1,)), ("", "unknown", ())]
    assert [bit.classes for run in made for bit in run.bits] == ["n4", "z n4", "z u"]


def test_an_empty_completion_keeps_its_findings() -> None:
    made, findings = runs("", [(0, 0)], [0.0], [Span(0, 0, -1.0, "nothing there")], 1.0)
    assert [bit.text for run in made for bit in run.bits] == [""]
    assert (findings[0].run, findings[0].label) == (None, "nothing there")


cuts = st.lists(st.integers(0, 30), max_size=8)


@given(st.text(max_size=30), cuts, cuts, st.booleans())
def test_runs_give_the_text_back_and_each_span_covers_its_own(
    text: str, token_cuts: list[int], span_cuts: list[int], with_tokens: bool
) -> None:
    n = len(text)
    edges = sorted({min(c, n) for c in token_cuts})
    tokens = list(pairwise(edges)) if with_tokens else None
    pairs = zip(span_cuts[::2], span_cuts[1::2], strict=False)
    spans = [Span(min(a, b, n), min(max(a, b), n), -1.0, str(k)) for k, (a, b) in enumerate(pairs)]
    local = None if tokens is None else [0.5] * len(tokens)
    made, findings = runs(text, tokens, local, spans, 1.0)
    assert "".join(bit.text for run in made for bit in run.bits) == text
    assert len(findings) == len(spans)
    ordered = sorted(spans, key=lambda s: (s.start, s.end))
    for number, span in enumerate(ordered, start=1):
        if span.end > span.start:
            covered = [b.text for run in made if number in run.spans for b in run.bits]
            assert "".join(covered) == text[span.start : span.end]


def test_values_are_exact_to_six_digits_and_have_a_real_minus() -> None:
    assert [exact(v) for v in (-1.0, 0.0, 1 / 3)] == ["−1", "0", "+0.333333"]
    assert shortened("abcdef", 4) == "abcd … (2 more characters)"


# ---- the page ----


def test_each_token_has_its_value_and_each_span_its_label_value_and_place() -> None:
    one = rollout("r1")
    html = page_of([one], [scored(one)])
    page = Page(html)
    assert page.blocks == [STEPS]
    marks = page.where("mark")
    assert [m["class"] for m in marks] == ["pos", "neg", "zero"]
    assert all(m["tabindex"] == "0" for m in marks)
    ids = {a["id"] for _, a in page.tags if "id" in a}
    described = [m["aria-describedby"].split() for m in marks]
    assert described == [["f1-1"], ["f1-2"], ["f1-3"]] and {"f1-1", "f1-2", "f1-3"} <= ids
    assert {a["href"][1:] for a in page.where("a")} <= ids
    assert '<b class="neg">−1</b> line 2: 6, not 7 <code>2 * 3 = 7</code>' in html
    assert '<b class="zero">0</b> line 3: no claim' in html
    local = scored(one).local
    assert local is not None
    found = [a["data-v"] for a in page.where("i") if "data-v" in a]
    assert found == [exact(v) for v in local if v]
    assert found.count("+1") == found.count("−1") == 7  # `1`, ` `, `+`, ` 1`, ` `, `=`, ` 2`


def test_without_tokens_each_span_has_the_colour_of_its_value() -> None:
    one = rollout("r1", token_ids=None, token_spans=None)
    page = Page(page_of([one], [scored(one)]))
    assert page.blocks == [STEPS]
    assert [a.get("class") for a in page.where("i") if "data-v" in a] == ["p4", "n4"]


def test_unknown_tokens_are_hatched_and_unscored_rollouts_counted_apart() -> None:
    known, half, lost = rollout("known"), rollout("half"), rollout("lost")
    local = (None, *(scored(half).local or ())[1:])
    scores = [
        scored(known, 1.0, verdict="correct"),
        scored(half, 0.0, local=local),
        Score.unscored("lost", "no judge answered"),
    ]
    html = page_of([known, half, lost], scores)
    assert "2 of 3 rollouts scored, mean outcome 0.500" in html
    assert "1 unscored: nobody could tell, and none of them counts as 0" in html
    assert "tokens that nobody could tell in 1 of the rollouts" in html
    assert 'aria-label="correct 1, wrong 1 of 2 scored"' in html
    unknown = [a for a in Page(html).where("i", **{"data-v": "unknown"}) if a["class"] == "u"]
    assert len(unknown) == 1 + len(lost.token_spans or ()) - 1  # all but the end of `lost`


def test_a_reward_without_a_local_signal_shows_no_token_values() -> None:
    one = rollout("r1")
    outcome_only = replace(SPEC, local_range=None)
    html = view_html(outcome_only, [one], [[Score("r1", 1.0, verdict="ok")]])
    page = Page(html)
    assert page.blocks == [STEPS] and not page.where("i")
    assert "no local signal" in html


def test_repeats_are_summed_up_and_stand_beside_each_rollout() -> None:
    steady, moody = rollout("steady"), rollout("moody")
    first = [scored(steady), scored(moody)]
    second = [scored(steady), scored(moody, 1.0, verdict="correct")]
    html = page_of([steady, moody], first, second, first)
    assert "3 passes over 2 rollouts: 1 changed their outcome" in html
    assert "outcomes of all passes: 0, 1, 0" in html
    changed = [a["id"] for a in Page(html).where("details") if "data-changed" in a]
    assert changed == ["r2"]
    assert "outcomes of all passes" not in page_of([steady, moody], first)


def test_a_screenshot_stands_beside_its_code_and_only_a_picture_is_taken() -> None:
    one, other = rollout("one"), rollout("other")
    html = page_of([one, other], [scored(one), scored(other)], images={"one": PNG})
    (image,) = Page(html).where("img")
    assert image["src"].startswith("data:image/png;base64,") and "one" in image["alt"]
    with pytest.raises(ConfigError, match="PNG, JPEG, WebP or GIF"):
        page_of([one], [scored(one)], images={"one": b"<svg onload=alert(1)>"})


def test_a_prompt_of_messages_is_headed_by_the_last_one() -> None:
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Odd?"}]
    one = rollout("r1", prompt=messages)
    html = page_of([one], [scored(one)])
    assert '<span class="what">Odd?</span>' in html
    assert "system: Be brief.\nuser: Odd?" in html


def test_no_rollouts_still_make_a_page() -> None:
    assert "No rollouts" in page_of([], [])


def test_more_verdicts_than_colours_are_gathered() -> None:
    many = [rollout(f"r{i}", "x") for i in range(40)]
    scores = [Score(r.id, 0.0, verdict=f"v{i}") for i, r in enumerate(many)]
    html = page_of(many, scores)
    assert "other verdicts" in html
    assert len(re.findall(r'<span class="v\d+" style=', html)) == view.MOST_VERDICTS + 1


# ---- how much fits ----


def test_of_ten_thousand_rollouts_each_verdict_and_each_change_is_there_and_the_rest_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(view, "MOST_ROLLOUTS", 40)
    many = [rollout(f"r{i}", "some text") for i in range(10_000)]
    rare = {9_998: "rare"}
    first = [Score(r.id, 0.0, verdict=rare.get(i, "common")) for i, r in enumerate(many)]
    second = [*first[:-1], Score(many[-1].id, 1.0, verdict="common")]
    html = view_html(SPEC, many, [first, second])
    shown = [a["id"] for a in Page(html).where("details") if "rollout" in a["class"]]
    assert len(shown) == 40 and {"r9999", "r10000"} <= set(shown)
    assert shown == sorted(shown, key=lambda id: int(id[1:]))
    assert "40 of 10000 rollouts are on this page" in html
    assert '<span class="swatch v1"></span>common</th><td>9999</td>' in html


def test_a_page_stays_small_whatever_the_rollouts_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view, "MOST_BYTES", 300_000)
    monkeypatch.setattr(view, "MOST_IMAGE_BYTES", 3 * len(PNG))
    text = "\u202e" * 3_000  # each becomes twelve bytes
    many = [rollout(f"r{i}", text, token_spans=None) for i in range(50)]
    scores = [scored(r, spans=(Span(0, 5, -1.0, "<" * 9_000),)) for r in many]
    html = view_html(SPEC, many, [scores], {r.id: PNG for r in many})
    assert len(html.encode()) < 400_000
    assert "of 50 rollouts are on this page" in html and "screenshots were left out" in html


def test_what_is_cut_of_a_long_completion_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "LONGEST_COMPLETION", 30)
    one = rollout("r1")
    html = page_of([one], [scored(one)])
    assert Page(html).blocks == [STEPS[:30]]
    left = len(STEPS) - 30
    assert f"the last {left} characters are not shown, nor the 2 spans that begin there" in html


def test_metrics_are_numbers_to_six_digits_and_too_many_are_counted() -> None:
    one = rollout("r1")
    metrics = {f"m{i:02}": i + 1 / 3 for i in range(rows.MOST_METRICS + 2)}
    html = page_of([one], [scored(one, metrics=metrics)])
    assert "<dt>m00</dt><dd>0.333333</dd>" in html and "<dt>m60</dt>" not in html
    assert "<dt>more metrics, not shown</dt><dd>2</dd>" in html


# ---- hostile ----


def hostile_page(folder: Path) -> Path:
    spans = tuple((i, i + 1) for i in range(len(HOSTILE)))
    one = Rollout(
        HOSTILE, HOSTILE, [{"role": HOSTILE, "content": HOSTILE}], HOSTILE, {}, None, spans
    )
    plain = replace(one, id=HOSTILE + "2", prompt=HOSTILE, token_spans=None)
    score = Score(
        one.id, 0.0, HOSTILE, HOSTILE,
        spans=(Span(0, 9, -1.0, HOSTILE), Span(4, 20, 1.0, HOSTILE)),
        local=tuple(-1.0 if i % 3 else None for i in range(len(HOSTILE))),
        metrics={HOSTILE: 1.0},
    )  # fmt: skip
    other = replace(score, id=plain.id, local=None)
    lost = Rollout("lost", "g", "p", HOSTILE)
    scores = [score, other, Score.unscored("lost", HOSTILE, verdict=HOSTILE)]
    second = [replace(score, outcome=1.0), *scores[1:]]
    spec = replace(SPEC, name=HOSTILE, summary=HOSTILE, needs=(HOSTILE,))
    path = folder / "v.html"
    return write_view(path, spec, [one, plain, lost], [scores, second], {one.id: PNG})


def test_nothing_that_a_model_wrote_becomes_markup(tmp_path: Path) -> None:
    html = hostile_page(tmp_path).read_text(encoding="utf-8")
    page = Page(html)
    names = [name for name, _ in page.tags]
    assert names.count("script") == 1 and names.count("img") == 1
    assert not {"iframe", "svg", "object", "embed", "link", "form", "base"} & set(names)
    assert not [key for _, attrs in page.tags for key in attrs if key.startswith("on")]
    links = [v for _, attrs in page.tags for k, v in attrs.items() if k in ("href", "src")]
    assert all(re.match(r"#|data:image/png;base64,[A-Za-z0-9+/=]+$", link) for link in links)
    assert not re.search("[\u2028\u2029\u202a-\u202e\x00]", html)
    assert "⟨U+202E⟩" in html and "⟨U+D800⟩" in html
    ids = [a["id"] for _, a in page.tags if "id" in a]
    assert len(ids) == len(set(ids))


def test_the_page_needs_nothing_from_outside() -> None:
    one = rollout("r1")
    html = page_of([one], [scored(one)])
    assert not re.search(r"https?://|@import|url\(", html)
    assert "default-src 'none'; img-src data:" in html


@pytest.mark.browser
@pytest.mark.parametrize("bypass_csp", [False, True])
def test_in_a_browser_offline_nothing_runs_loads_or_breaks(
    tmp_path: Path, bypass_csp: bool
) -> None:
    """Without its Content-Security-Policy too: escaping alone must hold."""
    messages: list[str] = []
    requests: list[str] = []
    path = hostile_page(tmp_path)
    for page in browser_pages(path, messages, requests, bypass_csp=bypass_csp):
        for mark in page.locator("details[open] mark").all()[:6]:
            mark.hover()
        page.locator("button[name=open]").click()
        assert page.locator("details.rollout[open]").count() == 3
        assert page.evaluate("window.pwned") is None
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert messages == []
    assert [url for url in requests if not url.startswith("data:image/png")] == [path.as_uri()]


@pytest.mark.browser
def test_in_a_browser_keyboard_filter_and_order_work(tmp_path: Path) -> None:
    many = [rollout(f"r{i}") for i in range(4)]
    scores = [
        scored(many[0], 0.5, verdict="half"),
        Score.unscored("r1", "nobody"),
        scored(many[2], 1.0, verdict="correct"),
        scored(many[3], 0.0),
    ]
    path = write_view(tmp_path / "v.html", SPEC, many, [scores])
    for page in browser_pages(path, [], []):
        tip = page.locator("#tip")
        page.locator("mark.neg").first.focus()
        assert tip.is_visible() and "6, not 7" in tip.inner_text() and "−1" in tip.inner_text()
        page.keyboard.press("Escape")
        assert tip.is_hidden()
        page.locator(".tokens").first.focus()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("End")
        assert "local value 0" in page.locator("#said").text_content()
        ids = (
            "() => [...document.querySelectorAll('.rollout')].filter(r => !r.hidden).map(r => r.id)"
        )
        page.locator("select[name=order]").select_option("high")
        assert page.evaluate(ids) == ["r3", "r1", "r4", "r2"]
        page.locator("select[name=order]").select_option("low")
        assert page.evaluate(ids) == ["r4", "r1", "r3", "r2"]  # the unscored one is last again
        page.locator("select[name=verdict]").select_option(label="correct")
        assert page.evaluate(ids) == ["r3"]
        assert page.locator("#shown").text_content() == "1 rollout"


@pytest.mark.browser
def test_in_a_browser_a_screenshot_is_seen_large_and_goes_away_again(tmp_path: Path) -> None:
    many = [rollout(f"r{i}") for i in range(14)]  # so many that those out of sight are not drawn
    path = write_view(tmp_path / "v.html", SPEC, many, [[scored(r) for r in many]], {"r1": PNG})
    for page in browser_pages(path, [], []):
        whole = page.locator("#whole")
        assert whole.is_hidden()
        page.locator(".shot button").click()
        assert whole.is_visible() and whole.locator("img").count() == 1
        page.keyboard.press("Escape")
        assert whole.is_hidden()


def browser_pages(
    path: Path, messages: list[str], requests: list[str], *, bypass_csp: bool = False
) -> Any:
    """One page in an offline Chromium; what it says and asks for goes into the lists."""
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as p:
        browser = p.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_context(offline=True, bypass_csp=bypass_csp).new_page()
        page.on("console", lambda message: messages.append(message.text))
        page.on("pageerror", lambda error: messages.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(path.as_uri())
        yield page
        browser.close()


# ---- the command ----


def test_the_command_writes_the_page_and_the_scores(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.py").write_text(
        "def long(prompts, completions, **_):\n"
        "    return [float(len(c) > 3) for c in completions]\n"
    )
    rows = [{"id": i, "group": "g", "prompt": "p", "completion": i} for i in ("ab", "abcd")]
    (tmp_path / "r.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    where = {name: str(tmp_path / name) for name in ("mine.py", "r.jsonl", "s.jsonl", "v.html")}
    words = ["--reward", f"{where['mine.py']}:long", "--in", where["r.jsonl"]]
    assert cli.main(["score", *words, "--out", where["s.jsonl"], "--html", where["v.html"]]) == 0
    assert "2 of 2 rollouts scored, mean outcome 0.500" in Path(where["v.html"]).read_text()
    assert len(Path(where["s.jsonl"]).read_text().splitlines()) == 2
    capsys.readouterr()
    missing = str(tmp_path / "gone" / "v.html")
    assert cli.main(["score", *words, "--html", missing]) == 2
    assert capsys.readouterr().err.startswith("botgrpo: ")


RENDERS = """
from botgrpo.rewards import RewardSpec, Score, picture


class Renders:
    spec = RewardSpec("test.renders", "1", (0, 1))

    async def score(self, rollouts):
        for rollout in rollouts:
            picture(rollout.id, bytes.fromhex("{png}"))
            picture(rollout.id, b"a second one")
        return [Score(r.id, 1.0) for r in rollouts]
"""


def test_what_a_reward_renders_reaches_the_page_through_any_wrapper(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(RENDERS.format(png=PNG.hex()))
    (tmp_path / "r.jsonl").write_text(
        '{"id": "r1", "group": "g", "prompt": "p", "completion": "c"}\n'
    )
    inner = f"{tmp_path / 'mine.py'}:Renders"
    for reward in (inner, f'noise.flip("{inner}", p=0)'):
        words = ["--in", str(tmp_path / "r.jsonl"), "--out", str(tmp_path / "s.jsonl")]
        html = tmp_path / "v.html"
        assert cli.main(["score", "--reward", reward, *words, "--html", str(html)]) == 0
        (image,) = Page(html.read_text()).where("img")
        assert image["src"] == "data:image/png;base64," + base64.b64encode(PNG).decode()


def test_pictures_are_dropped_where_nobody_looks_and_where_there_is_no_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    picture("r0", PNG)  # nobody collects
    monkeypatch.setattr(pictures, "ROOM_BYTES", len(PNG) + 1)
    with pictures.collecting() as found:
        picture("r1", PNG)
        picture("r2", PNG)
        picture("r3", b"x")
    assert dict(found) == {"r1": PNG, "r3": b"x"}


def test_what_a_part_of_a_composite_said_stands_in_its_own_row() -> None:
    one = rollout("r1")
    path = "path/to/mine.py:f"
    metrics = {
        "rewards/react.eslint": -0.1,
        "rewards/react.eslint/fatal": 0.0,
        "rewards/react.code_judge/judge/calls": 2.0,  # of a part that nobody could score
        "rewards/react.code_judge/judge/cost": 0.0,
        f"rewards/{path}": 1.0,
        f"rewards/{path}/chars": 5.0,
        "chars": 3.0,
    }
    html = page_of([one], [scored(one, metrics=metrics)])
    found = re.findall(r'<th scope="row">([^<]*)</th><td>([^<]*)</td><td>(.*?)</td>', html)
    rows_of = {name: (value, re.findall(r"<d[td]>([^<]*)", rest)) for name, value, rest in found}
    assert rows_of == {
        "react.eslint": ("\N{MINUS SIGN}0.1", ["fatal", "0"]),
        "react.code_judge": ("unscored", ["judge/calls", "2"]),
        path: ("1", ["chars", "5"]),
    }
    assert "<div><dt>chars</dt><dd>3</dd></div>" in html
