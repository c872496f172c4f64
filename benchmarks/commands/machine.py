"""What runs untrusted code here, and the weights in the cache."""

from __future__ import annotations

import sys
from argparse import Namespace


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
