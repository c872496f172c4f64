"""The audit's figures are the known statistics, and what cannot be told says why."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence

import numpy as np
import pytest
from scipy.stats import spearmanr

from botgrpo.benchmarks import stability as plain
from botgrpo.benchmarks.audit import alarms
from botgrpo.benchmarks.audit.card import audit, separation, to_json
from botgrpo.benchmarks.audit.estimate import Estimate, estimate, ratio
from botgrpo.benchmarks.audit.figure import Figure
from botgrpo.benchmarks.audit.labels import (
    Fault,
    Labelled,
    labelled_from_json,
    labelled_to_json,
    read_labelled,
)
from botgrpo.benchmarks.audit.observe import Observed
from botgrpo.benchmarks.audit.probes import INJECTION, make_probes
from botgrpo.benchmarks.audit.richness import richness_figures
from botgrpo.benchmarks.audit.side import confound_figures, health_figures
from botgrpo.benchmarks.audit.stability import stability_figures
from botgrpo.benchmarks.audit.truth import truth_figures
from botgrpo.rewards import RewardSpec, Rollout, Score, Span
from botgrpo.rewards.noise import Drift, Flip, Gaussian, Offset
from botgrpo.sandbox.errors import ConfigError

SPEC = RewardSpec("test.table", "1", (0.0, 1.0), (-1.0, 0.0))


def item(p: int, k: int, outcome=None, faults=None, text: str = "ab\ncd\nef\ngh") -> Labelled:
    """Three tokens a line: two letters and the line's end."""
    tokens = tuple((i, i + 1) for i in range(len(text)))
    rollout = Rollout(f"{p}/{k}", f"g{p}", f"q{p}", text, token_spans=tokens)
    return Labelled(rollout, outcome, faults)


def seen(outcomes_N_R, items, local_N_R=None, spec=SPEC) -> Observed:
    passes = [
        [
            Score(
                i.id,
                None if math.isnan(g) else float(g),
                reason="down" if math.isnan(g) else "",
                local=None if local_N_R is None else tuple(local_N_R[n][r]),
            )
            for r, (g, i) in enumerate(zip(row, items, strict=True))
        ]
        for n, row in enumerate(np.asarray(outcomes_N_R, dtype=float))
    ]
    return Observed("test", spec, items, passes, 1.0)


def groups(prompts: int, k: int, **kw) -> list[Labelled]:
    return [item(p, i, **kw) for p in range(prompts) for i in range(k)]


def found(figures: Sequence[Figure], key: str) -> Estimate:
    return next(f.estimate for f in figures if f.key == key)


def test_repeatability_is_the_icc_and_flip_rate_of_the_plain_formulas():
    rng = np.random.default_rng(1)
    items = groups(10, 4)
    table = rng.integers(0, 2, (1, 40)) * 1.0 + rng.normal(0, 0.5, (3, 40))
    binary = (rng.random((3, 40)) < 0.5).astype(float)
    local = rng.normal(0, 1, (3, 40, 11)) + rng.normal(0, 1, (1, 40, 11))
    figures = stability_figures(seen(table, items, local))
    assert found(figures, "outcome_icc").value == pytest.approx(plain.icc(table.T))
    by_token = local.reshape(3, -1).T
    assert found(figures, "local_icc").value == pytest.approx(plain.icc(by_token))
    flips = found(stability_figures(seen(binary, items)), "flip_rate")
    assert flips.value == pytest.approx(np.mean([plain.disagreement(list(c)) for c in binary.T]))
    assert flips.interval is not None and flips.interval.holds(flips.value)


def test_signal_within_groups_is_the_share_of_the_variance_that_the_rollouts_make():
    rng = np.random.default_rng(2)
    items = groups(200, 8)
    true = rng.normal(0, 1, 1600) + np.repeat(rng.normal(0, 9, 200), 8)  # groups lie far apart
    noisy = true + rng.normal(0, 2, (4, 1600))
    share = found(stability_figures(seen(noisy, items)), "signal_share")
    assert share.value == pytest.approx(1 / (1 + 4), abs=0.03)


