"""Hostile texts against `verify`: no crash, no side effect, bounded time and memory.

Texts are drawn from a seed: towers of powers, factorials, nesting, sums without end, code, long
lines, and claims with characters changed. While they run, an audit hook counts every attempt to
open, execute, compile, import or start anything.
"""

from __future__ import annotations

import gc
import random
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from botgrpo.rewards.math.verify import verify

_AUDITED = ("open", "exec", "compile", "import", "os.", "subprocess.", "socket.", "ctypes.")
_LONG_ONE_IN = 500  # a line of a million characters


@dataclass(slots=True)
class FuzzReport:
    """What happened to `inputs` texts.

    Attributes:
        steps: steps judged in all.
        crashes: texts that raised, with the error.
        effects: audited events while texts were judged.
        slowest_ms: most processor time a step, over texts; `slowest` its text's start.
        operations: most counted operations of a step.
        peak_mib: peak memory of the process.
    """

    inputs: int
    steps: int = 0
    crashes: list[str] = field(default_factory=list)
    effects: list[str] = field(default_factory=list)
    slowest_ms: float = 0.0
    slowest: str = ""
    operations: int = 0
    peak_mib: float = 0.0


def fuzz(inputs: int, seed: int = 0) -> FuzzReport:
    """Judge `inputs` hostile texts; the same seed gives the same texts."""
    rng = random.Random(f"fuzz/{seed}")
    report = FuzzReport(inputs)
    verify("91 is prime, and $\\sqrt{2} \\approx 1.414$.")  # what is imported late comes first
    gc.collect()
    gc.freeze()  # else a collection of what was imported counts as some text's 50 ms
    watching = False

    def hook(event: str, args: tuple[object, ...]) -> None:
        if watching and event.startswith(_AUDITED):
            report.effects.append(f"{event}{args!r}"[:100])

    sys.addaudithook(hook)
    for _ in range(inputs):
        text = hostile(rng)
        began = time.process_time()
        watching = True
        try:
            verdicts = verify(text)
        except Exception as error:
            report.crashes.append(f"{type(error).__name__}: {error}: {text[:60]!r}")
            verdicts = []
        finally:
            watching = False
        per_step_ms = 1000 * (time.process_time() - began) / max(len(verdicts), 1)
        report.steps += len(verdicts)
        report.operations = max([report.operations, *(v.operations for v in verdicts)])
        if per_step_ms > report.slowest_ms:
            report.slowest_ms, report.slowest = per_step_ms, text[:60]
    report.peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return report


def text(report: FuzzReport) -> str:
    """The report in lines."""
    return "\n".join(
        [
            f"{report.inputs} hostile texts, {report.steps} steps: {len(report.crashes)} crashes, "
            f"{len(report.effects)} side effects, peak memory {report.peak_mib:.0f} MiB",
            f"  slowest {report.slowest_ms:.1f} ms a step ({report.slowest!r}), most work "
            f"{report.operations} operations",
            *(f"  {line}" for line in [*report.crashes, *report.effects][:20]),
        ]
    )


def hostile(rng: random.Random) -> str:
    """One text."""
    if rng.randrange(_LONG_ONE_IN) == 0:
        return _long_line(rng)
    return rng.choice(_KINDS)(rng)


def _tower(rng: random.Random) -> str:
    levels = rng.randrange(2, 40)
    base, open_, close = rng.choice([("9", "^{", "}"), ("5", "^(", ")"), ("7", "**(", ")")])
    tail = rng.choice(["= 3", r"\equiv 2 \pmod{10}", "mod 7 = 4", "> 1", r"\approx 10"])
    return f"So {(base + open_) * levels}{base}{close * levels} {tail}."


def _factorial(rng: random.Random) -> str:
    n = rng.choice([9, 170, 1999, 99_999_999, 10**40])
    shapes = [f"((({n}!)!)!)!", f"{n}!", f"{n}!/({n}-1)!", rf"\binom{{{n}}}{{{n}/2}}", f"C({n},7)"]
    return f"Thus {rng.choice(shapes)} = {rng.randrange(100)}"


