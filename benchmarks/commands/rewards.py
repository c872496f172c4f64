"""Rewards by themselves: scored, audited, listed, made."""

from __future__ import annotations

import asyncio
import sys
from argparse import Namespace
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any


def score(arguments: Namespace) -> int:
    from botgrpo.benchmarks import scoring
    from botgrpo.benchmarks.stability import stability, stability_text
    from botgrpo.rewards.pictures import collecting
    from botgrpo.rewards.records import read_rollouts, write_records
    from botgrpo.rewards.registry import build

    reward = build(arguments.reward, defaults={"backend": arguments.backend})
    for path in (arguments.out, arguments.html):
        if path not in ("-", None):
            Path(path).open("a").close()  # what cannot be written is found before the work
    rollouts = read_rollouts(arguments.input)
    if (tokenizer := _tokenizer(arguments.tokenizer)) is not None:
        rollouts = scoring.with_tokens(rollouts, tokenizer)

    def progress(number: int) -> None:
        if arguments.repeat > 1:
            print(f"pass {number} of {arguments.repeat}", file=sys.stderr)

    looking: AbstractContextManager[Mapping[str, bytes]] = (
        collecting() if arguments.html or arguments.pictures else nullcontext({})
    )
    with looking as images:
        passes = scoring.score(reward, rollouts, arguments.repeat, progress)
    write_records(arguments.out, scoring.records(passes))
    if arguments.html:
        from botgrpo.benchmarks.view import write_view
        from botgrpo.rewards.judges.provenance import judges_of

        write_view(arguments.html, reward.spec, rollouts, passes, images, judges_of(reward))
    if arguments.pictures:
        from botgrpo.benchmarks import win_rates
        from botgrpo.rewards.judges.prompts import request_text

        first = {rollout.group: rollout for rollout in reversed(rollouts)}
        shown = {g: images[r.id] for g, r in first.items() if r.id in images}
        prompts = {g: request_text(r.prompt) for g, r in first.items()}
        win_rates.write(arguments.pictures, shown, prompts)
    missing = sum(s.outcome is None for s in passes[0])
    print(f"{len(rollouts)} rollouts scored, {missing} unscored", file=sys.stderr)
    if arguments.repeat > 1:
        spec = reward.spec
        lines = stability_text(stability(passes), spec.name, deterministic=spec.deterministic)
        print("\n".join(lines), file=sys.stderr)
    return 0


def import_rollouts(arguments: Namespace) -> int:
    from botgrpo.benchmarks import logs
    from botgrpo.rewards.records import write_rollouts

    found = logs.load(arguments.trainer, Path(arguments.path))
    write_rollouts(arguments.out, found.rollouts)
    print("\n".join(logs.summary(found)), file=sys.stderr)
    return 0


def audit(arguments: Namespace) -> int:
    from botgrpo.benchmarks.audit import command

    cards = command.run(
        arguments.reward,
        arguments.input,
        Path(arguments.out),
        passes=arguments.repeat,
        tokenizer=_tokenizer(arguments.tokenizer),
        backend=arguments.backend,
        verdict_first=arguments.verdict == "first",
        since=Path(arguments.since) if arguments.since else None,
        progress=lambda line: print(line, file=sys.stderr),
    )
    for card in cards:
        print(card.verdict.sentence)
    print(f"\nPage: {Path(arguments.out) / 'audit.html'}")
    return 0


def rewards_list(arguments: Namespace) -> int:
    from botgrpo.rewards.registry import available

    entries = available()
    width = max(len(entry.name) for entry in entries)
    for entry in entries:
        print(f"{entry.name:{width}}  {entry.summary()}")
    return 0


def rewards_show(arguments: Namespace) -> int:
    from dataclasses import fields

    from botgrpo.rewards.registry import build

    spec = build(arguments.name).spec
    for field in fields(spec):
        print(f"{field.name:14} {getattr(spec, field.name)}")
    return 0


def rewards_validate(arguments: Namespace) -> int:
    from botgrpo.benchmarks import scoring
    from botgrpo.rewards.registry import build
    from botgrpo.rewards.validate import Check, validate

    async def run() -> list[Check]:
        reward = build(arguments.name)
        try:
            return await validate(reward)
        finally:
            await scoring.close(reward)

    checks = asyncio.run(run())
    for check in checks:
        print(f"{'ok  ' if check.ok else 'FAIL'}  {check.name}: {check.detail}")
    return 0 if all(check.ok for check in checks) else 1


def rewards_new(arguments: Namespace) -> int:
    from botgrpo.benchmarks.new_reward import new_reward, next_steps

    plugin, files = new_reward(arguments.name, arguments.dir)
    for path in files:
        print(path)
    print(f"\nNext:\n{next_steps(plugin, arguments.dir)}")
    return 0


def _tokenizer(folder: str | None) -> Any:
    """The tokenizer of a folder or cached model; None where none was asked for."""
    if folder is None:
        return None
    from transformers import AutoTokenizer

    from botgrpo.trainer.models import locate

    return AutoTokenizer.from_pretrained(locate(folder))
