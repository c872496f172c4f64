"""math-verify behind its walls. The core lacks it: `make env-math`, then `make test-adapters`."""

from __future__ import annotations

import asyncio
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from botgrpo.rewards import Rollout
from botgrpo.rewards.math import verify_child, verify_worker
from botgrpo.rewards.math.answer import MathAnswer
from botgrpo.rewards.math.verify_worker import LIMITS, MathVerify
from botgrpo.sandbox.base import Limits

installed = pytest.mark.skipif(
    importlib.util.find_spec("math_verify") is None,
    reason="no math-verify in this environment; next: make env-math",
)
TOWER = "5^{(5^{(5^{(5^5)})}-4)}"


@pytest.fixture(scope="module")
def library():
    library = MathVerify(Limits(**{**vars_of(LIMITS), "wall_s": 2.0}))
    yield library
    library.close()


def vars_of(limits):
    return {name: getattr(limits, name) for name in Limits.__dataclass_fields__}


def judge(library, answer, *accepted):
    return asyncio.run(library.judge(answer, accepted))


def test_without_math_verify_an_open_answer_is_unscored_with_what_to_install(monkeypatch):
    monkeypatch.setattr(verify_worker.importlib.util, "find_spec", lambda name: None)
    library = MathVerify()
    rollout = Rollout("r", "g", "p", "\\boxed{x<3}", {"accepted": ["3>x"], "kind": "expression"})
    (score,) = asyncio.run(MathAnswer(library).score([rollout]))
    library.close()
    assert score.outcome is None and "pip install" in score.reason and '"x<3"' in score.reason


def test_no_library_of_the_core_loads_with_the_child():
    code = f"import runpy, sys; runpy.run_path({verify_child.__file__!r}); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert {"botgrpo", "sympy", "torch"}.isdisjoint(done.stdout.split())


@installed
@pytest.mark.parametrize(
    ("gold", "answer", "verdict"),
    [
        ("3>x", "x<3", "correct"),
        ("\\int_0^1 x dx", "\\frac12", "correct"),
        ("\\begin{pmatrix}1&2\\end{pmatrix}", "\\begin{pmatrix} 1 & 2 \\end{pmatrix}", "correct"),
        ("12:00", "1:00", "wrong"),
        ("7", "\\begin{", "unparsed"),
    ],
)
def test_the_library_tells_what_we_leave_open(library, gold, answer, verdict):
    judged = judge(library, answer, gold)
    assert judged.verdict == verdict and judged.scored


@installed
def test_an_accepted_answer_that_the_library_cannot_read_is_our_failure(library):
    judged = judge(library, "7", "\\begin{")
    assert judged.verdict == "unparsed" and not judged.scored
    assert judge(library, "7", "\\begin{", "7").verdict == "correct"


@installed
def test_a_hanging_answer_is_killed_and_the_next_one_does_not_notice(library):
    async def both():
        return await asyncio.gather(library.judge(TOWER, ["12"]), library.judge("x<3", ["3>x"]))

    hung, other = asyncio.run(both())
    assert hung.verdict == "budget" and "no answer within 2 s" in hung.reason
    assert other.verdict == "correct"
    assert judge(library, "x<3", "3>x").verdict == "correct"


@installed
def test_an_answer_that_eats_memory_ends_at_the_limit(library):
    assert judge(library, "(((9!)!)!)!", "12").verdict == "budget"
    assert judge(library, "x<3", "3>x").verdict == "correct"


@installed
def test_code_in_an_answer_is_not_run_by_the_library_either(library, tmp_path):
    path = Path(tmp_path / "pwned")
    for code in (f"\\pi; __import__('os').system('touch {path}')", f"open('{path}','w')+\\pi"):
        assert judge(library, code, "\\pi").verdict != "correct"
    assert not path.exists()
