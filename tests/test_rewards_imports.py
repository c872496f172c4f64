from __future__ import annotations

import subprocess
import sys

from botgrpo import rewards

HEAVY = ("torch", "transformers", "tokenizers", "sympy", "scipy")
CHECK = (
    "import sys\n"
    "found = [m for m in {heavy} if m in sys.modules]\n"
    "assert not found, 'imports ' + ', '.join(found)\n"
)
ONE = (
    "from botgrpo.rewards import available, build\n"
    "import botgrpo.rewards.records, botgrpo.rewards.validate\n"
    "build('noise.gaussian(react.compile, sigma=0.5)')\n"
)
ALL = ONE + "[entry.summary() for entry in available() if entry.origin == 'built-in']\n"


def run(code: str) -> subprocess.CompletedProcess[str]:
    path = f"import sys; sys.path[:0] = {sys.path!r}\n"
    return subprocess.run(
        [sys.executable, "-c", path + code], capture_output=True, text=True, timeout=120
    )


def test_rewards_load_neither_torch_nor_any_other_heavy_library():
    done = run("import botgrpo.rewards\n" + ALL + CHECK.format(heavy=HEAVY))
    assert done.returncode == 0, done.stderr


def test_a_reward_that_asks_no_model_does_without_the_forms_of_answers():
    done = run(ONE + CHECK.format(heavy=(*HEAVY, "pydantic", "httpx")))
    assert done.returncode == 0, done.stderr


def test_the_check_for_heavy_libraries_can_fail():
    done = run("import sympy\n" + CHECK.format(heavy=HEAVY))
    assert done.returncode == 1 and "imports sympy" in done.stderr


def test_every_public_name_exists():
    assert all(hasattr(rewards, name) for name in rewards.__all__)
