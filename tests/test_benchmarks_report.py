"""The report: reads a suite without dropping anything, says no more than it knows, runs nothing."""

from __future__ import annotations

import csv
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from botgrpo.benchmarks import cli, merged
from botgrpo.benchmarks.report import page, verdict_text
from botgrpo.benchmarks.report.analysis import analyse
from botgrpo.benchmarks.report.provenance import total_hours
from botgrpo.benchmarks.report.svg import ticks, visible
from botgrpo.benchmarks.report.tokens import build_browser
from botgrpo.benchmarks.results import load_suite
from botgrpo.sandbox.chromium import find_chromium
from botgrpo.sandbox.errors import ConfigError, SandboxUnavailable
from synthetic_suite import token_spans, write_synthetic_suite

try:
    CHROMIUM = str(find_chromium())
except SandboxUnavailable:
    CHROMIUM = ""  # what is marked `browser` is then skipped
TWO = {"grpo": 0.9, "bot_grpo": 1.25}
SECTIONS = ["verdict", "curves", "threshold", "profiles", "transfer", "mix", "rollouts", "run"]
HOSTILE = (
    "<script>window.pwned=1</script></script><script>window.pwned=2</script>"
    '<img src=x onerror="window.pwned=3"><svg onload="window.pwned=4"><a href="javascript:1">'
    '"><iframe src="data:text/html,<script>parent.pwned=5</script>"></iframe>'
    "' onmouseover='window.pwned=6' {{ 7*7 }} {% raw %} <!-- --> ]]> </style></title>"
    "\u2028\u2029\u202eevil\u202c\ud800 tail\x00"
)


def write_report(folder: Path) -> Path:
    return page.write_report(load_suite(folder))


def append(path: Path, *rows: object) -> None:
    with path.open("a") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


def edit_rollout(folder: Path, arm: str = "bot_grpo", **changes: object) -> None:
    """Change the first rollout of seed 0."""
    path = folder / "cells" / arm / "seed0" / "rollouts.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    rows[0].update(changes)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


# ---- reading ----


def test_missing_failed_and_unfinished_cells_are_listed_and_shown(tmp_path: Path) -> None:
    write_synthetic_suite(tmp_path, arms=TWO, seeds=4)
    evals = tmp_path / "cells/grpo/seed1/eval.jsonl"
    evals.write_text("".join(evals.read_text().splitlines(keepends=True)[:3]))
    (tmp_path / "cells/bot_grpo/seed2/error.txt").write_text("RunFailed: out of disk\n")
    (tmp_path / "cells/bot_grpo/seed3").rename(tmp_path / "elsewhere")
    suite = load_suite(tmp_path)
    assert suite.cells["grpo", 1].status == "unfinished"
    assert suite.cells["bot_grpo", 2].status == "failed"
    assert suite.cells["bot_grpo", 3].status == "missing"
    assert suite.paired_seeds("grpo", "bot_grpo") == [0]
    html = write_report(tmp_path).read_text()
    for words in ("stopped at step 8 of 40", "RunFailed: out of disk", "missing: no folder"):
        assert words in html
        assert words in verdict_text(suite)


@pytest.mark.parametrize("line", ["{broken", "[1, 2]", '{"reward": 1.0}'])
def test_a_malformed_line_names_file_and_line(tmp_path: Path, line: str) -> None:
    write_synthetic_suite(tmp_path, arms=TWO)
    path = tmp_path / "cells/grpo/seed0/metrics.jsonl"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:4], line, *lines[4:]]) + "\n")
    with pytest.raises(ConfigError, match=r"grpo/seed0/metrics\.jsonl:5: "):
        load_suite(tmp_path)


def test_a_line_cut_off_by_a_kill_is_left_out_and_said(tmp_path: Path) -> None:
    write_synthetic_suite(tmp_path, arms=TWO)
    path = tmp_path / "cells/grpo/seed0/metrics.jsonl"
    path.write_text(path.read_text() + '{"step": 41, "rew')
    suite = load_suite(tmp_path)
    assert len(suite.cells["grpo", 0].metrics) == 40
    assert any("metrics.jsonl:41: cut off" in note for note in suite.problems)
    assert "metrics.jsonl:41: cut off" in verdict_text(suite)


