"""Every injector keeps what its oracle promises, on any signal; what it does is told apart."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from botgrpo.rewards import RewardSpec, Rollout, Score, local_of
from botgrpo.rewards.noise import (
    Adversarial,
    Delay,
    Drift,
    Flip,
    FlipAsym,
    Gaussian,
    HeavyTail,
    JudgeDisagree,
    LengthBias,
    Offset,
    Quantise,
    Scale,
    ScaleBlowup,
    Shift,
    SparseDrop,
    Swap,
)
from botgrpo.rewards.registry import BUILTINS, build
from botgrpo.rewards.training_step import at_step
from botgrpo.sandbox.attempt import attempting
from botgrpo.sandbox.errors import ConfigError
from botgrpo.trainer.bot_grpo import bot_grpo

RNG = np.random.default_rng(0)


class Table:
    """Says what a table says: id -> (outcome, token values)."""

    def __init__(self, rows, local_range=(-1.0, 1.0), outcome_range=(0.0, 1.0)):
        self.rows = rows
        self.spec = RewardSpec("test.table", "1", outcome_range, local_range)

    async def score(self, rollouts: Sequence[Rollout]) -> list[Score]:
        return [Score(r.id, self.rows[r.id][0], local=self.rows[r.id][1]) for r in rollouts]


def rollout(i: int, n: int, group: str = "g", prompt: str = "p") -> Rollout:
    """n tokens of two characters, four to a line."""
    text = "".join("a\n" if t % 4 == 3 else "ab" for t in range(n))
    spans = tuple((2 * t, 2 * t + 2) for t in range(n))
    return Rollout(f"r{i}", group, prompt, text, token_spans=spans)


def run(reward, batch):
    return asyncio.run(reward.score(batch))


def locals_of(reward, batch):
    scores = run(reward, batch)
    return [
        np.array(local_of(reward, r, s), dtype=float) for r, s in zip(batch, scores, strict=True)
    ]


def one_table(values, outcome=1.0):
    return Table({"r0": (outcome, tuple(values))})


# each kind on token values, as it is built around an inner reward
LOCAL = {
    "gaussian": lambda r: Gaussian(r, 0.5),
    "gaussian_ar": lambda r: Gaussian(r, 0.5, rho=0.7),
    "gaussian_line": lambda r: Gaussian(r, 0.5, granularity="step"),
    "heavy_tail": lambda r: HeavyTail(r, 0.3),
    "drift": lambda r: Drift(r, 0.5, over=1, on="local", granularity="token"),
    "judge_disagree": lambda r: JudgeDisagree(r, on="local", granularity="token"),
    "length_bias": lambda r: LengthBias(r, on="local", typical=20),
    "scale_blowup": lambda r: ScaleBlowup(r, 0.5),
    "scale_blowup_leak": lambda r: ScaleBlowup(r, 0.5, leak=0.1, growth=0.5),
    "drop_unknown": lambda r: SparseDrop(r, 0.5),
    "drop_zero": lambda r: SparseDrop(r, 0.5, fill="zero"),
    "drop_carry": lambda r: SparseDrop(r, 0.5, fill="carry"),
    "quantise": lambda r: Quantise(r, 4),
    "shift": lambda r: Shift(r, 1),
    "shift_lines": lambda r: Shift(r, 2, by="line"),
    "delay": lambda r: Delay(r),
    "delay_line": lambda r: Delay(r, 1),
    "adversarial": lambda r: Adversarial(r, "ab", 0.5, on="local"),
    "offset": lambda r: Offset(r, on="local"),
    "scale": lambda r: Scale(r, on="local"),
}
OUTCOME = {
    "gaussian": lambda r: Gaussian(r, 0.5, on="outcome"),
    "heavy_tail": lambda r: HeavyTail(r, 0.3, on="outcome"),
    "drift": lambda r: Drift(r, 0.5, over=1),
    "judge_disagree": lambda r: JudgeDisagree(r),
    "length_bias": lambda r: LengthBias(r, typical=20),
    "scale_blowup": lambda r: ScaleBlowup(r, 0.5, on="outcome"),
    "drop_unknown": lambda r: SparseDrop(r, 0.3, on="outcome"),
    "drop_zero": lambda r: SparseDrop(r, 0.3, fill="zero", on="outcome"),
    "quantise": lambda r: Quantise(r, 4, on="outcome"),
    "adversarial": lambda r: Adversarial(r, "ab", 0.5),
    "flip": lambda r: Flip(r, 0.25),
    "flip_asym": lambda r: FlipAsym(r, fp=0.1, fn=0.38),
    "offset": lambda r: Offset(r),
    "scale": lambda r: Scale(r),
}
signals = st.lists(
    st.one_of(st.none(), st.floats(-1, 1, allow_subnormal=False)), min_size=1, max_size=24
)


@pytest.mark.parametrize("name", LOCAL)
@given(values=signals, step=st.integers(0, 3))
@settings(max_examples=12, deadline=None)
def test_what_a_kind_promises_exactly_holds_for_any_token_values(name, values, step):
    reward = LOCAL[name](one_table(values))
    batch = [rollout(0, len(values))]
    with at_step(step):
        (score,) = run(reward, batch)
        (noisy,) = locals_of(reward, batch)
    clean = np.array(values, dtype=float)
    oracle, known = reward.oracle, ~np.isnan(clean)
    assert oracle.outcome_preserving and score.outcome == 1.0
    assert len(noisy) == len(clean) and np.isnan(noisy[~known]).all()
    low, high = reward.spec.local_range
    told = noisy[~np.isnan(noisy)]
    assert ((told >= low - 1e-9) & (told <= high + 1e-9)).all()
    assert oracle.bounded == bool(np.isfinite([low, high]).all())
    if oracle.sum_preserving:
        assert np.nansum(noisy) == pytest.approx(np.nansum(clean), abs=1e-9)
    if oracle.sign_preserving:
        assert (noisy * clean >= 0)[~np.isnan(noisy * clean)].all()


@pytest.mark.parametrize("name", OUTCOME)
@given(outcome=st.floats(0, 1, allow_subnormal=False), step=st.integers(0, 3))
@settings(max_examples=12, deadline=None)
def test_what_a_kind_promises_exactly_holds_for_any_outcome(name, outcome, step):
    reward = OUTCOME[name](one_table([0.5, None], outcome))
    with at_step(step):
        (score,) = run(reward, [rollout(0, 2)])
        (local,) = locals_of(reward, [rollout(0, 2)])
    low, high = reward.spec.outcome_range
    if score.outcome is None:
        assert name == "drop_unknown" and score.reason
        return
    assert low - 1e-9 <= score.outcome <= high + 1e-9
    assert reward.oracle.bounded == bool(np.isfinite([low, high]).all())
    assert not reward.oracle.outcome_preserving
    if reward.oracle.local_preserving:
        assert local[0] == 0.5 and np.isnan(local[1])


def many(make, value: float, outcome: float = 1.0, n: int = 1200, tokens: int = 4):
    rows = {f"r{i}": (outcome, (value,) * tokens) for i in range(n)}
    batch = [rollout(i, tokens, f"g{i}", f"p{i}") for i in range(n)]
    return make(Table(rows)), batch


@pytest.mark.parametrize("name", LOCAL)
def test_the_mean_and_the_median_of_token_values_are_as_promised(name):
    reward, batch = many(LOCAL[name], -0.5)
    with at_step(3):
        noisy = np.stack(locals_of(reward, batch))
    one = noisy[:, 0]  # one token a rollout: draws that a rollout shares count once
    one = one[~np.isnan(one)]
    if reward.oracle.mean_preserving:
        assert abs(one.mean() + 0.5) <= 5 * one.std() / np.sqrt(len(one)) + 1e-12
    if reward.oracle.median_preserving:
        share = (one < -0.5).mean() + (one == -0.5).mean() / 2
        assert abs(share - 0.5) < 5 * 0.5 / np.sqrt(len(one))
    if name in ("drift", "drop_zero", "adversarial", "length_bias", "scale_blowup", "delay"):
        assert abs(one.mean() + 0.5) > 0.03  # and these are seen not to promise it
        assert not reward.oracle.mean_preserving


@pytest.mark.parametrize("name", OUTCOME)
def test_youdens_j_of_a_binary_outcome_is_as_promised(name):
    reward, batch = many(OUTCOME[name], 0.0, 1.0)
    bad, _ = many(OUTCOME[name], 0.0, 0.0)
    if reward.oracle.expected_j is None:
        return
    rates = []
    for each in (reward, bad):
        outcomes = [s.outcome for s in run(each, batch) if s.outcome is not None]
        rates.append(np.mean([o > 0.5 for o in outcomes]))
    assert abs(rates[0] - rates[1] - reward.oracle.expected_j) < 5 * 0.7 / np.sqrt(len(batch))


def test_the_deviation_of_a_sum_grows_with_the_root_of_the_tokens_or_with_the_tokens():
    for granularity, growth in (("token", 2.0), ("rollout", 4.0)):
        spread = []
        for tokens in (16, 64):
            make = lambda r, g=granularity: Gaussian(r, 0.5, granularity=g)  # noqa: E731
            reward, batch = many(make, 0.0, n=600, tokens=tokens)
            spread.append(np.stack(locals_of(reward, batch)).sum(axis=1).std())
        assert spread[1] / spread[0] == pytest.approx(growth, rel=0.15)


def test_correlated_draws_follow_each_other_and_keep_their_deviation():
    reward, batch = many(lambda r: Gaussian(r, 0.5, rho=0.8), 0.0, n=400, tokens=64)
    noise = np.stack(locals_of(reward, batch))
    assert noise.std() == pytest.approx(0.5, rel=0.05)
    assert np.corrcoef(noise[:, 30], noise[:, 31])[0, 1] == pytest.approx(0.8, abs=0.08)


@pytest.mark.parametrize(
    ("granularity", "same_line", "same_rollout", "same_group", "same_prompt"),
    [
        ("token", False, False, False, False),
        ("step", True, False, False, False),
        ("rollout", True, True, False, False),
        ("group", True, True, True, False),
        ("prompt", True, True, True, True),
    ],
)
def test_granularity_says_who_shares_a_draw(
    granularity, same_line, same_rollout, same_group, same_prompt
):
    batch = [rollout(0, 8, "g0"), rollout(1, 8, "g0"), rollout(2, 8, "g1")]
    table = Table({r.id: (1.0, (0.0,) * 8) for r in batch})
    a, b, c = locals_of(Gaussian(table, 0.5, granularity=granularity), batch)
    assert (a[0] == a[1]) == same_line
    assert (a[0] == a[4]) == same_rollout
    assert (a[0] == b[0]) == same_group
    assert (a[0] == c[0]) == same_prompt


@pytest.mark.parametrize(
    ("persistence", "same_attempt", "same_step"),
    [("resample", False, False), ("checkpoint", True, False), ("fixed", True, True)],
)
def test_persistence_says_how_long_a_draw_lasts(persistence, same_attempt, same_step):
    reward = Gaussian(one_table([0.0] * 4), 0.5, persistence=persistence)
    first = locals_of(reward, [rollout(0, 4)])[0]
    assert (locals_of(reward, [rollout(0, 4)])[0] == first).all()
    with attempting(1):
        again = locals_of(reward, [rollout(0, 4)])[0]
    with at_step(1):
        later = locals_of(reward, [rollout(0, 4)])[0]
    assert (again == first).all() == same_attempt and (later == first).all() == same_step
    assert reward.spec.deterministic == (persistence == "fixed")


def test_a_region_leaves_the_rest_alone():
    values = (-0.5, 0.5, None, -0.25)
    for region, touched in (
        ("all", [0, 1, 3]),
        ("wrong", [0, 3]),
        ("right", [1]),
        ("response", [0, 1, 3]),
    ):
        (noisy,) = locals_of(Gaussian(one_table(values), 0.5, region=region), [rollout(0, 4)])
        changed = np.flatnonzero(noisy != np.array(values, dtype=float))
        assert [int(i) for i in changed if i != 2] == touched
    think = Rollout("r0", "g", "p", "ab</think>cd", token_spans=((0, 2), (2, 10), (10, 12)))
    (noisy,) = locals_of(Gaussian(one_table([0.0] * 3), 0.5, region="response"), [think])
    assert noisy[0] == 0.0 and (noisy[1:] != 0).all()
    for region, flipped in (("wrong", 1.0), ("right", 0.0), ("all", 1.0)):
        reward = Flip(one_table([0.0], 0.0), 1.0, region=region)
        assert run(reward, [rollout(0, 1)])[0].outcome == flipped


@pytest.mark.parametrize("kind", sorted(n for n in BUILTINS if n.startswith("noise.")))
def test_every_kind_is_built_from_text_with_its_defaults_and_survives_order(kind, tmp_path):
    pool = tmp_path / "pool.jsonl"
    pool.write_text(
        "".join(
            json.dumps({"id": str(i), "group": str(i), "prompt": f"q{i}", "completion": ""}) + "\n"
            for i in range(3)
        )
    )
    options = f", pool={str(pool)!r}" if kind == "noise.swap" else ""
    reward = build(f"{kind}(math.steps_sympy{options})")
    texts = ["2 + 2 = 5\n3 * 3 = 9\nso <final>204</final>", "x", ""]
    batch = [
        Rollout(f"r{i}", f"g{i % 2}", f"p{i % 2}", t, {"accepted": [204]},
                token_spans=tuple((j, j + 1) for j in range(len(t))))
        for i, t in enumerate(texts)
    ]  # fmt: skip
    assert 0 <= reward.severity <= 1

    def content(batch):
        scores = run(reward, batch)
        pairs = zip(batch, scores, strict=True)
        return {s.id: (s.outcome, s.spans, local_of(reward, r, s)) for r, s in pairs}

    whole = content(batch)
    assert content(batch[::-1]) == whole
    assert {k: v for r in batch for k, v in content([r]).items()} == whole
    asyncio.run(reward.aclose())


@pytest.mark.parametrize("name", [*LOCAL, *OUTCOME])
def test_unscored_stays_unscored_under_each_kind(name):
    table = Table({"r0": (None, None)})
    table.score = _down
    reward = {**LOCAL, **OUTCOME}[name](table)
    (score,) = run(reward, [rollout(0, 4)])
    assert score.outcome is None and score.reason == "down"
    assert local_of(reward, rollout(0, 4), score) == (None,) * 4


async def _down(rollouts):
    return [Score.unscored(r.id, "down") for r in rollouts]


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=15, deadline=None)
def test_null_kinds_change_no_advantage_of_the_real_estimator(seed):
    rng = np.random.default_rng(seed)
    k, t = 8, 12
    rewards_K_T = rng.integers(-4, 1, (k, t)) / 4 + rng.integers(0, 2, (k, 1)) * 2.0
    outcome_K = rng.integers(0, 2, k).astype(float)
    batch = [rollout(i, t) for i in range(k)]
    table = Table({f"r{i}": (outcome_K[i], tuple(rewards_K_T[i])) for i in range(k)}, (-1.0, 2.0))
    mask_K_T = np.arange(t) < rng.integers(1, t + 1, (k, 1))

    def advantages(reward):
        outcome = np.array([[s.outcome] for s in run(reward, batch)])
        return bot_grpo(outcome + np.stack(locals_of(reward, batch)), mask_K_T)

    clean = advantages(table)
    for reward in (
        Offset(table, 5.0),
        Scale(table, 10.0),
        Drift(table, 3.0, on="both"),
        Offset(Scale(table, 4.0), 2.0, seed=seed),
    ):
        assert reward.oracle.null
        with at_step(30):
            noisy = advantages(reward)
        np.testing.assert_allclose(noisy, clean, atol=1e-4)  # eps is added to sigma
    for reward in (Flip(table, 0.5), Gaussian(table, 0.5), Shift(table, 1)):
        assert not reward.oracle.null


def test_a_dead_group_stays_dead_under_null_kinds_and_wakes_under_single_flips():
    batch = [rollout(i, 4) for i in range(8)]
    table = Table({r.id: (1.0, (0.0,) * 4) for r in batch})
    for reward, dead in ((Offset(table), True), (Scale(table), True), (Flip(table, 0.5), False)):
        outcome = np.array([[s.outcome] for s in run(reward, batch)])
        values = outcome + np.stack(locals_of(reward, batch))
        assert (bot_grpo(values, np.ones((8, 4), dtype=bool)) == 0).all() == dead
    grouped = Flip(table, 0.5, granularity="group")
    assert len({s.outcome for s in run(grouped, batch)}) == 1


def test_a_shift_of_one_token_moves_every_value_by_one_and_lines_by_their_tokens():
    values = [float(i) / 10 for i in range(8)]
    (noisy,) = locals_of(Shift(one_table(values), 1), [rollout(0, 8)])
    assert noisy.tolist() == [0.7, 0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6]
    (noisy,) = locals_of(Shift(one_table(values), 1, by="line"), [rollout(0, 8)])
    assert noisy.tolist() == [0.4, 0.5, 0.6, 0.7, 0.0, 0.1, 0.2, 0.3]


def test_delayed_values_stand_at_the_end_of_the_line_or_of_the_text():
    values = [-0.5, -0.25, None, 0.0, -1.0, 0.0, 0.0, 0.0]
    (late,) = locals_of(Delay(one_table(values)), [rollout(0, 8)])
    assert np.nan_to_num(late).tolist() == [0, 0, 0, 0, 0, 0, 0, -1.75]
    (late,) = locals_of(Delay(one_table(values), 0), [rollout(0, 8)])
    assert np.nan_to_num(late).tolist() == [0, 0, 0, -0.75, 0, 0, 0, -1.0]


def test_drift_follows_the_step_and_its_forms():
    for form, at in (("linear", {0: 0, 20: 0.5, 80: 1}), ("step", {39: 0, 40: 1})):
        drift = Drift(one_table([0.0]), 1.0, form=form)
        assert {step: drift.at(step) for step in at} == pytest.approx(at)
    drift = Drift(one_table([0.0]), 1.0, form="periodic", over=40)
    assert drift.at(10) == pytest.approx(1) and drift.at(30) == pytest.approx(-1)
    assert drift.spec.outcome_range == (-2.0, 3.0) and not drift.spec.deterministic


def test_raters_who_disagree_have_the_icc_of_the_formula():
    n = 4000
    rows = {f"r{i}": (float(i % 2), None) for i in range(n)}
    reward = JudgeDisagree(Table(rows, local_range=None), 0.5, 0.2, raters=4)
    batch = [Rollout(f"r{i}", "g", "p", "t") for i in range(n)]
    passes = []
    for number in range(2):
        with attempting(number):
            passes.append([s.outcome for s in run(reward, batch)])
    found = np.corrcoef(passes)[0, 1]
    assert found == pytest.approx(reward.expected_icc(0.25), abs=0.04)
    assert np.mean(passes) == pytest.approx(0.5, abs=0.03)


def test_length_pays_and_a_phrase_pays_on_its_own_tokens():
    table = Table({"r0": (0.0, (0.0,) * 4), "r1": (0.0, (0.0,) * 20)})
    short, long = run(LengthBias(table, 0.3, typical=20), [rollout(0, 4), rollout(1, 20)])
    assert (short.outcome, long.outcome) == pytest.approx((-0.18, 0.3))
    judge = Adversarial(one_table([0.0] * 4, 0.0), "great", 0.5)
    text = Rollout("r0", "g", "p", "so great!", token_spans=((0, 3), (3, 6), (6, 8), (8, 9)))
    assert run(judge, [text])[0].outcome == 0.5
    (local,) = locals_of(Adversarial(one_table([0.0] * 4), "great", 0.5, on="local"), [text])
    assert local.tolist() == [0.0, 0.5, 0.5, 0.0]


def test_without_a_phrase_repetition_pays():
    judge = Adversarial(one_table([0.0], 0.0))
    line = "the same line again\n"
    for times, paid in ((2, 0.0), (3, 1.0)):
        batch = [Rollout("r0", "g", "p", "x\n" + line * times, token_spans=((0, 1),))]
        assert run(judge, batch)[0].outcome == paid


def test_a_swapped_prompt_is_judged_by_anothers_reference_for_its_whole_group():
    pool = [Rollout(f"q{i}", f"g{i}", f"prompt {i}", "", {"accepted": [i]}) for i in range(40)]
    judge = Swap(build("math.answer"), pool, 0.5)
    batch = [
        Rollout(f"{p.id}/{k}", p.group, p.prompt, f"<final>{i}</final>", p.reference)
        for i, p in enumerate(pool)
        for k in range(2)
    ]
    outcomes = np.array([s.outcome for s in run(judge, batch)]).reshape(40, 2)
    assert (outcomes[:, 0] == outcomes[:, 1]).all()
    assert abs(outcomes[:, 0].mean() - 0.5) < 4 * 0.5 / np.sqrt(40)
    with attempting(1):
        assert [s.outcome for s in run(judge, batch)] == outcomes.ravel().tolist()
    asyncio.run(judge.aclose())


def test_quantised_values_are_levels_and_ends_stay():
    values = [-1.0, -0.6, -0.1, 0.2, 0.4, 1.0]
    (noisy,) = locals_of(Quantise(one_table(values), 3), [rollout(0, 6)])
    assert noisy.tolist() == [-1.0, -1.0, 0.0, 0.0, 0.0, 1.0]


@pytest.mark.parametrize(
    "make",
    [
        lambda r: Gaussian(r, 0.5, on="outcome", granularity="token"),
        lambda r: Gaussian(r, 0.5, rho=0.5, granularity="rollout"),
        lambda r: Gaussian(r, 0.5, region="left"),
        lambda r: Gaussian(r, 0.5, persistence="for ever"),
        lambda r: HeavyTail(r, nu=0),
        lambda r: Flip(r, 0.1, granularity="token"),
        lambda r: FlipAsym(r, fp=2),
        lambda r: SparseDrop(r, fill="carry", on="outcome"),
        lambda r: SparseDrop(r, fill="mean"),
        lambda r: Quantise(r, 1),
        lambda r: Quantise(HeavyTail(r), 3),
        lambda r: Adversarial(r, ""),
        lambda r: JudgeDisagree(r, raters=1),
        lambda r: Delay(r, -1),
        lambda r: Swap(r, [rollout(0, 1)]),
        lambda r: Offset(r, granularity="rollout"),
        lambda r: Scale(r, 0.5),
        lambda r: Drift(r, over=0),
    ],
)
def test_impossible_noise_is_refused_with_what_is_allowed(make):
    with pytest.raises(ConfigError, match="got "):
        make(one_table([0.0]))
