"""The vetted pairs: an advantage, a loss and an aggregation under one name.

A method differs from another by its entry here, never by a flag inside a loss. How a dense token
reward reaches a method that knows one number a rollout is part of the entry (`PORTS`): where both
readings make sense, `NAME` sees the outcome alone and `NAME_mean` the same information as BoT-GRPO.

With the default of one step on the batch that was just sampled the ratio is 1 and no clip range is
reached; the ranges are those of a paper's several updates on one batch (`optim.epochs`,
`optim.minibatches`).
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import replace

from botgrpo.sandbox.errors import ConfigError
from botgrpo.trainer.method import PORTS, Algorithm, advantage_options, describe

__all__ = ["ALGORITHMS", "PORTS", "Algorithm", "algorithm", "describe", "entry"]

_BOT_GRPO = Algorithm(
    "bot_grpo",
    advantage="bot_grpo",
    loss="clipped",
    aggregation="sequence_mean",
    port="token",
    clip_low=0.2,
    clip_high=0.2,
    source="arXiv 2610.09804, equations 2 and 3; its clip range is not stated, 0.2 is ours",
    summary="GRPO with the group's mean and deviation taken over tokens, 1/L a token",
    paper="K = 8; eps, KL weight, temperature and learning rate for React are not stated",
)
_GRPO = Algorithm(
    "grpo",
    advantage="grpo",
    loss="clipped",
    aggregation="sequence_mean",
    port="outcome",
    clip_low=0.2,
    clip_high=0.2,
    source="arXiv 2402.03300, equations 3 and 4 and section 4.1.2; no KL term",
    summary="one number a rollout, standardised within the group; sees no local reward",
    paper="K = 64, learning rate 1e-6, KL weight 0.04 in the loss (here none), one update a batch; "
    "clip range, kind of deviation and eps are not stated: 0.2, the population's, 1e-6 are ours",
)
_DR_GRPO = replace(
    _GRPO,
    name="dr_grpo",
    advantage="dr_grpo",
    aggregation="constant",
    source="arXiv 2503.20783",
    summary="GRPO without the deviation and without 1/L",
    paper="constant = the generation cap (3000 in its examples)",
)
_RLOO = replace(
    _GRPO,
    name="rloo",
    advantage="rloo",
    source="arXiv 2402.14740",
    summary="the outcome minus the mean of the others' outcomes; K/(K-1) times Dr.GRPO's advantage",
    paper="the paper's is unclipped REINFORCE; the clip is what libraries pair it with",
)
_GSPO = replace(
    _GRPO,
    name="gspo",
    loss="gspo",
    clip_low=3e-4,
    clip_high=4e-4,
    source="arXiv 2507.18071, equations 5 and 7 (second-hand)",
    summary="GRPO with one ratio a rollout, the geometric mean of its tokens'",
    paper="4 mini-batches a rollout batch, no KL; its GRPO baseline was tuned to 0.2 and 0.27",
)
_DAPO = replace(
    _GRPO,
    name="dapo",
    aggregation="token_mean",
    clip_high=0.28,
    source="arXiv 2503.14476, equations 8 and 10 to 13, table 1",
    summary="GRPO with a higher upper clip and token-mean loss; uniform groups dropped, overlong "
    "rollouts punished",
    paper="K = 16, 512 prompts, 16 updates a batch, learning rate 1e-6, no KL. Dropped groups are "
    "replaced by new prompts there; here the step is smaller. The penalty spans the last fifth of "
    "the cap (4096 of 20480) and is at most half of the outcome's gap, as -1 against +1 and -1",
    dynamic_sampling=True,
    overlong_share=0.2,
)


_BOT_GRPO_TOKEN_MEAN = replace(
    _BOT_GRPO,
    name="bot_grpo_token_mean",
    aggregation="token_mean",
    summary="BoT-GRPO with 1/L in the statistics alone: every token weighs alike in the loss",
    paper="not in it: the other half of what 1/L does, to be told apart from the first",
)


def _mean(entry: Algorithm) -> Algorithm:
    """The same method on each rollout's mean token reward."""
    return replace(
        entry,
        name=f"{entry.name}_mean",
        port="mean",
        summary=f"{entry.name} given the same information as BoT-GRPO, but not where it belongs",
    )