def test_a_step_written_again_after_a_resume_counts_once(tmp_path: Path) -> None:
    write_synthetic_suite(tmp_path, arms=TWO)
    path = tmp_path / "cells/grpo/seed0/eval.jsonl"
    append(path, {"step": 8, "n": 96, "complete": 0.99})
    suite = load_suite(tmp_path)
    steps, values = suite.cells["grpo", 0].curve("complete")
    assert steps == list(range(0, 41, 4))
    assert values[2] == 0.99
    assert any("written twice" in note for note in suite.problems)


def test_an_eval_that_nobody_could_score_is_a_hole_and_not_a_zero(tmp_path: Path) -> None:
    write_synthetic_suite(tmp_path, arms=TWO)
    path = tmp_path / "cells/grpo/seed0/eval.jsonl"
    append(path, {"step": 8, "n": 96, "unscored": 96, "complete": None})
    suite = load_suite(tmp_path)
    steps, _ = suite.cells["grpo", 0].curve("complete")
    assert 8 not in steps
    text = verdict_text(suite)
    assert "not scored in 1 evaluations" in text
    assert "grpo: 96 rollouts could not be scored" in text


def test_a_cell_on_disk_that_the_suite_does_not_name_is_said(tmp_path: Path) -> None:
    write_synthetic_suite(tmp_path, arms=TWO)
    (tmp_path / "cells/other/seed0").mkdir(parents=True)
    assert any("cells/other/seed0" in note for note in load_suite(tmp_path).problems)


@pytest.mark.parametrize("key", ["arms", "seeds", "primary"])
def test_a_suite_without_a_needed_key_says_which(tmp_path: Path, key: str) -> None:
    write_synthetic_suite(tmp_path, arms=TWO)
    path = tmp_path / "suite.toml"
    path.write_text(re.sub(rf"(?m)^(\[*){key}", r"\1zzz", path.read_text()))
    with pytest.raises(ConfigError, match=f"'{key}' is absent"):
        load_suite(tmp_path)


def test_a_folder_that_is_no_suite_is_refused_with_the_next_step(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="botgrpo bench"):
        write_report(tmp_path)


# ---- words ----


def test_three_agreeing_seeds_are_called_a_lead_and_never_better(tmp_path: Path) -> None:
    text = verdict_text(load_suite(write_synthetic_suite(tmp_path, arms=TWO)))
    first = text.splitlines()[0]
    assert first == "bot_grpo leads grpo in all 3 seeds; 3 are too few to be sure."
    assert "at least 6 paired seeds are needed for p < .05" in text
    assert "Coin flips would agree like this in 1 of 4 trials" in text


def test_seven_agreeing_seeds_are_better(tmp_path: Path) -> None:
    text = verdict_text(load_suite(write_synthetic_suite(tmp_path, arms=TWO, seeds=7)))
    assert text.startswith("bot_grpo learned faster than grpo.")
    assert "p = 0.016" in text


def test_equal_designs_are_not_separated(tmp_path: Path) -> None:
    write_synthetic_suite(tmp_path, arms={"grpo": 1.0, "twin": 1.0}, seeds=8)
    for seed in range(8):  # the same eight runs, dealt to other seeds
        source = tmp_path / f"cells/grpo/seed{7 - seed}/eval.jsonl"
        (tmp_path / f"cells/twin/seed{seed}/eval.jsonl").write_text(source.read_text())
    text = verdict_text(load_suite(tmp_path))
    assert text.startswith("twin and grpo are not separated.")


def test_a_slower_design_is_not_turned_into_a_winner(tmp_path: Path) -> None:
    arms = {"grpo": 1.25, "slow": 0.5}
    text = verdict_text(load_suite(write_synthetic_suite(tmp_path, arms=arms, seeds=6)))
    assert text.startswith("slow learned slower than grpo.")
    assert "steps more" in text