def _nesting(rng: random.Random) -> str:
    depth = rng.choice([10, 29, 31, 200, 5000])
    pairs = [("(", ")"), ("{", "}"), (r"\sqrt{", "}"), ("|", "|"), (r"\frac{1}{", "}")]
    open_, close = rng.choice(pairs)
    return f"$ {open_ * depth}1{close * depth} = {rng.randrange(9)} $"


def _series(rng: random.Random) -> str:
    n = rng.choice(["10^9", "1000", "10^{10^{10}}", "99"])
    body = rng.choice(["k^2", "k!", "k^k", r"\sum_{j=1}^{" + n + "} j^k", "2^{k}"])
    return rf"$\{rng.choice(['sum', 'prod'])}_{{k=1}}^{{{n}}} {body} = {rng.randrange(999)}$"


def _code(rng: random.Random) -> str:
    call = rng.choice(
        [
            "__import__('os').system('touch fuzzed')",
            "open('fuzzed', 'w').write('x')",
            "().__class__.__base__.__subclasses__()",
            "exec(chr(112)*9)",
            "lambda: 0",
            "print(hello)",
        ]
    )
    around = [r"\boxed{%s} = 3", r"x = %s = 4, \pi + 1 = 7", "f(x) = %s, f(2) = 4"]
    return rng.choice(around).replace("%s", call)


def _digits(rng: random.Random) -> str:
    n = rng.choice([100, 999, 4301, 20_000])
    digits = "".join(rng.choices("0123456789", k=n))
    return f"{digits} {rng.choice('+*-/^')} {digits[::-1]} = {digits}"


def _recursion(rng: random.Random) -> str:
    calls = "f(" * rng.choice([1, 5, 25, 60])
    return f"f(x) = f(x) + x, so {calls}2{')' * calls.count('(')} = 3 + 4. f(x) = x^9. {calls}7"


def _polynomial(rng: random.Random) -> str:
    k = rng.choice([2, 9, 40, 64, 999])
    return f"Expanding, (x+y+z+w)^{k} = (x+y)^{k} + (z+w)^{k}, so {k}x/{k}0 = x + 1 = {k}"


def _soup(rng: random.Random) -> str:
    return "".join(rng.choices(_PARTS, k=rng.randrange(1, 200)))


def _changed(rng: random.Random) -> str:
    characters = list(rng.choice(_CLAIMS))
    for _ in range(rng.randrange(1, 6)):
        characters[rng.randrange(len(characters))] = rng.choice(_CHARACTERS)
    return "".join(characters)


def _long_line(rng: random.Random) -> str:
    unit = rng.choice(_UNITS)
    return (unit * 1_000_000)[:1_000_000]


_KINDS: tuple[Callable[[random.Random], str], ...] = (
    _tower,
    _factorial,
    _nesting,
    _series,
    _code,
    _digits,
    _recursion,
    _polynomial,
    _soup,
    _changed,
)
_UNITS = ("1", "= ", "(", "2 + ", "is ", "$", "\\", "\n\n", "x = 1\n\n", "1,234 ", "wait ")
_PIECES = (
    r"\frac \sqrt \binom \sum_{k=1}^{9} \pmod{7} \equiv = = = < ( ) { } [ ] | ! ^ _ + - * / % , . "
    r"; : $ $$ x y f( gcd( log_ sin e i pi 2 17 3.5 1,000 is mod and or so if not <step_1> </step> "
    "<think> </think> ≡ ≈ √ ² ∑ ⌊ ⌉ ½ ٣ \u2028 \ud800 😀 \n \n\n \t \x00"
)
_PARTS = _PIECES.split(" ")
_CLAIMS = (
    r"Then $x^2 - 5x + 6 = 0$, so $x = 2$ or $x = 3$, and $\binom{10}{3} = 120$.",
    "She pays 3 * $4 = $12, and 20% of 50 = 10. Wait, that is wrong.",
    r"\begin{align} 7^{100} &\equiv 1 \pmod{5} \\ &= 1 \end{align}",
    "A = (-9 - 5 - 0) = -14. The remainder when 7^4 is divided by 10 is 1.",
)
_CHARACTERS = "0123456789+-*/^=()[]{}|!,.$\\ abxyz\n≡%_&"
