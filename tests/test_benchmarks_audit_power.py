"""The audit's power is measured on faults that are really where the labels say."""

from __future__ import annotations

import pytest

from botgrpo.benchmarks import audit_power
from botgrpo.benchmarks.audit.labels import read_labelled
from botgrpo.benchmarks.tasks.react_faults import RULES

KINDS = {kind for kind, _, _ in RULES} | {"tag_mismatch", "package_unknown"}


def test_labels_stand_on_the_faulty_lines_and_the_rest_is_clean():
    items = audit_power.labelled_set(3, prompts=6)
    assert len(items) == 48 and len({i.rollout.group for i in items}) == 6
    wrong = [i for i in items if i.faults]
    assert 0 < len(wrong) < 48 and all(i.outcome == float(not i.faults) for i in items)
    for item in wrong:
        for fault in item.faults:
            text = item.rollout.completion
            line = text[fault.start : fault.end]
            assert line.strip() and line == line.lstrip() and "\n" not in line
            assert text[fault.end] == "\n" and not text[: fault.start].rpartition("\n")[2].strip()
            assert fault.kind in KINDS
    assert audit_power.labelled_set(3, prompts=6) == items


@pytest.mark.slow
def test_clean_rewards_raise_no_alarm_and_strong_noise_does():
    tallies = audit_power.measure(1, ["gaussian", "permute_lines, fixed"])
    clean = [t for (kind, _), t in tallies.items() if kind == "clean"]
    assert len(clean) == 4 and all(t.labelled == t.unlabelled == 0 for t in clean)
    assert tallies["gaussian", "sigma=0.5"].labelled == 1
    assert tallies["permute_lines, fixed", "p=1"].alarms["misplaced"] == 1
    assert tallies["permute_lines, fixed", "p=1"].unlabelled == 0
    assert "| gaussian | sigma=0.5 | 1.00 [" in audit_power.table(tallies)


def test_a_labelled_set_is_written_for_real_rewards(tmp_path, monkeypatch):
    path = tmp_path / "labelled.jsonl"
    monkeypatch.setattr("sys.argv", ["audit_power", "--write", str(path)])
    assert audit_power.main() == 0
    assert read_labelled(path) == audit_power.labelled_set(0)
