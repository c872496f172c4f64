"""Several steps on one batch, a leash to the start, and weights for a sampler that differs."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from transformers import LlamaForCausalLM

from botgrpo.trainer.algorithms import ALGORITHMS
from botgrpo.trainer.logps import Row, frozen_logps, token_logps
from botgrpo.trainer.losses import CORRECTIONS
from botgrpo.trainer.reference import Reference
from botgrpo.trainer.update import Settings, correction_weights, deal, update
from test_trainer_update import some_rows, tiny_model

HOW = Settings(pad_id=0, temperature=1.0, max_tokens=16, budget_tokens=10_000, grad_clip=1e9)


def changed(**sets: object) -> Settings:
    from dataclasses import replace

    return replace(HOW, **sets)  # type: ignore[arg-type]


def run(
    model: LlamaForCausalLM,
    rows: list[Row],
    how: Settings,
    *,
    lr: float = 0.5,
    name: str = "bot_grpo",
    reference: Reference | None = None,
) -> dict[str, float]:
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    return update(model, optimizer, rows, ALGORITHMS[name], how, reference=reference)


def logps_of(model: LlamaForCausalLM, rows: list[Row]) -> list[torch.Tensor]:
    return frozen_logps(model, rows, pad_id=0, temperature=1.0, autocast=None, budget_tokens=10_000)


def as_sampled(model: LlamaForCausalLM, rows: list[Row]) -> list[Row]:
    """The rows with log-probabilities as an exact sampler would report them."""
    logps = logps_of(model, rows)
    return [
        Row(r.prompt_ids, r.completion_ids, r.advantages_T, lp.numpy())
        for r, lp in zip(rows, logps, strict=True)
    ]


def test_every_epoch_deals_each_rollout_once_and_in_another_order() -> None:
    shares = list(deal(10, epochs=2, minibatches=3, seed=(1, 2)))
    assert [len(s) for s in shares] == [4, 3, 3, 4, 3, 3]
    for epoch in (shares[:3], shares[3:]):
        assert sorted(i for share in epoch for i in share) == list(range(10))
    assert shares[:3] != shares[3:]
    assert shares == list(deal(10, 2, 3, (1, 2))) and shares != list(deal(10, 2, 3, (1, 3)))
    assert list(deal(2, 1, 4, (0,))) in ([[0], [1]], [[1], [0]])
    assert list(deal(0, 1, 1, (0,))) == [[]]


def test_old_log_probabilities_stay_those_from_before_the_first_step() -> None:
    """Two epochs by hand: the second step's ratio is against the first weights."""
    rows = some_rows()
    ours, theirs = tiny_model(), tiny_model()
    run(ours, rows, changed(epochs=2))
    old_N = torch.cat(logps_of(theirs, rows))
    advantages_N = torch.from_numpy(np.concatenate([r.advantages_T for r in rows])).float()
    lengths = torch.tensor([len(r.completion_ids) for r in rows])
    weight_N = torch.repeat_interleave(1 / (3 * lengths.float()), lengths)
    optimizer = torch.optim.SGD(theirs.parameters(), lr=0.5)
    for _ in range(2):
        optimizer.zero_grad()
        logps_N, _ = token_logps(theirs, rows, pad_id=0, temperature=1.0, autocast=None)
        ratio_N = torch.exp(logps_N - old_N)
        loss_N = -torch.minimum(ratio_N * advantages_N, ratio_N.clamp(0.8, 1.2) * advantages_N)
        (loss_N * weight_N).sum().backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    for p, q in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(p, q, atol=1e-5, rtol=1e-4)


def test_steps_that_go_too_far_are_clipped_and_counted() -> None:
    near = run(tiny_model(), some_rows(), changed(epochs=3), lr=1e-4)
    far = run(tiny_model(), some_rows(), changed(epochs=3), lr=3.0)
    assert near["clip_ratio/region_mean"] == 0
    assert 0 < far["clip_ratio/region_mean"] <= 2 / 3  # nothing is clipped in the first epoch
    assert "clip_ratio/region_mean" not in run(tiny_model(), some_rows(), HOW)


