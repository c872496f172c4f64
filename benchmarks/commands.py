"""What each command does. Heavy modules are imported inside: `rewards list` needs no torch."""

from __future__ import annotations

import asyncio
import sys
from argparse import Namespace
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from botgrpo.trainer.config import Config


def bench(arguments: Namespace) -> int:
    from botgrpo.benchmarks import executors, runner, suite
    from botgrpo.benchmarks.report import verdict_text, write_report
    from botgrpo.benchmarks.results import load_suite

    loaded = suite.load(arguments.suite)
    plans = suite.cells(loaded, weights=not arguments.plan)
    out = Path(arguments.out or f"runs/{loaded.name}")
    if arguments.plan:
        from botgrpo.benchmarks import plan

        print(suite.plan_text(loaded, plans))
        print("\n".join(plan.of_suite(loaded, plans, out, arguments.workers, arguments.effect)))
        return 0
    workers = runner.worker_count(arguments.workers)
    _require_sandbox(plans[0].config)
    place = executors.EXECUTORS[arguments.executor]()
    failed = runner.Bench(loaded, out, workers, arguments.resume, place).run()
    result = load_suite(out)
    path = write_report(result)
    print(verdict_text(result))
    print(f"\nReport: {path}")
    runner.require_all(failed)
    return 0


def reproduce(arguments: Namespace) -> int:
    from botgrpo.benchmarks import executors, paper, reproduce, runner

    figures = [paper.load(name) for name in arguments.figures or paper.names()]
    workers = runner.worker_count(arguments.workers)
    if arguments.plan:
        print(reproduce.plan_text(figures, arguments.tier, workers))
        return 0
    page, failed = reproduce.run(
        figures,
        arguments.tier,
        Path(arguments.out or f"runs/reproduce-{arguments.tier}"),
        workers=workers,
        resume=arguments.resume,
        executor=executors.EXECUTORS[arguments.executor],
    )
    print((page.parent / "reproduction.md").read_text())
    print(f"Page: {page}")
    runner.require_all(failed)
    return 0


def report(arguments: Namespace) -> int:
    from botgrpo.benchmarks import merged
    from botgrpo.benchmarks.report import verdict_text, write_report

    result = merged.load(arguments.dirs)
    several = len(arguments.dirs) > 1
    default = result.folder / "compared.html" if several else None
    found = None
    if arguments.audit:
        from botgrpo.benchmarks.report import relation
        from botgrpo.benchmarks.report.analysis import analyse

        found = relation.relate(analyse(result), relation.load_audit(arguments.audit))
    path = write_report(result, Path(arguments.out) if arguments.out else default, found)
    print(verdict_text(result))
    for sentence in relation.sentences(found) if found else ():
        print(f"  {sentence}")
    print(f"\nReport: {path}")
    return 0


def train(arguments: Namespace) -> int:
    from botgrpo.benchmarks import executors, training

    executors.end_with_starter()
    if arguments.plan:
        from botgrpo.benchmarks import plan

        config = training.load_config(arguments.config, arguments.set, weights=False)
        print(plan.write(config, arguments.memory_gib))
        return 0
    config = _config(arguments)
    out = Path(arguments.out or f"runs/{config.name}")
    _require_sandbox(config)
    training.train(config, out, resume=arguments.resume)
    return 0


def sft(arguments: Namespace) -> int:
    from botgrpo.benchmarks import training

    out = Path(arguments.out) if arguments.out else None
    print(training.make_start(_config(arguments), out))
    return 0


def evaluate(arguments: Namespace) -> int:
    from botgrpo.benchmarks import training

    target = Path(arguments.target)
    if arguments.against:
        import json

        from botgrpo.benchmarks import win_rates
        from botgrpo.rewards.judges.pairwise import Pairwise

        found = win_rates.run([*arguments.against, target], Pairwise())
        if arguments.out:
            Path(arguments.out).write_text(json.dumps(found, indent=1), encoding="utf-8")
        print(win_rates.told(found))
        return 0
    if target.is_dir():
        record = training.evaluate_run(target, arguments.prompts)
    else:
        config = training.load_config(arguments.target, ())
        record = training.evaluate_config(config, arguments.prompts)
    for key, value in record.items():
        print(f"{key:14} {value:.4f}" if isinstance(value, float) else f"{key:14} {value}")
    return 0


def export(arguments: Namespace) -> int:
    from botgrpo.benchmarks import export as exports

    out = None if arguments.out == "-" else Path(arguments.out)
    file = None if out is None else out.name
    script = exports.export(arguments.trainer, _config(arguments), file)
    if out is None:
        print(script, end="")
    else:
        out.write_text(script)
    return 0


def algorithms_list(arguments: Namespace) -> int:
    from botgrpo.trainer.algorithms import ALGORITHMS

    width = max(len(name) for name in ALGORITHMS)
    for entry in ALGORITHMS.values():
        print(
            f"{entry.name:{width}}  {entry.summary}{' (not trainable)' * bool(entry.unavailable)}"
        )
    return 0


def algorithms_show(arguments: Namespace) -> int:
    import textwrap

    from botgrpo.trainer.algorithms import describe, entry

    for label, text in describe(entry(arguments.name)).items():
        print(textwrap.fill(text, 100, initial_indent=f"{label:12} ", subsequent_indent=" " * 13))
    return 0


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

        write_view(arguments.html, reward.spec, rollouts, passes, images)
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


def sandbox_doctor(arguments: Namespace) -> int:
    from botgrpo.sandbox import doctor

    return doctor.main(arguments.backend, prepare=arguments.prepare)


def sandbox_bench(arguments: Namespace) -> int:
    from botgrpo.sandbox import bench

    return bench.main(
        arguments.backend, arguments.workers, arguments.candidates, scaling=arguments.scaling
    )


def sandbox_soak(arguments: Namespace) -> int:
    from botgrpo.sandbox import soak

    return soak.main(
        arguments.backend, arguments.candidates, arguments.hostile, browser=arguments.browser
    )


def sandbox_attack(arguments: Namespace) -> int:
    from botgrpo.sandbox import attacks

    return attacks.main(arguments.backend)


def models_list(arguments: Namespace) -> int:
    from botgrpo.benchmarks import shipped
    from botgrpo.trainer.models import KNOWN, models_dir

    for name, known in KNOWN.items():
        there = (models_dir() / name / "config.json").is_file()
        print(f"{name:16} {'in the cache' if there else 'not fetched '}  {known.note}")
    for path in sorted((shipped.ROOT / "checkpoints").glob("*/")):
        print(f"{path.name:16} shipped       warm start of the micro policy")
    return 0


def models_fetch(arguments: Namespace) -> int:
    from botgrpo.trainer.models import fetch

    print(fetch(arguments.name, progress=lambda line: print(line, file=sys.stderr)))
    return 0


def _tokenizer(folder: str | None) -> Any:
    """The tokenizer of a folder or cached model; None where none was asked for."""
    if folder is None:
        return None
    from transformers import AutoTokenizer

    from botgrpo.trainer.models import locate

    return AutoTokenizer.from_pretrained(locate(folder))


def _config(arguments: Namespace) -> Config:
    from botgrpo.benchmarks import training

    return training.load_config(arguments.config, arguments.set)


def _require_sandbox(config: Config) -> None:
    """Fail before anything heavy starts where what must be isolated cannot be."""
    from botgrpo.benchmarks import assemble
    from botgrpo.sandbox.backends import chooser

    if assemble.needs_sandbox(config):
        chooser(config.sandbox)().close()
