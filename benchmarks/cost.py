"""What a rollout costs:  python -m botgrpo.benchmarks.cost [--model NAME] [--out DIR]

Group size, length and number of prompts are varied around one point, and generation by this
process's engine and the update are timed. Printed is the cost as a plane, fitted to all points:
seconds a prompt, a decoding step and a token. DIR gets the points (cost.csv) and a picture
(cost.html, offline). Minutes with the 135M model, seconds with react_micro.
"""

from __future__ import annotations

import argparse
import csv
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, astuple, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from markupsafe import Markup

from botgrpo.benchmarks import assemble, shipped
from botgrpo.benchmarks.report.document import write_page
from botgrpo.benchmarks.report.svg import Frame, figure, join, tag
from botgrpo.trainer.engines.base import Sampling
from botgrpo.trainer.engines.generic import engine_for
from botgrpo.trainer.logps import Row, microbatches, token_logps
from botgrpo.trainer.models import locate
from botgrpo.trainer.policy import DTYPES, load_policy

SERIES = {
    "group size": [(4, k, 32) for k in (1, 2, 4, 8, 16)],
    "length": [(4, 8, t) for t in (1, 16, 32, 64, 128)],
    "prompts": [(p, 8, 32) for p in (1, 2, 4, 8)],
}
QUICK = {"group size": [(2, 2, 8), (2, 8, 8)], "length": [(2, 4, 1), (2, 4, 16)]}
MICRO_TOKENS = 2048
STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 2rem auto; padding: 0 1rem }
svg { width: 100%; height: auto } .grid { stroke: #8884 } .fit { stroke: #888; fill: none }
text { font-size: 12px; fill: currentColor } .c0 { fill: #0072b2 } .c1 { fill: #d55e00 }
.c2 { fill: #009e73 } :root { color-scheme: light dark }
"""


@dataclass(frozen=True, slots=True)
class Point:
    """One measurement: P prompts x K rollouts x T tokens, the best of several tries."""

    series: str
    prompts: int
    group: int
    tokens: int
    generate_s: float
    update_s: float

    @property
    def generated(self) -> int:
        return self.prompts * self.group * self.tokens


@dataclass(frozen=True, slots=True)
class Fit:
    """seconds = prompt_s P + step_s T + token_s P K T, by least squares of relative errors."""

    prompt_s: float
    step_s: float
    token_s: float
    r2: float
    worst: float  # largest relative error of a point


def fit(points: Sequence[Point]) -> Fit:
    """The plane of generation's cost; no coefficient below 0."""
    from scipy.optimize import nnls

    x = np.array([[p.prompts, p.tokens, p.generated] for p in points], dtype=float)
    y = np.array([p.generate_s for p in points])
    found, _ = nnls(x / y[:, None], np.ones(len(y)))
    left = x @ found - y
    r2 = 1 - float((left**2).sum() / ((y - y.mean()) ** 2).sum())
    prompt_s, step_s, token_s = map(float, found)
    return Fit(prompt_s, step_s, token_s, r2, float(np.abs(left / y).max()))


def line(xs: Sequence[float], ys: Sequence[float]) -> tuple[float, float, float]:
    """(intercept, slope, R2) of a straight line."""
    slope, start = np.polyfit(xs, ys, 1)
    left = np.asarray(ys) - (start + slope * np.asarray(xs))
    return float(start), float(slope), 1 - float(left.var() / np.var(ys))


def measure(
    model: str, dtype: str, series: dict[str, list[tuple[int, int, int]]], tries: int
) -> Iterator[Point]:
    """All points, one after another."""
    folder = shipped.checkpoint(model, 0) or locate(model)
    policy = load_policy(folder)
    engine = engine_for(policy.model, end_ids=[], pad_id=policy.pad_id, dtype=DTYPES[dtype])
    texts = [item.prompt for item in assemble.task("react").train_items(0)]
    ids = [policy.prompt_ids(text) for text in texts]
    width = int(np.median([len(i) for i in ids]))
    ids = [(i * width)[:width] for i in ids]  # alike, so that only their number counts
    autocast = None if dtype == "float32" else DTYPES[dtype]
    engine.generate(ids[:2], 2, range(4), Sampling(4))  # warms up
    for name, sizes in series.items():
        for prompts, group, tokens in sizes:
            samples: list[Any] = []

            def generate(
                p: int = prompts, k: int = group, t: int = tokens, into: list[Any] = samples
            ) -> None:
                into[:] = engine.generate(ids[:p], k, range(p * k), Sampling(t))

            def update(k: int = group, drawn: list[Any] = samples) -> None:
                rows = [
                    Row(ids[i // k], s.token_ids, np.zeros(0), s.logps) for i, s in enumerate(drawn)
                ]
                for picked in microbatches(policy.model, rows, MICRO_TOKENS):
                    logps_N, _ = token_logps(
                        policy.model,
                        [rows[i] for i in picked],
                        pad_id=policy.pad_id,
                        temperature=1.0,
                        autocast=autocast,
                    )
                    logps_N.sum().backward()  # type: ignore[no-untyped-call]
                policy.model.zero_grad()

            generate_s = best(generate, tries)
            yield Point(name, prompts, group, tokens, generate_s, best(update, tries))


def best(work: Callable[[], None], tries: int) -> float:
    """Seconds of the fastest try: what others do on the machine only adds to it."""
    seconds = []
    for _ in range(tries):
        began = time.perf_counter()
        work()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - began)
    return min(seconds)


def chart(points: Sequence[Point], id: str, title: str, quantity: str) -> Markup:
    """Seconds against generated tokens, a colour and a shape a series, and the straight line."""
    xs = [float(p.generated) for p in points]
    ys = [float(getattr(p, quantity)) for p in points]
    frame = Frame(640, 340, 60, 20, 16, 52, (0.0, max(xs)), (0.0, max(ys)))
    start, slope, _ = line(xs, ys)
    ends = [0.0, max(xs)]
    heights = [max(0.0, start), start + slope * max(xs)]
    parts = [frame.x_axis("tokens generated"), frame.y_axis()]
    parts.append(tag("path", class_="fit", d=frame.path(ends, heights)))
    for i, name in enumerate(dict.fromkeys(p.series for p in points)):
        for x, y, p in zip(xs, ys, points, strict=True):
            if p.series == name:
                parts.append(mark(i, frame.x(x), frame.y(y)))
        parts += [mark(i, 84.0, 30.0 + 18 * i), tag("text", name, x=96, y=34 + 18 * i)]
    described = f"{title}: {len(points)} points and the straight line through them, in seconds"
    return figure(frame, id, title, described, join(parts))


def mark(i: int, x: float, y: float) -> Markup:
    """A circle, a square, a triangle."""
    if i == 0:
        return tag("circle", class_="c0", cx=x, cy=y, r=4)
    if i == 1:
        return tag("rect", class_="c1", x=x - 4, y=y - 4, width=8, height=8)
    return tag("path", class_="c2", d=f"M{x - 5:.1f} {y + 4:.1f}h10l-5 -9z")


def summary(points: Sequence[Point], found: Fit) -> list[str]:
    """The fitted costs in words."""
    lines = [
        f"generation: {1e3 * found.prompt_s:.1f} ms a prompt, {1e3 * found.step_s:.1f} ms a "
        f"decoding step, {1e3 * found.token_s:.2f} ms a token; R2 {found.r2:.3f}, worst point "
        f"{found.worst:.0%} off"
    ]
    for quantity in ("generate_s", "update_s"):
        xs, ys = [p.generated for p in points], [getattr(p, quantity) for p in points]
        start, slope, r2 = line(xs, ys)
        lines.append(
            f"{quantity[:-2]} against tokens alone: {start:.2f} s + {1e3 * slope:.2f} ms a token; "
            f"R2 {r2:.3f}"
        )
    return lines


def write(points: Sequence[Point], said: Sequence[str], title: str, out: Path) -> None:
    """cost.csv and cost.html."""
    out.mkdir(parents=True, exist_ok=True)
    with (out / "cost.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow([*(f.name for f in fields(Point)), "generated"])
        table.writerows([*astuple(p), p.generated] for p in points)
    body = join(
        [
            tag("h1", title),
            *(tag("p", text) for text in said),
            tag("h2", "Generation, seconds"),
            chart(points, "generate", "Generation", "generate_s"),
            tag("h2", "Update, seconds"),
            chart(points, "update", "Update", "update_s"),
        ]
    )
    head = join([tag("title", title), Markup(f"<meta charset=utf-8><style>{STYLE}</style>")])
    write_page(out / "cost.html", f"<!doctype html><html lang=en>{head}<body>{body}</body></html>")


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m botgrpo.benchmarks.cost", description=__doc__)
    made.add_argument("--model", default="smollm2-135m")
    made.add_argument("--dtype", choices=DTYPES, default="bfloat16")
    made.add_argument("--tries", type=int, default=3, help="of each point; the fastest counts")
    made.add_argument("--quick", action="store_true", help="a few small points")
    made.add_argument("--out", default="runs/cost", metavar="DIR")
    return made


def main(argv: Sequence[str] | None = None) -> int:
    arguments = parser().parse_args(argv)
    points = []
    sizes = QUICK if arguments.quick else SERIES
    for point in measure(arguments.model, arguments.dtype, sizes, arguments.tries):
        points.append(point)
        print(
            "  ".join(
                f"{k} {v:.3g}" if k != "series" else f"{v:10}" for k, v in asdict(point).items()
            )
        )
    said = summary(points, fit(points))
    title = f"What rollouts cost: {arguments.model}, {arguments.dtype}"
    write(points, said, title, Path(arguments.out))
    print("\n".join(said))
    print(f"{arguments.out}/cost.html; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