@pytest.mark.parametrize("name", ["bot_grpo", "gspo", "gspo_token", "grpo_lambda", "dapo"])
def test_micro_batches_change_nothing_in_any_of_several_steps(name: str) -> None:
    whole, parts = tiny_model(), tiny_model()
    a = run(whole, some_rows(), changed(epochs=2, minibatches=2), name=name)
    b = run(parts, some_rows(), changed(epochs=2, minibatches=2, budget_tokens=1), name=name)
    assert a["loss"] == pytest.approx(b["loss"], abs=1e-5)
    for p, q in zip(whole.parameters(), parts.parameters(), strict=True):
        torch.testing.assert_close(p, q, atol=1e-5, rtol=1e-3)


def test_the_leash_measures_nothing_at_the_start_and_pulls_back_later() -> None:
    model = tiny_model()
    reference = Reference(model)
    rows = some_rows(0.0)  # no advantage: only the leash moves anything
    start = run(model, rows, changed(kl=1.0), reference=reference)
    assert start["kl"] == 0.0 and start["grad_norm"] == pytest.approx(0.0, abs=1e-7)
    run(model, some_rows(), HOW, lr=0.3)
    kl = [run(model, rows, changed(kl=1.0), lr=0.05, reference=reference)["kl"] for _ in range(6)]
    assert kl[0] > 0 and kl[-1] < 0.7 * kl[0]


def test_the_reference_stays_where_the_run_began() -> None:
    model = tiny_model()
    before = copy.deepcopy(model.state_dict())
    reference = Reference(model)
    run(model, some_rows(), changed(epochs=2, kl=0.1), reference=reference)
    with reference.model() as start:
        assert all(torch.equal(before[k], v) for k, v in start.state_dict().items())
        assert not any(p.requires_grad for p in start.parameters())
    assert not torch.equal(before["lm_head.weight"], model.state_dict()["lm_head.weight"])


def test_a_correction_is_exactly_one_where_the_sampler_is_right() -> None:
    rows = as_sampled(tiny_model(), some_rows())
    plain = tiny_model()
    expected = run(plain, rows, HOW)
    assert expected["sampling/sampling_logp_difference/max"] == 0.0
    for name in CORRECTIONS:
        corrected = tiny_model()
        numbers = run(corrected, rows, changed(correction=name))
        assert numbers["sampling/importance_sampling_ratio/min"] == 1.0
        assert numbers["sampling/importance_sampling_ratio/max"] == 1.0
        for p, q in zip(plain.parameters(), corrected.parameters(), strict=True):
            assert torch.equal(p, q)


def test_corrections_worked_by_hand() -> None:
    old = torch.tensor([0.0, 0.0, 0.0, 0.0])
    sampler = torch.tensor([-1.0, 0.9, 1e-4, -0.2])  # w = e, e^-0.9, 1 by rounding, e^0.2
    row = torch.tensor([0, 0, 1, 1])
    token = correction_weights("token", old, sampler, row)
    torch.testing.assert_close(token, torch.tensor([2.0, np.exp(-0.9), 1.0, np.exp(0.2)]).float())
    sequence = correction_weights("sequence", old, sampler, row)
    torch.testing.assert_close(
        sequence, torch.tensor([np.exp(0.1), np.exp(0.1), np.exp(0.2), np.exp(0.2)]).float()
    )
    icepop = correction_weights("icepop", old, sampler, row)  # e^-0.9 = 0.41 is below 0.5
    torch.testing.assert_close(icepop, torch.tensor([np.e, 0.0, 1.0, np.exp(0.2)]).float())


def test_a_mismatch_is_logged_and_its_correction_changes_the_step() -> None:
    rows = as_sampled(tiny_model(), some_rows())
    off = [
        Row(r.prompt_ids, r.completion_ids, r.advantages_T, r.sampler_logps_T + 0.5) for r in rows
    ]
    plain, corrected = tiny_model(), tiny_model()
    a = run(plain, off, HOW)
    b = run(corrected, off, changed(correction="token"))
    assert a["sampling/sampling_logp_difference/mean"] == pytest.approx(0.5, abs=1e-5)
    assert a["bot/logprob_mismatch/kl_nats"] == pytest.approx(np.exp(-0.5) + 0.5 - 1, abs=1e-5)
    assert b["grad_norm"] == pytest.approx(np.exp(-0.5) * a["grad_norm"], rel=1e-4)
