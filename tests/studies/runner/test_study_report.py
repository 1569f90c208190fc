"""The report of a study: what may be compared is, in every part of it."""

import dataclasses

import pytest

from studies.runner import study_figure, study_report
from studies.runner.seed_table import Row
from studies.runner.study_file import Claim, ResultColumn
from tests.studies.toy_studies import report_options


def test_rows_of_another_rate_of_targets_have_no_points():
    """As they have no difference in the table and none in a claim."""
    names = ("a base", "b near", "c apart", "d unknown")
    claim = Claim("better", ("b", "c"), ("a",), ("f1",))
    options = report_options(names, (claim,))
    rows = [
        Row(name, {"f1": {"0": value}}, rate=rate)
        for name, value, rate in zip(
            names,
            (2.0, 3.0, 9.0, 5.0),
            (0.1, 0.1019, 0.1021, None),
            strict=True,
        )
    ]
    found = study_figure.points(options, rows)
    means = {name: apart.mean for name, apart in found["f1"].items()}
    assert means == {"b near": 1.0, "d unknown": 3.0}
    assert study_figure.order_of(options, found) == ["d unknown", "b near"]
    loss = ResultColumn("f1", digits=1, higher=False)
    losses = dataclasses.replace(options, columns=(loss,))
    assert study_figure.order_of(losses, found) == ["b near", "d unknown"]
    text = study_report.text(options, rows)
    assert text.count("other target rate") == 1
    assert "f1, c less a: not compared" in text
    assert "f1, b less a: +1.0, one pair" in text


def test_a_variant_is_a_row_with_its_interval_and_the_papers_number(
    tmp_path, monkeypatch
):
    """Sorted; columns in which nothing differs are left out and named."""
    names = ("a base", "b low", "c high")
    options = report_options(names)
    flat = ResultColumn("flat", digits=1)
    options = dataclasses.replace(options, columns=(*options.columns, flat))
    of = ((1.0, 2.0), (0.0, 3.0), (5.0, 7.0))
    rows = [
        Row(
            name,
            {
                "f1": {"0": first, "1": second},
                "flat": {"0": 3.0, "1": 3.01},
            },
            paper={"f1": 80.0 + number},
        )
        for number, (name, (first, second)) in enumerate(
            zip(names, of, strict=True)
        )
    ]
    drawn = []
    monkeypatch.setattr(
        study_figure.figures,
        "save",
        lambda figure, stem: [drawn.append(figure)],
    )
    study_figure.draw("figure", options, rows)
    (axes,) = drawn[0].axes
    labels = [t.get_text() for t in axes.get_yticklabels()]
    assert labels == ["c high", "b low"]
    (bars,) = axes.containers
    xs, ys = bars[0].get_data()
    assert dict(zip(ys, xs, strict=True)) == {0: 4.5, 1: 0.0}
    (ends,) = bars[2]
    low, high = sorted(x for x, _ in ends.get_segments()[0])
    assert low == pytest.approx(-1.0) and high == pytest.approx(1.0)
    paper = axes.lines[-1].get_data()
    assert dict(zip(paper[1], paper[0], strict=True)) == {0: 2.0, 1: 1.0}
    title = drawn[0].get_suptitle()
    assert axes.get_xlabel() == "difference"  # a loss has no points
    assert "Below 0.1 in all rows: flat." in title
    assert "n = 2 seeds" in title and "python -m studies.run --study=x" in title
    # A seed of one row failed: it was "n = 2 seeds" for all.
    del rows[2].values["f1"]["1"]
    study_figure.draw("figure", options, rows)
    assert "n = 1 to 2 seeds" in drawn[1].get_suptitle()
    # It was "n = 1 to 2 to 3 seeds".
    options = report_options(("a base", "b", "c", "d"))
    rows = [
        Row(name, {"f1": {str(k): number for k in range(seeds)}})
        for name, number, seeds in zip(
            ("a base", "b", "c", "d"),
            (0.0, 2.0, 3.0, 4.0),
            (3, 1, 2, 3),
            strict=True,
        )
    ]
    study_figure.draw("figure", options, rows)
    assert "n = 1 to 3 seeds" in drawn[2].get_suptitle()
