"""SYNTHETIC suite folders for the report's tests: made-up numbers, never a result."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

SOURCE = """import {{ useState }} from 'react'

export default function {name}({{ title, step }}) {{
  const [n, setN] = useState(0)
  return (
    <div className="card">
      <h2>{{title}}</h2>
      <button onClick={{() => setN(n + step}}>Add {{n}}</button>
    </div>
  )
}}
"""


def write_synthetic_suite(
    folder: Path,
    *,
    arms: Mapping[str, float],
    seeds: int = 3,
    steps: int = 40,
    eval_every: int = 4,
    noise: float = 0.03,
    completion: str | None = None,
    rollouts: bool = True,
) -> Path:
    """Arms map to a speed: larger learns sooner. The first arm is the baseline."""
    folder.mkdir(parents=True, exist_ok=True)
    tables = "\n".join(f'[[arms]]\nname = "{name}"\nsummary = "made up"' for name in arms)
    (folder / "suite.toml").write_text(
        f'name = "synthetic"\ntask = "react.micro"\npolicy = "micro"\n'
        f"seeds = {list(range(seeds))}\n"
        f'baseline = "{next(iter(arms))}"\n[primary]\nmetric = "complete"\nthreshold = 0.5\n'
        f"[run]\nsteps = {steps}\n{tables}\n"
    )
    manifest = {
        "botgrpo": "0.1.0",
        "git_commit": "0" * 40,
        "host": {"cpu": "synthetic", "cores": 2},
        "sandbox": {"backend": "bubblewrap", "esbuild": "0.28.2"},
        "hashes": {"warm_start": "ab" * 32},
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))
    for a, (name, speed) in enumerate(arms.items()):
        for seed in range(seeds):
            cell = folder / "cells" / name / f"seed{seed}"
            cell.mkdir(parents=True)
            rng = np.random.default_rng([a, seed])
            level = _level(speed * rng.normal(1, 0.08), steps)
            (cell / "config.toml").write_text(
                f'algorithm = "{name}"\nlr = 3e-4\nseed = {seed}\n[design]\nw_s = {float(a > 0)}\n'
            )
            _write(cell / "eval.jsonl", _evals(level, rng, noise, steps, eval_every))
            _write(cell / "metrics.jsonl", _metrics(level, rng, steps))
            if rollouts:
                text = SOURCE.format(name="Tally") if completion is None else completion
                _write(cell / "rollouts.jsonl", _rollouts(text, level, steps, rng))
    return folder


def _level(speed: float, steps: int) -> np.ndarray:
    x = np.arange(steps + 1) / steps
    return 0.2 + 0.62 / (1 + np.exp(-9 * (x * speed - 0.45))) - 0.62 / (1 + np.exp(9 * 0.45))


def _evals(
    level: np.ndarray, rng: np.random.Generator, noise: float, steps: int, every: int
) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for step in range(0, steps + 1, every):
        rate = float(np.clip(level[step] + rng.normal(0, noise), 0, 1))
        ok = round(96 * rate)
        rows.append(
            {
                "step": step,
                "n": 96,
                "unscored": 0,
                "complete": round(rate, 4),
                "compile": round(min(1.0, rate + 0.06), 4),
                "match": round(0.4 + 0.5 * rate, 4),
                "mean_length": round(125 - 12 * rate + rng.normal(0, 1.5), 2),
                "verdicts": {"ok": ok, "syntax": 96 - ok},
            }
        )
    return rows


def _metrics(level: np.ndarray, rng: np.random.Generator, steps: int) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for step in range(1, steps + 1):
        ok = float(np.clip(level[step] + rng.normal(0, 0.05), 0, 1))
        rest = 1 - ok
        rows.append(
            {
                "step": step,
                "reward": ok,
                "bot/unscored": 0,
                "bot/local_unscored_tokens": 0,
                "sandbox/verdict/ok": ok,
                "sandbox/verdict/syntax": rest * 0.7,
                "sandbox/verdict/resolve": rest * 0.2,
                "sandbox/verdict/no_default_export": rest * 0.1,
                "time/generate_s": 1.0,
                "time/score_s": 0.1,
                "time/update_s": 0.9,
            }
        )
    return rows


def _rollouts(
    text: str, level: np.ndarray, steps: int, rng: np.random.Generator
) -> list[dict[str, object]]:
    spans = token_spans(text)
    rows: list[dict[str, object]] = []
    for step in sorted({1, steps // 2, steps}):
        for k in range(4):
            ok = bool(rng.random() < level[step])
            bad = text.find("setN(n + step")
            blame = (
                []
                if ok or bad < 0
                else [
                    {"start": bad, "end": bad + 13, "value": -1.0, "label": 'syntax: Expected ")"'}
                ]
            )
            local = [
                0.0 if not any(b["start"] < e and s < b["end"] for b in blame) else -1.0
                for s, e in spans
            ]
            reward = [float(ok) / len(spans) + 0.5 * v for v in local]
            mean = float(np.mean(reward))
            rows.append(
                {
                    "step": step,
                    "id": f"s{step}-r{k}",
                    "group": "p0",
                    "prompt": "Write a Tally component with a button and an h2.",
                    "completion": text,
                    "token_ids": list(range(len(spans))),
                    "token_spans": spans,
                    "finish_reason": "stop",
                    "outcome": float(ok),
                    "verdict": "ok" if ok else "syntax",
                    "reason": "",
                    "spans": blame,
                    "local": local,
                    "token_rewards": reward,
                    "advantages": [(r - mean) * 3 + (0.4 if ok else -0.3) for r in reward],
                }
            )
    return rows


def token_spans(text: str) -> list[list[int]]:
    """Pieces of at most four characters, and an empty one for the end token."""
    return [[i, min(i + 4, len(text))] for i in range(0, len(text), 4)] + [[len(text)] * 2]


def _write(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
