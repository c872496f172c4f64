"""The verdict in plain sentences; the page and the terminal say the same."""

from __future__ import annotations

from dataclasses import dataclass

from botgrpo.benchmarks.report.analysis import Analysis, analyse
from botgrpo.benchmarks.report.arms import Arm, Comparison
from botgrpo.benchmarks.results import SuiteResult
from botgrpo.benchmarks.stats import Interval, Verdict, share_by_chance

BADGES = {
    "better": "better",
    "worse": "worse",
    "leads": "a lead, not proof",
    "trails": "behind, not proof",
    "not separated": "not separated",
}
METRIC_WORDS = {
    "complete": "the rate of complete files",
    "compile": "the rate of files that compile",
    "match": "the match with the request",
}


@dataclass(frozen=True, slots=True)
class Answer:
    """One question and its answer in a sentence or two."""

    question: str
    answer: str


@dataclass(frozen=True, slots=True)
class Headline:
    """The first thing that a reader sees: `tone` is the verdict's word, or "none"."""

    title: str
    badge: str
    tone: str
    answers: tuple[Answer, ...]


def verdict_text(suite: SuiteResult) -> str:
    """The verdict as a few plain lines for a terminal."""
    analysis = analyse(suite)
    top = headline(analysis)
    lines = [top.title, *(f"  {a.answer}" for a in top.answers)]
    for comparison in analysis.comparisons:
        if len(analysis.comparisons) > 1:
            verdict = comparison.auc
            lines.append(
                f"  {comparison.arm}: AUC {signed(verdict.difference)} "
                f"{bounds(verdict.interval)}, {verdict.sentence}"
            )
    lines += [f"  Note: {warning}" for warning in analysis.warnings]
    return "\n".join(lines)


def headline(analysis: Analysis) -> Headline:
    """The best arm against the baseline, or the strongest rival where the baseline is best."""
    subject = _subject(analysis)
    if subject is None:
        return Headline(
            "Nothing can be compared yet.",
            "no result",
            "none",
            (Answer("Why?", _why_nothing(analysis)),),
        )
    arm, verdict = analysis.arm(subject.arm), subject.auc
    return Headline(
        _title(analysis, subject),
        BADGES[verdict.word],
        verdict.word.replace(" ", "-"),
        (
            Answer("By how much?", _how_much(analysis, subject)),
            Answer(f"How soon at {analysis.suite.threshold:g}?", _how_soon(analysis, subject)),
            Answer("How sure is that?", _how_sure(verdict)),
            Answer("At what price?", _price(arm, analysis.baseline)),
        ),
    )


def _subject(analysis: Analysis) -> Comparison | None:
    ranked = sorted(
        analysis.comparisons, key=lambda c: (-(analysis.arm(c.arm).auc_mean or 0.0), c.arm)
    )
    return ranked[0] if ranked else None


def _why_nothing(analysis: Analysis) -> str:
    if len(analysis.arms) == 1:
        return f"{analysis.arms[0].name} is the only design; a comparison needs a second one."
    return (
        f"No seed was finished by both {analysis.baseline.name} and another design. "
        "`botgrpo bench SUITE --resume` goes on where it stopped."
    )


def _title(analysis: Analysis, comparison: Comparison) -> str:
    name, base, word = comparison.arm, analysis.baseline.name, comparison.auc.word
    many = len(analysis.comparisons) > 1
    n = comparison.auc.n_seeds
    if word == "better":
        first = f"; of {len(analysis.arms)} designs it has the highest mean" if many else ""
        return f"{name} learned faster than {base}{first}."
    if word == "leads":
        return f"{name} leads {base} in all {n} seeds; {n} are too few to be sure."
    if word == "not separated":
        return f"{name} and {base} are not separated."
    start = (
        f"No design learned faster than {base}" if many else f"{name} learned slower than {base}"
    )
    return f"{start}." if word == "worse" else f"{start} in any of {n} seeds; too few to be sure."


def _how_much(analysis: Analysis, comparison: Comparison) -> str:
    suite, verdict = analysis.suite, comparison.auc
    name = METRIC_WORDS.get(suite.metric, suite.metric)
    mine = [analysis.arm(comparison.arm).auc[s] for s in comparison.seeds]
    base = [analysis.baseline.auc[s] for s in comparison.seeds]
    return (
        f"Averaged over training, {name} is {sum(mine) / len(mine):.3f} with "
        f"{comparison.arm} and {sum(base) / len(base):.3f} with {analysis.baseline.name}: "
        f"{signed(verdict.difference)} ({between(verdict.interval)})."
    )


def _how_soon(analysis: Analysis, comparison: Comparison) -> str:
    arm, base = analysis.arm(comparison.arm), analysis.baseline
    if arm.reached == 0 and base.reached == 0:
        return f"No run of either reached it within {analysis.suite.last_step} steps."
    saved = comparison.saved
    more = "fewer" if saved.difference >= 0 else "more"
    low_high = saved.interval if saved.difference >= 0 else _flip(saved.interval)
    return (
        f"{arm.name} {_arrival(arm)}, {base.name} {_arrival(base)}: on average "
        f"{abs(saved.difference):.1f} steps {more} ({between(low_high, 1)}), counting at most "
        f"{analysis.suite.last_step} steps a run."
    )


def _arrival(arm: Arm) -> str:
    seeds = f"{arm.reached} of {len(arm.crossings)} seeds"
    if arm.median_steps is None:
        return f"got there in {seeds}"
    return f"got there after {arm.median_steps:.0f} steps (median; {seeds})"


def _how_sure(verdict: Verdict) -> str:
    text = verdict.sentence[0].upper() + verdict.sentence[1:] + "."
    if verdict.word in ("leads", "trails"):
        one_in = 1 / share_by_chance(verdict.n_seeds)
        text += f" Coin flips would agree like this in 1 of {one_in:.0f} trials."
    return text


def _price(arm: Arm, base: Arm) -> str:
    parts = [
        f"{label} {arm.finals[key]:{form}} against {base.finals[key]:{form}}"
        for key, label, form in (
            ("compile", "compile", ".2f"),
            ("match", "match with the request", ".2f"),
            ("mean_length", "length", ".0f"),
        )
        if key in arm.finals and key in base.finals
    ]
    if arm.step_s is not None and base.step_s is not None:
        parts.append(f"{arm.step_s:.1f} s a step against {base.step_s:.1f} s")
    return "At the end: " + ", ".join(parts) + "." if parts else "No other metric was recorded."


def _flip(interval: Interval | None) -> Interval | None:
    return Interval(-interval.high, -interval.low) if interval else None


def signed(value: float, digits: int = 3) -> str:
    """A number with its sign; the minus sign is U+2212 as in print."""
    return f"{value:+.{digits}f}".replace("-", "\N{MINUS SIGN}")


def between(interval: Interval | None, digits: int = 3) -> str:
    """An interval for a sentence."""
    if interval is None:
        return "one seed, so no interval"
    return f"95% interval {signed(interval.low, digits)} to {signed(interval.high, digits)}"


def bounds(interval: Interval | None, digits: int = 3) -> str:
    """An interval as text."""
    if interval is None:
        return "–"
    return f"[{signed(interval.low, digits)}, {signed(interval.high, digits)}]"
