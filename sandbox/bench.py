"""How fast a backend judges: start-up, candidates a second, and the slow tail."""

from __future__ import annotations

import asyncio
import statistics
import time
from typing import Any

from botgrpo.sandbox.react import ReactCompiler

# Twenty lines, as policies write them: two good shapes, one syntax error, one unknown package.
_GOOD = """import { useState } from "react";

function Row({ name, onPick }: { name: string; onPick: (name: string) => void }) {
  return <li onClick={() => onPick(name)}>{name}</li>;
}

export default function Picker({ names = ["ada", "grace"] }: { names?: string[] }) {
  const [picked, setPicked] = useState<string | null>(null);
  return (
    <section className="picker">
      <h1>Pick one</h1>
      <ul>
        {names.map((name) => (
          <Row key={name} name={name} onPick={setPicked} />
        ))}
      </ul>
      <p>{picked ? `You picked ${picked}` : "Nothing yet"}</p>
    </section>
  );
}
"""
_MIX = (
    _GOOD,
    _GOOD.replace("export default function Picker", "const Picker = function").rstrip()
    + ";\nexport default Picker;\n",
    _GOOD.replace("</section>", "</div>"),
    _GOOD.replace('"react"', '"reakt"'),
)


def measure(backend: str = "auto", workers: int = 1, candidates: int = 1000) -> dict[str, Any]:
    """Judge `candidates` different sources; a candidate's milliseconds leave out its queueing.

    Raises SandboxUnavailable.
    """
    return asyncio.run(_measure(backend, workers, candidates))


def main(backend: str = "auto", workers: int = 1, candidates: int = 1000) -> int:
    """Print the measurement; returns 0."""
    for name, value in measure(backend, workers, candidates).items():
        print(f"{name:>24}  {value}")
    return 0


async def _measure(backend: str, workers: int, candidates: int) -> dict[str, Any]:
    compiler = ReactCompiler(backend, workers)
    started = time.perf_counter()
    await compiler.compile("export default () => null;")
    first_s = time.perf_counter() - started
    room = asyncio.Semaphore(workers)  # so that a time is a candidate's own, not its queue's
    times_ms: list[float] = []

    async def one(number: int) -> None:
        async with room:
            result = await compiler.compile(f"{_MIX[number % len(_MIX)]}// {number}")
        times_ms.append(result.seconds * 1000)

    await asyncio.gather(*(one(-number) for number in range(1, 40 * workers)))
    times_ms.clear()
    started = time.perf_counter()
    await asyncio.gather(*map(one, range(candidates)))
    wall_s = time.perf_counter() - started
    described = compiler.describe()
    await compiler.aclose()
    tail = statistics.quantiles(times_ms, n=100)
    return {
        "backend": described["backend"],
        "runtime": described["runtime"],
        "workers": workers,
        "start_and_first_s": round(first_s, 3),
        "candidates": candidates,
        "candidates_per_s": round(candidates / wall_s, 1),
        "p50_ms": round(tail[49], 2),
        "p95_ms": round(tail[94], 2),
        "p99_ms": round(tail[98], 2),
    }
