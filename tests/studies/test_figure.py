"""Pictures of pages come from their measured tables."""

import pytest

from studies.kinds.registry import load, runner_of
from studies.runner import study_figure, study_file
from tests.conftest import ROOT
from tests.helpers import commands

MEASURED = ROOT / "docs/measured"


def test_the_ablation_of_the_page(tmp_path):
    """Every row of the table is read, and the rates of targets."""
    places = {"out": "", "data": "", "text": ""}
    options = load(study_file.path_of("ablation"), places)
    runner = runner_of(str(tmp_path), options, only_read=True)
    rows = runner.read_rows(str(MEASURED / "ablation_table.tsv"))
    rates = {row.name.split()[0]: row.rate for row in rows}
    measured = set("12456780")
    assert {key for key, rate in rates.items() if rate} == measured
    assert rates["4"] == pytest.approx(0.1667)
    found = study_figure.points(options, rows)
    assert set(found) == {"answerable F1", "TREC"}
    assert len(found["TREC"]) == len(found["answerable F1"]) == 7
    paths = runner.draw(rows)
    assert [path[-4:] for path in paths] == [".png", ".svg"]


@pytest.mark.long
@pytest.mark.parametrize(
    "study, said",
    [("results", "curves.svg"), ("multitask", "has no picture of its table")],
)
def test_the_command(tmp_path, study, said):
    done = commands.run(
        *("-m", "studies.figure", f"--study={study}"),
        f"--output_dir={tmp_path}",
        f"--values={MEASURED / 'results_table.tsv'}",
    )
    assert said in done.stdout + done.stderr
    assert done.returncode == int("no" in said)
    assert (tmp_path / "curves.png").exists() == (study == "results")