def test_groups_that_die_or_wake_are_counted_against_labels_and_between_passes():
    labels = [0, 0, 0, 1, 1, 1]
    items = [item(p, k, labels[2 * p + k]) for p in range(3) for k in range(2)]
    figures = stability_figures(seen([[0, 1, 0, 0, 1, 1], [0, 1, 0, 1, 1, 1]], items))
    assert found(figures, "dead_groups").value == pytest.approx(2 / 3)
    assert found(figures, "groups_waking").value == pytest.approx(1 / 3)
    assert found(figures, "false_life").value == pytest.approx(1 / 2)
    assert found(figures, "lost_life").value == 1.0


def test_graded_outcomes_may_tell_apart_what_labels_call_equal():
    items = [item(p, k, 0.0) for p in range(8) for k in range(3)]
    life = found(stability_figures(seen([[0, 0.5, 1] * 8], items)), "false_life")
    assert life.value is None and "graded" in life.why


def test_right_order_counts_pairs_within_groups_and_forgives_their_offsets():
    labels = [1, 0, 0, 1]
    items = [item(p, k, labels[2 * p + k]) for p in range(2) for k in range(2)]
    right = [found(truth_figures(seen([row], items)), "right_order").value
             for row in ([1, 0, 0, 1], [9, 8, -9, -8], [0, 1, 0, 1], [1, 1, 0, 1])]  # fmt: skip
    assert right == [1.0, 1.0, 0.5, 0.75]


def test_drift_since_an_earlier_audit_needs_one_and_has_its_size():
    items = groups(20, 2)
    outcomes = np.tile([0.0, 1.0], 20)
    before = {i.id: float(g) for i, g in zip(items, outcomes, strict=True)}
    now = seen([outcomes - 0.2], items)
    assert found(stability_figures(now), "drift_since").value is None
    moved = found(stability_figures(now, before), "drift_since")
    assert moved.value == pytest.approx(-0.4)  # .2 in deviations of .5
    assert "none of these" in found(stability_figures(now, {"other": 1.0}), "drift_since").why


def test_what_cannot_be_told_says_why_and_is_null_in_the_json():
    (card,) = audit({"c": Constant()}, [i for i in groups(3, 2)], 1)
    (record,) = to_json([card], {})["rewards"]
    for key, why in (
        ("spearman", "no labels"),
        ("youden_j", "no labels"),
        ("token_auroc", "no labelled places"),
        ("outcome_icc", "one pass"),
        ("drift_outcome", "one pass"),
        ("cost", "no cost"),
        ("length", "does not differ"),
    ):
        assert record["figures"][key]["value"] is None
        assert why in record["figures"][key]["why"], key
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    assert "Not checked: repeatability, truth, places" in card.verdict.sentence


def test_equal_outcomes_have_no_icc_and_say_so():
    icc = found(stability_figures(seen(np.ones((3, 8)), groups(4, 2))), "outcome_icc")
    assert icc.value is None and icc.why == "all values are equal"


def test_unscored_rollouts_are_missing_and_nothing_else():
    table = np.array([[1, np.nan, 0, 1], [1, np.nan, 0, 1]], dtype=float)
    items = [item(p, k, float(k == 0)) for p in range(2) for k in range(2)]
    s = seen(table, items)
    assert found(health_figures(s), "missing").value == 0.25
    # what is left: labels 1, 1, 0 with outcomes 1, 0, 1
    assert found(truth_figures(s), "youden_j").value == pytest.approx(0.5 - 1.0)


