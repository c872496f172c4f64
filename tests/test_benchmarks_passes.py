"""pass@k of a suite's last checkpoints: every k from one checkpoint's samples, measured once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from botgrpo.benchmarks import passes, runner, suite
from botgrpo.benchmarks.results import Cell, load_suite


@pytest.mark.slow
def test_each_finished_cell_gets_its_rates_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = {"steps": 1, "eval_every": 1, "eval_prompts": 2, "checkpoint_every": 1}
    small = {"sampling.prompts": 2, "sampling.group_size": 2, "sampling.max_new_tokens": 48}
    two = suite.load("paper_f5").model_copy(update={"seeds": [0], "run": run, "set": small})
    assert runner.Bench(two, tmp_path).run() == []
    result = load_suite(tmp_path)
    passes.measure(result, [1, 2], prompts=4, samples=2)
    assert capsys.readouterr().out.count("pass@2") == 2
    for cell in result.cells.values():
        rates = passes.read(cell)
        assert set(rates) == {1, 2} and 0 <= rates[1] <= rates[2] <= 1
        assert json.loads((cell.folder / passes.FILE).read_text())["step"] == 1
    passes.measure(result, [1, 2], prompts=4, samples=2)
    assert capsys.readouterr().out == ""


def test_a_cell_that_was_not_measured_has_no_rates(tmp_path: Path) -> None:
    assert passes.read(Cell("arm", 0, tmp_path, "finished", "")) == {}
