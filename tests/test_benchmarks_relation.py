"""Stability and richness of a reward against what training did with it: found where it is there."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from botgrpo.benchmarks import cli
from botgrpo.benchmarks.report.analysis import analyse
from botgrpo.benchmarks.report.relation import RICHNESS, STABILITY, load_audit, relate, sentences
from botgrpo.benchmarks.results import load_suite
from botgrpo.sandbox.errors import ConfigError
from synthetic_suite import write_synthetic_suite

DESIGNS = {f"d{i}": (i / 10, (7 * i) % 10 / 2) for i in range(10)}  # stability, richness


def written(tmp_path: Path, by: int, effect: float = 1.0) -> tuple[Path, Path]:
    """A suite whose designs learn faster with their figure number `by`, and the designs' audit."""
    scale = max(figures[by] for figures in DESIGNS.values())
    arms = {name: 0.8 + effect * figures[by] / scale for name, figures in DESIGNS.items()}
    folder = write_synthetic_suite(tmp_path / "suite", arms=arms, seeds=6, rollouts=False)
    for name in DESIGNS:
        for path in folder.glob(f"cells/{name}/seed*/config.toml"):
            path.write_text(
                f'[reward.locals]\n"noise.gaussian(react.compile,sigma={name[1:]})" = 1.0\n'
            )
    cards = [
        {
            "name": f"noise.gaussian( react.compile, sigma={name[1:]} )",
            "figures": {STABILITY: {"value": stable}, RICHNESS: {"value": rich}},
        }
        for name, (stable, rich) in DESIGNS.items()
    ]
    (tmp_path / "audit.json").write_text(json.dumps({"rewards": cards}))
    return folder, tmp_path / "audit.json"


@pytest.mark.parametrize(("by", "word"), [(0, "Stability"), (1, "Richness")])
def test_the_figure_that_drives_learning_is_found(tmp_path: Path, by: int, word: str) -> None:
    folder, audit = written(tmp_path, by)
    relation = relate(analyse(load_suite(folder)), load_audit(audit))
    assert len(relation.placed) == 10 and not relation.left_out
    slopes = (relation.stability, relation.richness)
    assert slopes[by] and slopes[by].interval.low > 0
    assert f"{word} matters more among these designs" in sentences(relation)[-1]


def test_where_nothing_drives_learning_nothing_is_claimed(tmp_path: Path) -> None:
    folder, audit = written(tmp_path, 0, effect=0.0)
    told = sentences(relate(analyse(load_suite(folder)), load_audit(audit)))
    assert sum("not separated from none" in line for line in told) == 2
    assert "not separated" in told[-1]


def test_slopes_are_those_of_least_squares_by_hand(tmp_path: Path) -> None:
    folder, audit = written(tmp_path, 0)
    relation = relate(analyse(load_suite(folder)), load_audit(audit))
    x = np.array([[p.stability, p.richness] for p in relation.placed])
    y = np.array([p.areas.mean() for p in relation.placed])
    z = (x - x.mean(0)) / x.std(0)
    normal = z.T @ z
    expected = np.linalg.solve(normal, z.T @ (y - y.mean()))
    assert relation.stability and relation.richness
    assert [relation.stability.value, relation.richness.value] == pytest.approx(list(expected))


def test_designs_without_an_audit_are_named_and_too_few_say_nothing(tmp_path: Path) -> None:
    folder, audit = written(tmp_path, 0)
    record = json.loads(audit.read_text())
    record["rewards"] = record["rewards"][:3]
    record["rewards"][0]["figures"][STABILITY]["value"] = None
    audit.write_text(json.dumps(record))
    relation = relate(analyse(load_suite(folder)), load_audit(audit))
    assert len(relation.placed) == 2 and len(relation.left_out) == 8
    assert "could not tell" in relation.left_out[0] and "was not audited" in relation.left_out[1]
    assert "2 designs stand on the plane; two slopes need 6" in sentences(relation)[0]


def test_the_report_draws_the_plane_and_says_the_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, audit = written(tmp_path, 0)
    assert cli.main(["report", str(folder), "--audit", str(audit)]) == 0
    html = (folder / "report.html").read_text()
    assert 'id="plane-t"' in html and "Stability matters more among these designs" in html
    assert "Stability matters more" in capsys.readouterr().out
    assert (folder / "figures" / "plane.csv").read_text().count("\n") == 11


def test_a_file_that_is_no_audit_is_refused(tmp_path: Path) -> None:
    (tmp_path / "audit.json").write_text("[]")
    with pytest.raises(ConfigError, match="no audit there"):
        load_audit(tmp_path)