def test_a_threshold_that_nobody_reached_is_said_and_never_imputed(tmp_path: Path) -> None:
    arms = {"grpo": 0.2, "bot_grpo": 0.3}
    suite = load_suite(write_synthetic_suite(tmp_path, arms=arms, noise=0.0))
    arm = analyse(suite).arm("grpo")
    assert (arm.reached, arm.median_steps, arm.restricted_mean) == (0, None, 40)
    assert "No run of either reached it within 40 steps" in verdict_text(suite)
    assert "not by 40" in write_report(tmp_path).read_text()


def test_one_design_alone_is_shown_without_a_comparison(tmp_path: Path) -> None:
    suite = load_suite(write_synthetic_suite(tmp_path, arms={"grpo": 1.0}, seeds=1))
    assert verdict_text(suite).startswith("Nothing can be compared yet.")
    assert "Learning curves" in write_report(tmp_path).read_text()


def test_a_suite_in_which_nothing_ran_yet_still_makes_a_page(tmp_path: Path) -> None:
    write_synthetic_suite(tmp_path, arms=TWO, seeds=2)
    (tmp_path / "cells").rename(tmp_path / "gone")
    html = write_report(tmp_path).read_text()
    assert "Nothing can be compared yet." in html
    assert html.count("missing") >= 4


def test_a_gain_that_comes_with_shorter_files_is_flagged(tmp_path: Path) -> None:
    write_synthetic_suite(tmp_path, arms=TWO)
    for path in (tmp_path / "cells/bot_grpo").glob("*/eval.jsonl"):
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        path.write_text("".join(json.dumps(r | {"mean_length": 60.0}) + "\n" for r in rows))
    assert "may be bought with shorter files" in verdict_text(load_suite(tmp_path))


# ---- tokens ----


def test_what_a_design_does_not_guarantee_is_said_once_for_all_its_arms(tmp_path: Path) -> None:
    write_synthetic_suite(tmp_path, arms={"grpo": 1.0, "bot_grpo": 1.0, "bot_noisy": 1.0})
    for arm in ("bot_grpo", "bot_noisy"):
        path = tmp_path / "cells" / arm / "seed0" / "manifest.json"
        path.write_text(json.dumps({"caution": "A failing rollout can still be pushed up."}))
    text = verdict_text(load_suite(tmp_path))
    assert text.count("bot_grpo, bot_noisy: a failing rollout can still be pushed up.") == 1


def test_tokens_show_every_character_once_also_where_they_share_one(tmp_path: Path) -> None:
    write_synthetic_suite(tmp_path, arms=TWO)
    # the emoji came as two byte tokens with the same span, and "c" is covered by no token
    edit_rollout(
        tmp_path,
        completion="a🙂bc",
        token_spans=[[0, 1], [1, 2], [1, 2], [2, 3]],
        local=[0.0, -1.0, -1.0, None],
        token_rewards=None,
        advantages=[1.0],
        spans=[{"start": 1, "end": 2, "value": -1.0, "label": "syntax: smile"}],
    )
    browser = build_browser(load_suite(tmp_path))
    panel = next(p for p in browser.panels if "".join(x.text for x in p.pieces) == "a🙂bc")
    assert [x.text for x in panel.pieces] == ["a", "🙂", "", "b", "c"]
    assert "z" in panel.pieces[2].classes.split()
    assert "syntax: smile" in panel.pieces[1].note and "smile" not in panel.pieces[3].note
    assert panel.pieces[1].classes.split()[0] == "ln4"
    assert "lu" in panel.pieces[3].classes.split()  # unknown is not 0
    assert panel.missing == ("no token reward", "no advantage")


@pytest.mark.parametrize("field", ["token_spans", "local", "advantages", "spans", "outcome"])
def test_a_rollout_without_a_field_is_still_shown(tmp_path: Path, field: str) -> None:
    write_synthetic_suite(tmp_path, arms=TWO)
    edit_rollout(tmp_path, **{field: None})
    assert 'id="rollouts"' in write_report(tmp_path).read_text()


def test_a_malformed_rollout_names_its_file_and_step(tmp_path: Path) -> None:
    write_synthetic_suite(tmp_path, arms=TWO)
    edit_rollout(tmp_path, token_spans=[[0], [1]])
    with pytest.raises(ConfigError, match=r"rollouts\.jsonl: step 1, rollout 's1-r0'"):
        write_report(tmp_path)


# ---- the page ----


