"""`botgrpo import trl|verl PATH`: rollouts that another trainer logged, as ours, to be audited.

TRL with `log_completions=True` writes OUTPUT_DIR/completions/completions_STEP.parquet: step,
prompt, completion (text, or chat messages), a column for each reward and for each name given to
`log_extra`, advantage. verl with `trainer.rollout_data_dir=DIR` writes DIR/STEP.jsonl: input,
output, gts, score, step, and what the reward function returned beside its score.

A rollout's group is its prompt at its step. What else was logged of it is its reference, so that a
plain function finds its columns under the names that they had; `gts` is `ground_truth` there, and
what `math.answer` reads. Neither trainer logs tokens: `--tokenizer` supplies them.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from botgrpo.rewards.base import Prompt, Rollout
from botgrpo.sandbox.errors import ConfigError

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Imported:
    """Rollouts in the order of their steps, and what was left out and why."""

    rollouts: tuple[Rollout, ...]
    notes: tuple[str, ...]


def load(trainer: str, path: Path) -> Imported:
    """What a trainer logged into a file, or into the files of a folder.

    Raises:
        ConfigError: nothing is there, a file that cannot be read, or a row without a prompt and a
            completion, named by its place.
    """
    suffix, read, take = TRAINERS[trainer]
    files = [path] if path.is_file() else sorted(path.glob(f"*{suffix}"), key=_number)
    if not files:
        raise ConfigError(
            f"{path}: {trainer} logged nothing there; give a *{suffix} file of rollouts, or the "
            f"folder that holds them. {WHERE[trainer]}"
        )
    rollouts: list[Rollout] = []
    notes: list[str] = []
    before: list[dict[str, Any]] = []
    for file in files:
        rows = list(read(file))
        alike = [{k: v for k, v in row.items() if k != "step"} for row in rows]
        if rows and alike == before:
            notes.append(f"{file.name} logs the rollouts of the file before it again: left out")
            continue
        before = alike
        taken = [take(row, f"{file}, row {i}") for i, row in enumerate(rows, start=1)]
        kept = [(i, each) for i, each in enumerate(taken, start=1) if each]
        if len(kept) < len(rows):
            lost = len(rows) - len(kept)
            notes.append(f"{file.name}: {lost} answers of several turns are left out")
        for i, (prompt, completion, reference) in kept:
            step = rows[i - 1].get("step", file.stem)
            group = f"{step}/{_digest(prompt)}"
            rollouts.append(Rollout(f"{file.stem}/{i}", group, prompt, completion, reference))
    return Imported(tuple(rollouts), tuple(notes))


WHERE = {
    "trl": "TRL writes OUTPUT_DIR/completions where GRPOConfig has log_completions=True",
    "verl": "verl writes them where trainer.rollout_data_dir names a folder",
}


def _trl_rows(file: Path) -> Iterator[Row]:
    try:
        from pyarrow import parquet
    except ImportError:
        raise ConfigError(
            f"{file} is Parquet, and reading it needs the library pyarrow: "
            "pip install 'botgrpo[hub]', or run this command where TRL is installed"
        ) from None
    try:
        rows: list[Row] = parquet.read_table(file).to_pylist()
    except (OSError, ValueError) as error:  # pyarrow's own errors are ValueErrors
        raise ConfigError(f"{file}: {error}; expected the Parquet file of a TRL run") from None
    return iter(rows)


def _trl(row: Row, where: str) -> tuple[Prompt, str, Row] | None:
    prompt, answer = row.get("prompt"), row.get("completion")
    if isinstance(answer, list):
        turns = [_message(each, where) for each in answer]
        answer = turns[0]["content"] if len(turns) == 1 else None
        if answer is None:
            return None
    if isinstance(prompt, list):
        prompt = [_message(each, where) for each in prompt]
    if not isinstance(prompt, str | list) or not isinstance(answer, str):
        raise ConfigError(f"{where}: a prompt and a completion are needed; got {sorted(row)}")
    rest = {k: v for k, v in row.items() if k not in ("step", "prompt", "completion", "advantage")}
    return prompt, answer, _plain(rest)


def _message(value: Any, where: str) -> dict[str, str]:
    """A chat message with its text, of blocks those that are text."""
    if not isinstance(value, Mapping) or not isinstance(value.get("role"), str):
        raise ConfigError(f"{where}: a chat message has a role and a content")
    content = value.get("content") or ""
    if isinstance(content, list):
        content = "".join(str(part.get("text") or "") for part in content if part)
    return {"role": value["role"], "content": str(content)}


def _verl_rows(file: Path) -> Iterator[Row]:
    try:
        lines = file.read_text("utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: {error}") from None
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"{file}:{number}: {error}; expected one object a line") from None
        if not isinstance(row, dict):
            raise ConfigError(f"{file}:{number}: got {type(row).__name__}, an object is needed")
        yield row


def _verl(row: Row, where: str) -> tuple[Prompt, str, Row]:
    prompt, answer = row.get("input"), row.get("output")
    if not isinstance(prompt, str) or not isinstance(answer, str):
        raise ConfigError(f"{where}: texts under input and output are needed; got {sorted(row)}")
    rest = {k: v for k, v in row.items() if k not in ("input", "output", "gts", "step")}
    return prompt, answer, {**_plain(rest), **_truth(row.get("gts"))}


def _truth(value: Any) -> Row:
    """A ground truth, and the same as `math.answer` takes it."""
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        return {} if value is None or value == "" else {"ground_truth": _plain({"": value})[""]}
    if re.fullmatch(r"[0-9]{1,3}", str(value).strip(), re.ASCII):
        return {"ground_truth": value, "accepted": [int(value)]}
    return {"ground_truth": value, "accepted": [str(value)], "kind": "expression"}


def _plain(row: Row) -> dict[str, Any]:
    """Values as JSON has them: an unknown number is null, everything else that is none is text."""

    def plain(value: Any) -> Any:
        if isinstance(value, float) and not math.isfinite(value):
            return None
        if isinstance(value, Mapping):
            return {str(k): plain(v) for k, v in value.items()}
        if isinstance(value, list | tuple):
            return [plain(v) for v in value]
        return value if value is None or isinstance(value, str | int | float) else str(value)

    return {str(k): plain(v) for k, v in row.items()}


def _number(path: Path) -> tuple[int, str]:
    """Files in the order of their steps: 2 comes before 10."""
    digits = re.findall(r"[0-9]+", path.stem)
    return int(digits[-1]) if digits else -1, path.name


def _digest(prompt: Prompt) -> str:
    text = prompt if isinstance(prompt, str) else json.dumps([dict(m) for m in prompt])
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]


Read = Callable[[Path], Iterator[Row]]
Take = Callable[[Row, str], tuple[Prompt, str, Row] | None]
TRAINERS: Mapping[str, tuple[str, Read, Take]] = {
    "trl": (".parquet", _trl_rows, _trl),
    "verl": (".jsonl", _verl_rows, _verl),
}


def summary(found: Imported) -> Sequence[str]:
    """What was imported, in lines."""
    groups = {rollout.group for rollout in found.rollouts}
    return [f"{len(found.rollouts)} rollouts of {len(groups)} groups imported", *found.notes]
