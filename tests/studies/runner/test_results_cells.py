"""The curves of the page come from the measured table."""

import pytest

from studies.runner import results_cells
from tests.conftest import ROOT

TABLE = str(ROOT / "docs/measured/results_table.tsv")


def test_cells_have_the_last_value_of_a_job_and_the_options_scale():
    options = results_cells.load(results_cells.OPTIONS, {"data": ""})
    cells = {
        (cell.task, cell.labels): cell
        for cell in results_cells.read_cells(TABLE, options)
    }
    trec = cells["trec", 50]
    # The second run of pretrained weights replaces the first.
    assert trec.values["pretrained"][0] == pytest.approx(47.0696)
    assert trec.values["random"][0] == pytest.approx(42.3077)
    gain, error = trec.gain()
    assert (round(gain, 1), round(error, 1)) == (8.0, 3.1)  # as on the page
    assert results_cells.ALL in {labels for _, labels in cells}


def test_the_caption_counts_the_seeds(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(
        results_cells.figures,
        "save",
        lambda figure, stem: [drawn.append(figure)],
    )
    options = results_cells.load(results_cells.OPTIONS, {"data": ""})
    cells = results_cells.read_cells(TABLE, options)
    results_cells.draw(cells, options, str(tmp_path / "curves"))
    assert [a.get_title() for a in drawn[0].axes] == ["trec", "sst-2"]
    assert "mean of n = 3 seeds" in drawn[0].get_suptitle()