_PROCESS = (
    replace(
        _GRPO,
        name="grpo_process",
        advantage="grpo_process",
        port="step",
        source="arXiv 2402.03300, section 4.1.3",
        summary="GRPO on steps: the group's step rewards standardised, summed from each token on",
        needs=("step boundaries: lines of the completion that are not blank",),
    ),
    replace(
        _GRPO,
        name="reinforce_pp",
        advantage="reinforce_pp",
        port="outcome_last",
        aggregation="token_mean",
        source="arXiv 2501.03262; verl compute_reinforce_plus_plus_outcome_advantage",
        summary="no group: the outcome, whitened over all tokens of the batch",
        paper="KL is part of the reward there (here none); `reinforce_pp_baseline` in ADVANTAGES "
        "subtracts the group's mean first",
    ),
    replace(
        _BOT_GRPO,
        name="gspo_token",
        loss="gspo_token",
        clip_low=3e-4,
        clip_high=4e-4,
        source="arXiv 2507.18071, equations 14 and 15 (second-hand), which leave the token "
        "advantages open: BoT-GRPO's are our choice",
        summary="GSPO's ratio in value, each token's own in gradient: GSPO for token advantages",
        paper="clip range of GSPO",
    ),
    replace(
        _GRPO,
        name="pure",
        advantage="pure",
        port="step_and_outcome",
        source="arXiv 2504.15275 (equations second-hand), CJReinforce/PURE main, train_pure.sh",
        summary="process rewards in min form: a rollout is as good as its worst step",
        paper="K = 4, temperature 0.5, learning rate 5e-7, KL weight 0.001 in the reward (here "
        "none), softmin at 0.1, steps split at blank lines. `pure_openrlhf_step` and `pure_verl` "
        "in ADVANTAGES are its other estimators",
        needs=("step boundaries: lines of the completion that are not blank",),
    ),
    replace(
        _GRPO,
        name="prime",
        advantage="prime",
        port="token_and_outcome",
        aggregation="token_mean",
        source="arXiv 2502.01456 as implemented in verl-recipe/prime",
        summary="whitened return-to-go of centred process rewards (the local ones) and outcomes",
        paper="K = 4, prompts kept at 0.2 to 0.8 solved, entropy weight 0.001, and an implicit "
        "reward model 0.05 (lp_phi - lp_ref) that learns along: `[prime]` in a configuration; "
        "without it the design's local rewards stand in",
    ),
    replace(
        _BOT_GRPO,
        name="hapo",
        advantage="hapo",
        clip_high=0.28,
        aggregation="token_mean",
        source="arXiv 2509.16591, Token Level Group Average, as its code has it (not 2604.11056 "
        "nor 2603.11321, also called HAPO)",
        summary="BoT-GRPO without 1/L: every token of the group weighs alike; GRPO where |A| >= 5",
        paper="there an outcome on every token, with DAPO's loss; its entropy-driven temperature, "
        "redistribution and clipping are not here",
    ),
    replace(
        _GRPO,
        name="grpo_lambda",
        advantage="grpo_lambda",
        loss="grpo_lambda",
        source='arXiv 2510.00194 (second-hand), trace "recent", decay 0.99; its clip range was '
        "not found, 0.2 is ours",
        summary="GRPO whose ratio remembers earlier tokens; negative advantages no lower than -0.1",
        paper="after supervised training; `grpo_lambda_both` in LOSSES is its other trace",
    ),
    replace(
        _DAPO,
        name="vapo",
        advantage="vapo",
        port="outcome_last",
        dynamic_sampling=False,
        overlong_share=0.0,
        critic=True,
        source="arXiv 2504.05118 (second-hand)",
        summary="PPO with a pre-trained critic, GAE whose lambda grows with length, DAPO's loss",
        paper="alpha = 0.05, critic lambda 1, 512 prompts x 16. The critic begins as a reward "
        "model there, here as the policy, and learns alone for 50 steps of 5,000 (`[critic] "
        "pretrain_steps`); the likelihood of correct rollouts, weight 0.1, is not here",
        needs=("a critic's values",),
    ),
)
_UNAVAILABLE = (
    replace(
        _DAPO,
        name="lambda_grpo",
        advantage="lambda_grpo",
        clip_high=0.2,
        dynamic_sampling=False,
        overlong_share=0.0,
        source="arXiv 2510.06870, equation 16 (second-hand; not 2509.21154 of the same name)",
        summary="token-mean GRPO whose rollouts weigh by a learned power of their length",
        paper="r = 1/9",
        needs=("a learned exponent lambda",),
        unavailable="its lambda learns with the policy, and the loop trains the policy alone",
    ),
    replace(
        _DAPO,
        name="gtpo",
        advantage="gtpo",
        dynamic_sampling=False,
        overlong_share=0.0,
        source="arXiv 2508.04349 (second-hand; not 2508.03772 of the same name)",
        summary="DAPO's loss with more credit where the policy was undecided",
        paper="weights a1, a2: formula unavailable, sources disagree",
        needs=("entropies over the vocabulary", "a split into correct and wrong"),
        unavailable="the sampler returns no entropies over the vocabulary, and its two weights "
        "could not be found",
    ),
    replace(
        _GRPO,
        name="grpo_s",
        advantage="grpo_s",
        loss="gspo",
        clip_high=0.28,
        source="arXiv 2508.04349 (second-hand)",
        summary="GTPO by rollout: mean entropies in place of each token's",
        paper="weights b1, b2: formula unavailable; its ratio is the mean of the tokens' ratios, "
        "not GSPO's geometric one",
        needs=("entropies over the vocabulary", "a split into correct and wrong"),
        unavailable="the sampler returns no entropies over the vocabulary, and its two weights "
        "could not be found",
    ),
    replace(
        _GRPO,
        name="eapo",
        advantage="eapo",
        source="arXiv 2604.11056 (second-hand; HAPO in its second version)",
        summary="formula unavailable: a bonus for tokens of high entropy",
        paper="alpha = 0.2, phi = 2",
        needs=("entropies over the vocabulary",),
        unavailable="formula unavailable: no source at hand defines its entropy advantage A^H",
    ),
)

