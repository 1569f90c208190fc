"""The report of a study: what may be compared is, in every part of it."""

from studies.runner import study_report
from studies.runner.seed_table import Row
from studies.runner.study_file import (
    Claim,
    Command,
    ResultColumn,
    RowOptions,
    StudyOptions,
)


def options_of(names, claims=()):
    """One column, f1; the first row is the reference and the base."""
    first = names[0].split()[0]
    return StudyOptions(
        reference=first,
        figure_base=first,
        pretrain_seeds=1,
        finetune_seeds=1,
        records=Command((), {}),
        pretrain=Command((), {}),
        tasks={},
        rows=tuple(RowOptions(name) for name in names),
        columns=(ResultColumn("f1", digits=1),),
        claims=claims,
    )


def test_rows_of_another_rate_of_targets_have_no_bars():
    """As they have no difference in the table and none in a claim."""
    names = ("a base", "b near", "c apart", "d unknown")
    claim = Claim("better", ("b", "c"), ("a",), ("f1",))
    options = options_of(names, (claim,))
    rows = [
        Row(name, {"f1": {"0": value}}, rate=rate)
        for name, value, rate in zip(
            names,
            (2.0, 3.0, 9.0, 5.0),
            (0.1, 0.1019, 0.1021, None),
            strict=True,
        )
    ]
    found = study_report.bars(options, rows)
    assert found == {"f1": {"b near": 1.0, "d unknown": 3.0}}
    text = study_report.text(options, rows)
    assert text.count("other target rate") == 1
    assert "f1, c less a: not compared" in text
    assert "f1, b less a: +1.0, one pair" in text


def test_no_two_bars_of_a_picture_have_one_colour(tmp_path, monkeypatch):
    names = [f"{i} row" for i in range(15)]
    options = options_of(names)
    rows = [Row(n, {"f1": {"0": float(i)}}) for i, n in enumerate(names)]
    drawn = []
    monkeypatch.setattr(
        study_report.figures,
        "save",
        lambda figure, stem: [drawn.append(figure)],
    )
    study_report.draw(str(tmp_path / "figure"), options, rows)
    (axes,) = drawn[0].axes
    colours = {bars[0].get_facecolor() for bars in axes.containers}
    assert len(axes.containers) == len(colours) == 14
