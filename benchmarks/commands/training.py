"""Runs, suites, and the reports on them."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

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
    from botgrpo.benchmarks import executors, paper, reproduce, reproduction, runner

    figures = [paper.load(name) for name in arguments.figures or paper.names()]
    out = Path(arguments.out or f"runs/reproduce-{arguments.tier}")
    if arguments.page:
        rows = reproduction.gather(figures, [Path(d) for d in arguments.folders or [out]])
        print(f"Document: {reproduction.write(rows, Path(arguments.page))}")
        return 0
    workers = runner.worker_count(arguments.workers)
    if arguments.plan:
        print(reproduce.plan_text(figures, arguments.tier, workers))
        return 0
    page, failed = reproduce.run(
        figures,
        arguments.tier,
        out,
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
    from botgrpo.benchmarks.report import page, relation, transfer, verdict_text
    from botgrpo.benchmarks.report.analysis import analyse

    result = merged.load(arguments.dirs)
    several = len(arguments.dirs) > 1
    default = result.folder / "compared.html" if several else None
    place = Path(arguments.out) if arguments.out else default
    analysis = analyse(result)
    found = other = None
    if arguments.audit:
        found = relation.relate(analysis, relation.load_audit(arguments.audit))
    if arguments.transfer:
        other = transfer.transfer(analysis, analyse(merged.load([arguments.transfer])))
    path = page.write_report(result, place, found, other)
    print(verdict_text(result))
    for sentence in (
        *(relation.sentences(found) if found else ()),
        *transfer.sentences(other, analysis),
    ):
        print(f"  {sentence}")
    print(f"\nReport: {path}")
    if arguments.png:
        from botgrpo.benchmarks.report.pictures import write_pictures

        folder = page.figures_folder(result, place)
        print(f"{len(write_pictures(path, folder))} pictures: {folder}")
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
        from botgrpo.rewards.judges.pairwise import NAME, Pairwise
        from botgrpo.rewards.reference import parse
        from botgrpo.sandbox.errors import ConfigError

        asked = parse(f"{NAME}({arguments.judge})")
        if asked.args:
            raise ConfigError(f"got --judge {arguments.judge!r}; allowed: name=value, name=value")
        judge = Pairwise(**asked.options)
        found = win_rates.run([*arguments.against, target], judge)
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


def _config(arguments: Namespace) -> Config:
    from botgrpo.benchmarks import training

    return training.load_config(arguments.config, arguments.set)


def _require_sandbox(config: Config) -> None:
    """Fail before anything heavy starts where what must be isolated cannot be."""
    from botgrpo.benchmarks import assemble
    from botgrpo.sandbox.backends import chooser

    if assemble.needs_sandbox(config):
        chooser(config.sandbox)().close()