ALGORITHMS: dict[str, Algorithm] = {
    a.name: a
    for a in (
        _BOT_GRPO,
        _BOT_GRPO_TOKEN_MEAN,
        *(e for base in (_GRPO, _DR_GRPO, _RLOO, _GSPO, _DAPO) for e in (base, _mean(base))),
        *_PROCESS,
        *_UNAVAILABLE,
    )
}


def entry(name: str) -> Algorithm:
    """The entry called `name`; raises ConfigError naming what exists."""
    if name in ALGORITHMS:
        return ALGORITHMS[name]
    near = difflib.get_close_matches(name, ALGORITHMS, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise ConfigError(
        f"no algorithm {name!r}.{hint} Known: {', '.join(sorted(ALGORITHMS))}. "
        "`botgrpo algorithms list` describes them."
    )


def algorithm(name: str, options: Iterable[str] = ()) -> Algorithm:
    """The entry called `name`, to train with.

    Args:
        options: keywords that a configuration wants to give to the advantage.

    Raises:
        ConfigError: no such algorithm, one that cannot be trained here, or an unknown keyword.
    """
    found = entry(name)
    if found.unavailable:
        trainable = sorted(a.name for a in ALGORITHMS.values() if not a.unavailable)
        raise ConfigError(
            f"algorithm {name!r} cannot be trained here: {found.unavailable}. "
            f"Trainable: {', '.join(trainable)}"
        )
    for option in options:
        allowed = sorted(advantage_options(found))
        if option not in allowed:
            raise ConfigError(
                f"algorithm_options: {name} has no option {option!r}. "
                f"Allowed: {', '.join(allowed) or 'none'}"
            )
    return found