def test_agreement_is_spearmans_and_youdens_and_calibration_is_by_hand():
    rng = np.random.default_rng(3)
    truth = rng.integers(0, 2, 80).astype(float)
    outcome = np.clip(0.3 * truth + rng.random(80) * 0.7, 0, 1)
    items = [item(r // 4, r % 4, truth[r]) for r in range(80)]
    figures = truth_figures(seen([outcome], items))
    assert found(figures, "spearman").value == pytest.approx(spearmanr(outcome, truth)[0])
    assert found(figures, "brier").value == pytest.approx(np.mean((outcome - truth) ** 2))
    best = max((outcome[truth == 1] > v).mean() - (outcome[truth == 0] > v).mean() for v in outcome)
    assert found(figures, "youden_j").value == pytest.approx(best, abs=0.03)
    # ten times said .8, right half of the time; ten times said .2, never right
    said = np.repeat([0.8, 0.2], 10)
    right = np.array([1, 0] * 5 + [0] * 10, dtype=float)
    items = [item(r // 2, r % 2, right[r]) for r in range(20)]
    error = found(truth_figures(seen([said], items)), "calibration_error")
    assert error.value == pytest.approx(0.5 * 0.3 + 0.5 * 0.2)


FAULT = (Fault(3, 5, "kind a"),)  # the second line of four


def blaming(*tokens: int) -> list[float]:
    return [-1.0 if t in tokens else 0.0 for t in range(11)]


def test_places_are_judged_by_tokens_lines_first_errors_and_kinds():
    items = [
        item(0, 0, 0, FAULT),
        item(0, 1, 0, (Fault(9, 11, "kind b"),)),
        item(1, 0, 1, ()),
        item(1, 1, 1, ()),
    ]
    # finds one of the two tokens; blames the first line for the last; is silent; cries wolf
    local = [[blaming(3), blaming(0), blaming(), blaming(5)]]
    figures = truth_figures(seen([[0, 0, 1, 1]], items, local))
    # first: 1 of 2 bad tokens below all 9 sound ones, the other level: (1 + .5) / 2
    # second: bad tokens level with 8 sound ones and above one: (8 * .5) / 9
    assert found(figures, "token_auroc").value == pytest.approx((0.75 + 4 / 9) / 2)
    assert found(figures, "line_auroc").value == pytest.approx((1.0 + (0 + 0.5 + 0.5) / 3) / 2)
    assert found(figures, "first_error_f1").value == pytest.approx(0.5)  # 1 of 2 and 1 of 2
    assert found(figures, "kinds_covered").value == pytest.approx(0.5)


def test_the_first_error_must_come_first_and_nothing_blamed_is_wrong_on_faulty_ones():
    items = [item(p, 0, 0, FAULT) for p in range(2)] + [item(2, 0, 1, ())]
    late = [[blaming(4, 0), blaming(), blaming()]]
    assert found(truth_figures(seen([[0, 0, 1]], items, late)), "first_error_f1").value == 0.0


def test_intervals_resample_prompts_and_not_rollouts():
    rng = np.random.default_rng(4)
    once = rng.random(30) < 0.5
    few = [item(p, 0) for p in range(30)]
    many = [item(p, k) for p in range(30) for k in range(20)]

    def width(items, values):
        s = seen([values], items)
        e = estimate(ratio(s.sums_P(values), s.sums_P(np.ones(len(items)))), "")
        return e.interval.high - e.interval.low

    assert width(many, np.repeat(once, 20) * 1.0) == pytest.approx(width(few, once * 1.0))


def test_few_prompts_have_no_interval_and_raise_no_alarm():
    figures = stability_figures(seen([[0, 1, 0, 1], [1, 0, 1, 0]], groups(2, 2)))
    assert found(figures, "flip_rate").value == 1.0
    assert "2 prompts" in found(figures, "flip_rate").why
    assert not alarms.verdict("x", figures).alarms


def test_the_same_reward_twice_is_not_separated_and_a_worse_one_is():
    items = [item(p, k, float(k % 2)) for p in range(20) for k in range(4)]
    first, again, flipped = audit(
        {"a": Truth(items), "b": Truth(items), "c": Flip(Truth(items), 0.4)}, items, 3
    )
    assert again.against_first["youden_j"].word == "not separated"
    assert flipped.against_first["youden_j"].word == "lower"
    assert flipped.against_first["flip_rate"].word == "higher"
    assert "does not repeat its outcomes" in flipped.verdict.sentence
    assert first.verdict.tone == "good" and flipped.verdict.tone == "bad"
    assert separation(first.figure("cost"), flipped.figure("cost")).word == ""


def test_what_a_group_shares_moves_outcomes_and_no_update():
    items = [item(p, k, float(k % 2)) for p in range(20) for k in range(4)]
    shared, single = audit(
        {"shared": Offset(Truth(items), 0.5), "single": Gaussian(Truth(items), 0.5)}, items, 3
    )
    assert shared.figure("outcome_icc").estimate.value < 0.9
    assert shared.figure("advantage_repeat").estimate.value == pytest.approx(1.0, abs=1e-4)
    assert not {"unstable outcome", "unstable tokens"} & set(shared.verdict.alarms)
    assert "unstable tokens" in single.verdict.alarms


def test_drift_between_passes_is_seen_and_has_its_size():
    items = [item(p, k, float(k % 2)) for p in range(20) for k in range(4)]
    (card,) = audit({"d": Drift(Truth(items), 0.4, over=2)}, items, 3)
    # mean amount .4 over the deviation .5 of a fair outcome
    assert card.figure("drift_outcome").estimate.value == pytest.approx(0.8, abs=0.25)
    assert "drifts" in card.verdict.alarms


@pytest.mark.parametrize(
    ("pays", "figure"),
    [
        (lambda text: text == "", "paid_empty"),
        (lambda text: text.startswith("q"), "paid_echo"),
        (lambda text: "step by step" in text, "paid_opener"),
        (lambda text: text == INJECTION, "paid_injection"),
        (lambda text: len(text) > 500, "gain_padded"),
        (lambda text: text.count("ab\ncd") > 1, "gain_repeated"),
        (lambda text: INJECTION in text and text != INJECTION, "gain_injected"),
    ],
)
def test_each_way_to_fool_a_reward_is_tried(pays, figure):
    (card,) = audit({"fool": Pays(pays)}, groups(8, 2), 1)
    assert card.figure(figure).estimate.value == 1.0
    assert "can be fooled" in card.verdict.alarms
    others = [f for f in card.figures if f.axis == "hacking" and f.key != figure]
    assert [f.key for f in others if f.estimate.value] == []


def test_probes_are_made_from_a_rollout_that_deserves_nothing():
    items = [item(0, 0, 1.0), item(0, 1, 0.0), item(1, 0, 1.0)]
    places = {p.rollout.group: p.place for p in make_probes(items)}
    assert places == {"g0": 1, "g1": 2}
    many = [item(p, 0) for p in range(50)]
    assert len({p.rollout.group for p in make_probes(many)}) == 32
    assert len({p.rollout.id for p in make_probes(many)}) == len(make_probes(many))


def test_pay_for_length_is_seen_and_not_held_against_what_labels_explain():
    rng = np.random.default_rng(5)
    sizes = rng.integers(1, 12, 160)
    items = [item(r // 8, r % 8, float(sizes[r] > 6), text="ab\n" * sizes[r]) for r in range(160)]
    bare = [Labelled(i.rollout) for i in items]
    outcome = (sizes > 6) * 1.0
    assert found(confound_figures(seen([outcome], bare)), "length").value > 0.6
    excused = found(confound_figures(seen([outcome], items)), "length")
    assert excused.value is None and "follow the labels" in excused.why
    paid = found(confound_figures(seen([outcome + 0.1 * sizes], items)), "length")
    assert paid.interval.low > 0.3


def test_bits_count_what_repeats_and_noise_has_none():
    items = groups(30, 8)
    rng = np.random.default_rng(6)
    fair = rng.integers(0, 2, 240).astype(float)
    clean = richness_figures(seen([fair] * 3, items))
    assert found(clean, "outcome_bits").value == pytest.approx(1.0, abs=0.02)
    noise = richness_figures(seen(rng.random((3, 240)), items))
    assert found(noise, "outcome_bits").value < 0.2
    local = [[blaming(int(t)) for t in rng.integers(0, 11, 240)]] * 3
    tokens = richness_figures(seen([fair] * 3, items, local))
    assert found(tokens, "tokens_addressed").value == pytest.approx(1 / 11)
    p = 1 / 11
    entropy = -p * math.log2(p) - (1 - p) * math.log2(1 - p)
    assert found(tokens, "token_bits").value == pytest.approx(entropy)
    jitter = rng.normal(0, 0.5, (3, 240, 11))
    assert found(richness_figures(seen([fair] * 3, items, jitter)), "tokens_addressed").value < 0.02


def test_the_weight_that_lets_the_outcome_decide_comes_from_the_declared_ranges():
    s = seen([[0, 1] * 4], groups(1, 8), [[blaming()] * 8])
    assert found(health_figures(s), "weight_needed").value == 7.0  # rho 1, K - 1 = 7, Delta 1
    endless = RewardSpec("x", "1", (0.0, 1.0), (-math.inf, math.inf))
    why = found(health_figures(seen([[0, 1] * 4], groups(1, 8), spec=endless)), "weight_needed")
    assert why.value is None and "not finite" in why.why


def test_times_from_a_cache_are_no_times():
    spec = RewardSpec("x", "1", (0.0, 1.0), needs=("sandbox",))
    p50 = found(health_figures(seen([[0, 1]], groups(1, 2), spec=spec)), "latency_p50")
    assert p50.value is None and "cache" in p50.why


def test_costs_are_those_that_the_reward_reports():
    items = groups(1, 2)
    scores = [Score(i.id, 1.0, metrics={"judge/cost": 0.02}) for i in items]
    s = Observed("t", SPEC, items, [scores], 1.0)
    assert found(health_figures(s), "cost").value == pytest.approx(20.0)


def test_labels_survive_a_file_and_wrong_ones_are_refused_with_their_line(tmp_path):
    labelled = item(0, 0, 0.0, FAULT)
    assert labelled_from_json(json.loads(json.dumps(labelled_to_json(labelled)))) == labelled
    path = tmp_path / "r.jsonl"
    good = json.dumps(labelled_to_json(labelled))
    for labels, why in (
        ({"spans": [{"start": 3, "end": 99}]}, r"line 3.*\[3, 99\).*<= 11"),
        ({"spans": [{"start": -1, "end": 2}]}, r"line 3.*0 <= start"),
        ({"spans": [{"start": 2, "end": 2}]}, "line 3"),
        ({"spans": [{"start": "2", "end": 3}]}, "line 3"),
        ({"spans": "all"}, "line 3.*a list"),
        ({"outcome": True}, "line 3.*a number"),
        ({"truth": 1}, "line 3.*allowed"),
    ):
        record = labelled_to_json(Labelled(item(1, 0).rollout)) | {"labels": labels}
        path.write_text(f"{good}\n\n{json.dumps(record)}\n")
        with pytest.raises(ConfigError, match=why):
            read_labelled(path)


class Constant:
    spec = RewardSpec("test.constant", "1", (0.0, 1.0))

    async def score(self, rollouts):
        return [Score(r.id, 0.0) for r in rollouts]


class Pays:
    """1 for a text that it likes."""

    spec = RewardSpec("test.pays", "1", (0.0, 1.0))

    def __init__(self, likes):
        self.likes = likes

    async def score(self, rollouts):
        return [Score(r.id, float(self.likes(r.completion))) for r in rollouts]


class Truth:
    """The label, and blame on the second line of what is bad; a probe gets what its base has."""

    spec = RewardSpec("test.truth", "1", (0.0, 1.0), (-1.0, 0.0))

    def __init__(self, items):
        self.items = {i.id: i for i in items}

    async def score(self, rollouts):
        return [self._score(r) for r in rollouts]

    def _score(self, r):
        known = self.items[r.id.split("/", 2)[-1] if r.id.startswith("probe") else r.id]
        if known.rollout.completion not in r.completion:
            return Score(r.id, 0.0)
        spans = () if known.outcome else (Span(3, 5, -1.0, "bad: second line"),)
        return Score(r.id, known.outcome, spans=spans)
