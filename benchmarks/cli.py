"""The command `botgrpo`: words to functions. Everything heavy is imported by the function that
needs it, so that `--help` answers at once."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Callable, Sequence

from botgrpo.sandbox.errors import BotgrpoError, ConfigError

EPILOG = "Exit status: 0 done, 1 a run failed, 2 a wrong call or configuration."


def main(argv: Sequence[str] | None = None) -> int:
    """Parse, run, and turn errors into a message and an exit status."""
    arguments = parser().parse_args(argv)
    # waiting threads must not spin: they would starve the sandbox on the same cores
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        run: Callable[[argparse.Namespace], int] = arguments.run
        return run(arguments)
    except ConfigError as error:
        print(f"botgrpo: {error}", file=sys.stderr)
        return 2
    except (FileExistsError, NotADirectoryError, IsADirectoryError, PermissionError) as error:
        print(f"botgrpo: {error}: choose another path", file=sys.stderr)
        return 2
    except FileNotFoundError as error:
        print(f"botgrpo: {error}: no such place; make the folder first", file=sys.stderr)
        return 2
    except BotgrpoError as error:
        print(f"botgrpo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("botgrpo: stopped; what was finished is kept (--resume goes on)", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # the reader of a pipe has gone: nobody is left to tell
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        print(f"botgrpo: {error}", file=sys.stderr)
        return 1


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    top = argparse.ArgumentParser(
        prog="botgrpo",
        description="Which reward should I train my model with, and what will it do to learning?",
        epilog=EPILOG,
    )
    top.add_argument("--version", action=_Version)
    commands = top.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _training(commands)
    _rewards(commands)
    _machine(commands)
    return top


class _Version(argparse.Action):
    """Reads the version only when asked for it."""

    def __init__(self, option_strings: Sequence[str], dest: str) -> None:
        super().__init__(option_strings, dest, nargs=0, help="show the version and exit")

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import PackageNotFoundError, version

        try:
            print(f"botgrpo {version('botgrpo')}")
        except PackageNotFoundError:
            print("botgrpo (not installed)")
        parser.exit()


def _command(where: object, name: str, target: str, help: str) -> argparse.ArgumentParser:
    """A sub-command that runs `target`, MODULE.FUNCTION in `botgrpo.benchmarks.commands`."""
    module, _, name_there = target.partition(".")

    def run(arguments: argparse.Namespace) -> int:
        found = importlib.import_module(f"botgrpo.benchmarks.commands.{module}")
        result: int = getattr(found, name_there)(arguments)
        return result

    made: argparse.ArgumentParser = where.add_parser(name, help=help, description=help)  # type: ignore[attr-defined]
    made.set_defaults(run=run)
    return made


def _group(where: object, name: str, help: str) -> object:
    made = where.add_parser(name, help=help, description=help)  # type: ignore[attr-defined]
    return made.add_subparsers(title="commands", required=True, metavar="COMMAND")


def _training(commands: object) -> None:
    bench = _command(
        commands, "bench", "training.bench", "compare reward designs by what training does"
    )
    bench.add_argument("suite", metavar="SUITE", help="name of a shipped suite, or a .toml file")
    bench.add_argument("--out", metavar="DIR", help="folder of the results (default: runs/SUITE)")
    bench.add_argument("--resume", action="store_true", help="go on with what lies there")
    bench.add_argument("--executor", choices=["local", "ray"], default="local", help="where")
    bench.add_argument(
        "--workers", type=int, metavar="N", help="cells at a time (default: one a core)"
    )
    bench.add_argument("--plan", action="store_true", help="say what would run, and stop")
    bench.add_argument(
        "--effect", type=float, metavar="A", help="with --plan: seeds for this difference in area"
    )

    again = _command(
        commands, "reproduce", "training.reproduce", "the paper's figures, ours beside them"
    )
    again.add_argument("figures", nargs="*", metavar="FIGURE", help="F1 to F10 (default: all)")
    again.add_argument("--tier", choices=["micro", "small", "paper"], default="micro", help="size")
    again.add_argument("--out", metavar="DIR", help="default: runs/reproduce-TIER")
    again.add_argument("--page", metavar="FILE", help="run nothing: write a document of results")
    again.add_argument(
        "--from",
        dest="folders",
        action="append",
        metavar="DIR",
        help="with --page: an --out of earlier runs, of any tier; may be given again",
    )
    again.add_argument("--resume", action="store_true", help="go on with what lies there")
    again.add_argument("--executor", choices=["local", "ray"], default="local", help="where")
    again.add_argument("--workers", type=int, metavar="N", help="cells at a time")
    again.add_argument("--plan", action="store_true", help="say what would run, and stop")

    report = _command(
        commands, "report", "training.report", "write DIR/report.html, one offline file"
    )
    report.add_argument(
        "dirs", nargs="+", metavar="DIR", help="folder that `botgrpo bench` wrote; several: compare"
    )
    report.add_argument("--out", metavar="FILE", help="page (default: DIR/report.html)")
    report.add_argument(
        "--audit", metavar="DIR", help="of the designs' rewards: did it say what training does?"
    )
    report.add_argument(
        "--transfer", metavar="DIR", help="the same designs with another policy: same ranking?"
    )
    report.add_argument("--png", action="store_true", help="each figure as a picture too")

    train = _command(commands, "train", "training.train", "one run of training")
    _config_argument(train)
    train.add_argument("--out", metavar="DIR", help="folder of the run (default: runs/NAME)")
    train.add_argument("--resume", action="store_true", help="go on from the last checkpoint")
    train.add_argument(
        "--plan", action="store_true", help="memory and time from the model's config.json, and stop"
    )
    train.add_argument(
        "--memory-gib", type=float, metavar="N", help="plan for a machine with so much memory"
    )

    sft = _command(
        commands, "sft", "training.sft", "the warm start: supervised steps on the task's corpus"
    )
    _config_argument(sft)
    sft.add_argument("--out", metavar="DIR", help="folder of the model (default: the cache)")

    evaluate = _command(
        commands, "eval", "training.evaluate", "held-out rates of a run or a configuration"
    )
    evaluate.add_argument(
        "target", metavar="CONFIG|DIR", help="a configuration, a run's folder, or one of pictures"
    )
    evaluate.add_argument(
        "--against", action="append", metavar="DIR", help="pictures: win rates by a judge"
    )
    evaluate.add_argument("--out", metavar="F.json", help="with --against: every match")
    evaluate.add_argument(
        "--judge", metavar="OPTIONS", default="", help="its options: \"model='m', max_calls=100\""
    )
    evaluate.add_argument("--prompts", type=int, default=256, help="held-out prompts (default 256)")

    export = _group(commands, "export", "launch files that take a configuration to a cluster")
    for name, what in (("trl", "a Python file for TRL"), ("verl", "a shell script for verl")):
        to = _command(export, name, "training.export", f"{what}; it says what is lost")
        _config_argument(to)
        to.add_argument("--out", default="-", metavar="FILE", help="default: standard output")
        to.set_defaults(trainer=name)

    logged = _group(commands, "import", "rollouts that another trainer logged, to be audited")
    for name, what in (("trl", "completions_*.parquet of"), ("verl", "*.jsonl of")):
        of = _command(logged, name, "rewards.import_rollouts", f"{what} {name}, as rollouts")
        of.add_argument("path", metavar="PATH", help="a logged file, or the folder of them")
        of.add_argument("--out", default="-", metavar="R.jsonl", help="default: standard output")
        of.set_defaults(trainer=name)

    algorithms = _group(commands, "algorithms", "the training methods")
    _command(algorithms, "list", "training.algorithms_list", "one line each")
    show = _command(
        algorithms, "show", "training.algorithms_show", "source, parts and defaults of one"
    )
    show.add_argument("name", metavar="NAME")


def _rewards(commands: object) -> None:
    score = _command(commands, "score", "rewards.score", "score stored rollouts with a reward")
    score.add_argument("--reward", required=True, metavar="NAME", help="reward, path.py:name")
    score.add_argument(
        "--in", required=True, dest="input", metavar="R.jsonl", help="or - for stdin"
    )
    score.add_argument("--out", default="-", metavar="S.jsonl", help="default: standard output")
    score.add_argument("--html", metavar="V.html", help="a page that shows every score, offline")
    score.add_argument(
        "--pictures", metavar="DIR", help="the page of each prompt's first rollout, as PNG"
    )
    again = "score N times: does it agree with itself?"
    score.add_argument("--repeat", type=int, default=1, metavar="N", help=again)
    score.add_argument("--tokenizer", metavar="T", help="folder that supplies tokens where absent")
    score.add_argument("--backend", default="auto", choices=BACKEND_NAMES, help=BACKENDS)

    audit = _command(
        commands, "audit", "rewards.audit", "cards of rewards, side by side, before training"
    )
    first = "once for each; the first is what the others are held against"
    audit.add_argument("--reward", required=True, action="append", metavar="NAME", help=first)
    audit.add_argument(
        "--in", required=True, dest="input", metavar="R.jsonl", help="with labels where there are"
    )
    audit.add_argument("--out", required=True, metavar="DIR", help="audit.html and audit.json")
    audit.add_argument(
        "--repeat", type=int, default=5, metavar="N", help="passes over the rollouts (default 5)"
    )
    audit.add_argument("--since", metavar="DIR", help="an earlier audit: what has drifted?")
    audit.add_argument("--tokenizer", metavar="T", help="folder that supplies tokens where absent")
    audit.add_argument(
        "--verdict", choices=["first", "last"], default="first", help="where the sentences stand"
    )
    audit.add_argument("--backend", default="auto", choices=BACKEND_NAMES, help=BACKENDS)

    rewards = _group(commands, "rewards", "what can score a rollout")
    _command(rewards, "list", "rewards.rewards_list", "every reward that can be named")
    show = _command(rewards, "show", "rewards.rewards_show", "ranges, needs and version of one")
    show.add_argument("name", metavar="NAME")
    validate = _command(
        rewards, "validate", "rewards.rewards_validate", "check a reward on its own examples"
    )
    validate.add_argument("name", metavar="NAME")
    new = _command(
        rewards, "new", "rewards.rewards_new", "a plug-in package with a reward that works"
    )
    new.add_argument("name", metavar="NAME", help="distribution/name, e.g. acme-rewards/polite")
    new.add_argument("dir", metavar="DIR", help="folder to make, or an empty one")


BACKEND_NAMES = ("auto", "docker", "bubblewrap", "unsafe")
BACKENDS = "sandbox: auto, docker, bubblewrap, or unsafe (no isolation)"


def _machine(commands: object) -> None:
    sandbox = _group(commands, "sandbox", "where what a model wrote is judged")
    doctor = _command(sandbox, "doctor", "machine.sandbox_doctor", "what isolates on this machine")
    doctor.add_argument("--backend", default="auto", metavar="B", help=BACKENDS)
    doctor.add_argument("--prepare", action="store_true", help="install the worker now")

    bench = _command(
        sandbox, "bench", "machine.sandbox_bench", "candidates a second: cold, warm, drawn"
    )
    bench.add_argument("--backend", metavar="B", help="default: every one that isolates here")
    bench.add_argument("--workers", type=int, default=1, metavar="N", help="of the warm rows")
    bench.add_argument("--candidates", type=int, default=1000, metavar="N", help="of a warm row")
    bench.add_argument("--scaling", action="store_true", help="the cost of one of 100 to 5,000")
    soak = _command(
        sandbox, "soak", "machine.sandbox_soak", "thousands, some hostile: does anything grow?"
    )
    soak.add_argument("--backend", default="auto", metavar="B", help=BACKENDS)
    soak.add_argument("--candidates", type=int, default=5000, metavar="N")
    soak.add_argument("--hostile", type=float, default=0.05, metavar="SHARE")
    soak.add_argument("--browser", action="store_true", help="mount some, hostile pages too")
    attack = _command(sandbox, "attack", "machine.sandbox_attack", "the attack suite: held, or not")
    attack.add_argument("--backend", default="auto", metavar="B", help=BACKENDS)

    models = _group(commands, "models", "weights in the cache")
    _command(models, "list", "machine.models_list", "known models, and which are there")
    fetch = _command(
        models, "fetch", "machine.models_fetch", "bring weights into the cache, checked by hash"
    )
    fetch.add_argument("name", metavar="NAME")


def _config_argument(command: argparse.ArgumentParser) -> None:
    command.add_argument("config", metavar="CONFIG", help="name of a shipped one, or a .toml file")
    command.add_argument(
        "--set", action="append", default=[], metavar="a.b=c", help="override one value"
    )


if __name__ == "__main__":
    sys.exit(main())
