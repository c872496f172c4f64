"""Imports go one way, heavy libraries stay in their own files, and nothing has two identities."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LAYERS = ("sandbox", "rewards", "trainer", "benchmarks")  # each may import those before it
# Heavy or optional libraries, and the only files that may import them; a folder ends with "/".
HOMES = {
    "docker": ("sandbox/docker.py", "sandbox/docker_image.py", "sandbox/docker_link.py"),
    "math_verify": ("rewards/math/verify_child.py", "benchmarks/math_speed.py"),
    "playwright": ("sandbox/browser.py", "benchmarks/report/pictures.py"),
    "mlflow": ("trainer/trackers.py",),
    "peft": ("trainer/lora.py",),
    "pyarrow": ("benchmarks/logs.py",),
    "ray": ("benchmarks/executors.py", "benchmarks/spread.py"),
    "tensorboard": ("trainer/trackers.py",),
    "torch": ("rewards/prm.py", "trainer/", "benchmarks/"),
    "trackio": ("trainer/trackers.py",),
    "transformers": ("rewards/prm.py", "trainer/", "benchmarks/"),
    "trl": ("trainer/adapters/trl.py", "benchmarks/parity_trl.py", "benchmarks/speed_sides.py"),
    "verl": ("trainer/adapters/verl.py", "benchmarks/parity_verl.py"),
    "vllm": ("trainer/engines/vllm.py",),
    "wandb": ("trainer/trackers.py",),
}


def imported(source: str) -> Iterator[tuple[int, str]]:
    """Line and dotted name of every import, `from a import b` as `a.b`."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            origin = "." * node.level + (node.module or "")
            yield from ((node.lineno, f"{origin}.{alias.name}") for alias in node.names)


def violations(root: Path) -> list[str]:
    """`file:line: what is wrong`, for all Python files in the four folders below `root`."""
    found = []
    for layer in LAYERS:
        allowed = LAYERS[: LAYERS.index(layer) + 1]
        for path in sorted((root / layer).rglob("*.py")):
            file = path.relative_to(root).as_posix()
            for line, name in imported(path.read_text("utf-8")):
                top, _, rest = name.partition(".")
                if top == "" or top in LAYERS:
                    found.append(f"{file}:{line}: {name}: write botgrpo.<folder>...")
                elif top == "botgrpo" and rest.split(".")[0] not in allowed:
                    found.append(f"{file}:{line}: {layer} may not import {name}")
                elif not file.startswith(HOMES.get(top, ("",))):
                    found.append(f"{file}:{line}: only {' '.join(HOMES[top])} may import {top}")
    return found


def test_imports_go_one_way_and_heavy_libraries_stay_at_home() -> None:
    assert any((ROOT / layer).rglob("*.py") for layer in LAYERS)
    assert violations(ROOT) == []


@pytest.mark.parametrize(
    ("file", "source", "complaint"),
    [
        ("rewards/a.py", "from botgrpo.trainer.loop import run", "rewards may not import"),
        ("rewards/a.py", "import botgrpo.trainer.loop as x", "rewards may not import"),
        ("rewards/a.py", "from botgrpo import trainer", "rewards may not import"),
        ("sandbox/a.py", "def f():\n    import botgrpo.rewards", "sandbox may not import"),
        ("trainer/b/a.py", "import botgrpo.benchmarks", "trainer may not import"),
        ("trainer/a.py", "from .loop import run", "write botgrpo"),
        ("trainer/a.py", "from rewards.base import Score", "write botgrpo"),
        ("rewards/a.py", "import torch", "may import torch"),
        ("trainer/a.py", "from vllm import LLM", "may import vllm"),
        ("benchmarks/a.py", "import ray.util", "may import ray"),
    ],
)
def test_a_violation_is_caught(tmp_path: Path, file: str, source: str, complaint: str) -> None:
    (tmp_path / file).parent.mkdir(parents=True)
    (tmp_path / file).write_text(f"import json\n{source}\n")
    (found,) = violations(tmp_path)
    assert found.startswith(f"{file}:") and complaint in found


def test_what_goes_the_right_way_is_no_violation(tmp_path: Path) -> None:
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks/a.py").write_text("from botgrpo import sandbox\nimport torch\n")
    assert violations(tmp_path) == []


def test_the_folders_are_known_under_one_name_only() -> None:
    """`import rewards` works from the root, and would give classes that are not botgrpo's."""
    importlib.import_module("botgrpo.rewards.base")  # so that there is something to confuse
    assert set(LAYERS).isdisjoint(sys.modules)


def _modules_after(statement: str) -> set[str]:
    code = (
        f"import sys\nsys.path.insert(0, {str(ROOT / '.dev')!r})\n{statement}\nprint(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_rewards_load_without_torch_and_without_what_few_need() -> None:
    loaded = _modules_after("import botgrpo.rewards, botgrpo.rewards.base, botgrpo.sandbox.errors")
    assert loaded.isdisjoint({"torch", "transformers", "sympy", "scipy", "docker", "playwright"})


def test_the_check_for_torch_can_fail() -> None:
    assert "torch" in _modules_after("import botgrpo.trainer.gguf_convert")


def test_the_model_table_loads_without_torch() -> None:
    assert "torch" not in _modules_after("import botgrpo.trainer.models")