class Tags(HTMLParser):
    """Collects elements with their attributes, and text outside style and script."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def hostile_report(folder: Path) -> Path:
    """A report whose completions, prompts, labels, verdicts, notes and names attack the page."""
    write_synthetic_suite(folder, arms=TWO, completion=HOSTILE)
    edit_rollout(
        folder,
        prompt=[{"role": "user", "content": HOSTILE}],
        verdict=HOSTILE,
        reason=HOSTILE,
        id=HOSTILE,
        token_spans=token_spans(HOSTILE),
        spans=[{"start": 0, "end": 9, "value": -1.0, "label": HOSTILE}],
    )
    (folder / "cells/grpo/seed2/manifest.json").write_text(
        json.dumps({"status": "failed", "error": HOSTILE})
    )
    (folder / "manifest.json").write_text(json.dumps({"host": HOSTILE}))
    append(folder / "cells/grpo/seed0/metrics.jsonl", {"step": 9, "sandbox/verdict/" + HOSTILE: 9})
    return write_report(folder)


def test_nothing_that_a_model_wrote_becomes_markup(tmp_path: Path) -> None:
    parser = Tags()
    parser.feed(hostile_report(tmp_path).read_text(encoding="utf-8"))
    names = [name for name, _ in parser.tags]
    assert names.count("script") == 1
    assert not {"img", "iframe", "object", "embed", "link", "form"} & set(names)
    attributes = {key for _, attrs in parser.tags for key in attrs}
    assert not [key for key in attributes if key.startswith("on")]
    links = [v for _, attrs in parser.tags for k, v in attrs.items() if k in ("href", "src")]
    assert links and all(link and link.startswith("#") for link in links)


def test_invisible_and_direction_changing_characters_are_named(tmp_path: Path) -> None:
    html = hostile_report(tmp_path).read_text(encoding="utf-8")
    for code in ("U+2028", "U+202E", "U+D800", "U+0000"):
        assert f"⟨{code}⟩" in html
    assert not re.search("[\u2028\u2029\u202a-\u202e\x00]", html)


def test_visible_keeps_line_breaks_and_tabs() -> None:
    assert visible("a\n\tb") == "a\n\tb"
    assert visible("\u202ea\r") == "⟨U+202E⟩a⟨U+000D⟩"


def test_the_page_needs_nothing_from_outside(tmp_path: Path) -> None:
    html = write_report(write_synthetic_suite(tmp_path, arms=TWO)).read_text()
    assert not re.search(r"https?://|@import|url\(", html)
    assert "default-src 'none'" in html
    for section in SECTIONS:
        assert f'<section id="{section}"' in html


def test_the_page_is_the_same_when_built_again(tmp_path: Path) -> None:
    write_synthetic_suite(tmp_path, arms=TWO)
    assert write_report(tmp_path).read_bytes() == write_report(tmp_path).read_bytes()


def test_every_figure_has_a_title_a_description_and_a_table(tmp_path: Path) -> None:
    html = write_report(write_synthetic_suite(tmp_path, arms=TWO)).read_text()
    figures = re.findall(r"<figure>.*?</figure>", html, re.DOTALL)
    assert len(figures) >= 8
    for figure in figures:
        for part in ("<title id=", "<desc id=", "aria-labelledby=", "<details>", "<th scope="):
            assert part in figure
    ids = re.findall(r'\bid="([^"]+)"', html)
    assert len(ids) == len(set(ids))


def test_csv_files_hold_each_figures_numbers(tmp_path: Path) -> None:
    write_report(write_synthetic_suite(tmp_path, arms=TWO))
    with (tmp_path / "figures/steps_to_threshold.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(r["arm"], r["seed"]) for r in rows] == [(a, str(s)) for a in TWO for s in range(3)]
    suite = load_suite(tmp_path)
    with (tmp_path / "figures/arms.csv").open() as file:
        means = {r["arm"]: float(r["auc_mean"]) for r in csv.DictReader(file)}
    assert means["bot_grpo"] == analyse(suite).arm("bot_grpo").auc_mean
    with (tmp_path / "figures/curves_by_seed.csv").open() as file:
        assert sum(r["metric"] == "complete" for r in csv.DictReader(file)) == 2 * 3 * 11


def test_model_text_in_csv_is_no_spreadsheet_formula(tmp_path: Path) -> None:
    write_synthetic_suite(tmp_path, arms=TWO, completion="=1+2")
    write_report(tmp_path)
    with (tmp_path / "figures/rollout_tokens.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert rows and all(row["text_json"].startswith('"') for row in rows)


def test_ticks_are_round_numbers_inside_the_range() -> None:
    assert ticks(0, 1) == pytest.approx([0, 0.2, 0.4, 0.6, 0.8, 1])
    assert ticks(-0.13, 0.11, 4) == pytest.approx([-0.1, 0, 0.1])
    assert ticks(3, 3) == [3]


@pytest.mark.browser
@pytest.mark.parametrize("bypass_csp", [False, True])
def test_in_a_browser_offline_nothing_runs_loads_or_breaks(
    tmp_path: Path, bypass_csp: bool
) -> None:
    """Without its Content-Security-Policy too: escaping alone must hold."""
    playwright = pytest.importorskip("playwright.sync_api")
    page_path = hostile_report(tmp_path)
    messages: list[str] = []
    requests: list[str] = []
    with playwright.sync_playwright() as p:
        browser = p.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        context = browser.new_context(offline=True, bypass_csp=bypass_csp)
        page = context.new_page()
        page.on("console", lambda message: messages.append(message.text))
        page.on("pageerror", lambda error: messages.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(page_path.as_uri())
        for section in SECTIONS:
            assert page.locator(f"#{section}").is_visible()
        _hover_everything(page)
        _check_filters(page)
        _check_keyboard(page)
        assert page.evaluate("window.pwned") is None
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        browser.close()
    assert messages == []
    assert requests == [page_path.as_uri()]


def _hover_everything(page: Any) -> None:
    for token in page.locator("article:visible .tokens i").all()[:12]:
        token.hover()


def _check_filters(page: Any) -> None:
    shown = page.locator("article:visible")
    before = shown.count()
    page.locator("select[name=arm]").select_option("grpo")
    assert 0 < shown.count() < before
    page.locator("select[name=arm]").select_option("")
    assert shown.count() == before


def _check_keyboard(page: Any) -> None:
    """Radio buttons change the colours; arrow keys read out tokens."""
    colours = (
        "() => [...document.querySelectorAll('.tokens i')]"
        ".map(t => getComputedStyle(t).backgroundColor).join()"
    )
    page.locator("#view-local").focus()
    before = page.evaluate(colours)
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert page.locator("#view-advantages").is_checked()
    assert page.evaluate(colours) != before
    block = page.locator("article:visible .tokens").first
    block.focus()
    page.keyboard.press("ArrowRight")
    readout = page.locator("article:visible .readout").first
    assert "local reward" in readout.text_content()


def test_a_report_reads_what_the_training_loop_writes(tmp_path: Path) -> None:
    from botgrpo.trainer.loop import Run
    from botgrpo.trainer.policy import load_policy
    from tiny import StubReward, StubTask, tiny_config, tiny_policy_folder

    policy = tiny_policy_folder(tmp_path / "policy")
    config = tiny_config()
    for arm in ("one", "two"):
        out = tmp_path / f"cells/{arm}/seed0"
        out.mkdir(parents=True)
        run = Run(
            config=config,
            policy=load_policy(policy),
            task=StubTask(),
            reward=StubReward(lose="/0" if arm == "two" else "never"),
            judge=StubReward(),
            out=out,
        )
        run.train(resume=False)
    (tmp_path / "suite.toml").write_text(
        f'arms = ["one", "two"]\nseeds = [0]\nprimary = {{metric = "letters", threshold = 0.9}}\n'
        f"run = {{steps = {config.run.steps}}}\n"
    )
    analysis = analyse(load_suite(tmp_path))
    assert analysis.arm("one").unscored == 0 and analysis.arm("two").unscored > 0
    assert analysis.comparisons[0].auc.n_seeds == 1
    html = write_report(tmp_path).read_text()
    assert "two: " in html and "rollouts could not be scored" in html
    panels = build_browser(load_suite(tmp_path)).panels
    assert panels and all(panel.pieces for panel in panels if panel.outcome is not None)
    assert not [note for panel in panels if panel.outcome is not None for note in panel.missing]


def test_an_arm_that_only_failed_leaves_the_report_of_the_others(tmp_path: Path) -> None:
    write_synthetic_suite(tmp_path, arms=TWO)
    for cell in (tmp_path / "cells" / "bot_grpo").glob("seed*"):
        (cell / "error.txt").write_text("exit status 1: a reward raised\n")
    suite = load_suite(tmp_path)
    assert write_report(tmp_path).is_file()
    assert "a reward raised" in verdict_text(suite)


# ---- time ----


def test_a_step_takes_what_its_parts_take_and_no_evaluation(tmp_path: Path) -> None:
    folder = write_synthetic_suite(tmp_path, arms=TWO, seeds=1, steps=4)
    for path in folder.glob("cells/*/seed0/metrics.jsonl"):
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        more = {"time/score_overlapped_s": 50.0, "time/evaluate_s": 100.0}
        path.write_text("".join(json.dumps(row | more) + "\n" for row in rows))
    suite = load_suite(folder)
    assert analyse(suite).baseline.step_s == pytest.approx(1.0 + 0.1 + 0.9)
    assert total_hours(suite) == pytest.approx(2 * 4 * (2.0 + 100.0) / 3600)


# ---- several folders ----


def two_folders(tmp_path: Path, **second: Any) -> tuple[Path, Path]:
    """The same suite twice; the second time all arms learn sooner."""
    faster = {name: speed * 1.5 for name, speed in TWO.items()}
    return (
        write_synthetic_suite(tmp_path / "before", arms=TWO, seeds=7),
        write_synthetic_suite(tmp_path / "after", arms=faster, **({"seeds": 7} | second)),
    )


def test_folders_are_compared_arm_by_arm_on_the_seeds_of_both(tmp_path: Path) -> None:
    before, after = two_folders(tmp_path, seeds=8)
    result = merged.load([before, after])
    assert result.arms == ("before: grpo", "before: bot_grpo", "after: grpo", "after: bot_grpo")
    assert result.baseline == "before: grpo" and result.seeds == tuple(range(7))
    comparison = analyse(result).comparison("after: grpo")
    assert comparison is not None and comparison.auc.word == "better"
    alone = analyse(load_suite(before)).arm("bot_grpo"), analyse(result).arm("before: bot_grpo")
    assert alone[0].auc == alone[1].auc
    assert any("seeds 7 are not in every folder" in line for line in result.problems)


def test_one_command_compares_two_folders(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before, after = two_folders(tmp_path)
    assert cli.main(["report", str(before), str(after)]) == 0
    assert "after: bot_grpo learned faster than before: grpo" in capsys.readouterr().out
    assert "after: bot_grpo" in (before / "compared.html").read_text()
    assert "after: grpo" in (before / "compared" / "arms.csv").read_text()
    assert not (before / "report.html").exists()


@pytest.mark.parametrize(
    ("second", "says"),
    [({"steps": 20}, "the number of steps is 40 in one and 20"), ({"seeds": 7}, "given twice")],
)
def test_folders_that_ask_different_questions_are_refused(
    tmp_path: Path, second: dict[str, Any], says: str
) -> None:
    before, after = two_folders(tmp_path, **second)
    with pytest.raises(ConfigError, match=says):
        merged.load([before, before if "twice" in says else after])


def test_folders_without_a_seed_in_common_are_refused(tmp_path: Path) -> None:
    before, after = two_folders(tmp_path)
    text = (after / "suite.toml").read_text()
    (after / "suite.toml").write_text(text.replace(str(list(range(7))), "[90]"))
    with pytest.raises(ConfigError, match="no seed is in all of them"):
        merged.load([before, after])


def test_other_code_is_said(tmp_path: Path) -> None:
    before, after = two_folders(tmp_path)
    manifest = json.loads((after / "manifest.json").read_text())
    (after / "manifest.json").write_text(json.dumps(manifest | {"git_commit": "1" * 40}))
    assert any("not run with the same code" in p for p in merged.load([before, after]).problems)
