"""Pictures of pages come from their measured tables."""

import pytest

from common.errors import UserError
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


@pytest.mark.parametrize(
    "study, text, message",
    [
        ("ablation", "a\tb\n1\t2\n", "found no column 'column'; check --stu"),
        ("results", "row\tvalue\n", "found no column 'labels'; check --study"),
        ("ablation", "row\tcolumn\tseed\tvalue\n1 BERT\tx\t0\t\n", ":2: wan"),
        ("ablation", "row\tcolumn\tseed\tvalue\n", "table.md is missing: want"),
        (
            "results",
            "task\tlabels\tstart\tseed\tmetric\tvalue\n"
            "trec\t7\trandom\t0\taccuracy\t1\n",
            "'trec with 7 labels, accuracy'; there are trec with 50 labels, acc",
        ),
        (
            "results",
            "task\tlabels\tstart\tseed\tmetric\tvalue\n"
            "trec\tall\tx\t0\taccuracy\t1\n",
            "the study has no start 'x'; there are pretrained, random",
        ),
    ],
)
def test_other_tables_are_refused(tmp_path, study, text, message):
    path = tmp_path / "table.tsv"
    path.write_text(text)
    places = dict.fromkeys(("out", "data", "text", "start"), "-")
    options = load(study_file.path_of(study), places)
    runner = runner_of(str(tmp_path), options, only_read=True)
    with pytest.raises(UserError, match=message):
        runner.read_rows(str(path))


def test_a_report_with_a_row_that_the_study_lost_is_refused(tmp_path):
    """One without values: its rate is in the report alone."""
    path = tmp_path / "table.tsv"
    path.write_text("row\tcolumn\tseed\tvalue\n")
    report = "| 99 gone | 16.67% | failed: no memory |\n"
    (tmp_path / "table.md").write_text(report)
    places = dict.fromkeys(("out", "data", "text"), "-")
    options = load(study_file.path_of("ablation"), places)
    runner = runner_of(str(tmp_path), options, only_read=True)
    with pytest.raises(UserError, match=r"table\.md: .* no row '99 gone'"):
        runner.read_rows(str(path))


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
    done = commands.run(
        *("-m", "studies.figure", f"--study={study}"),
        "--output_dir=ram://figure",
        f"--values={MEASURED / 'results_table.tsv'}",
    )
    assert "error: --output_dir=ram://figure: studies write on" in done.stderr
