"""The report of the ablation: what may be compared is, in every part of it."""

from benchmarks import ablation_report
from benchmarks.ablation_file import (
    AblationOptions,
    Claim,
    Command,
    ResultColumn,
    RowOptions,
)
from benchmarks.seed_table import Row


def test_rows_of_another_rate_of_targets_have_no_bars():
    """As they have no difference in the table and none in a claim."""
    names = ("a base", "b near", "c apart", "d unknown")
    options = AblationOptions(
        reference="a",
        figure_base="a",
        pretrain_seeds=1,
        finetune_seeds=1,
        vocabulary=None,
        records=Command((), {}),
        pretrain=Command((), {}),
        tasks={},
        rows=tuple(RowOptions(name) for name in names),
        columns=(ResultColumn("f1", digits=1),),
        claims=(Claim("better", ("b", "c"), ("a",), ("f1",)),),
    )
    rows = [
        Row(name, {"f1": {"0": value}}, rate=rate)
        for name, value, rate in zip(
            names,
            (2.0, 3.0, 9.0, 5.0),
            (0.1, 0.1019, 0.1021, None),
            strict=True,
        )
    ]
    found = ablation_report.bars(options, rows)
    assert found == {"f1": {"b near": 1.0, "d unknown": 3.0}}
    text = ablation_report.text(options, rows)
    assert text.count("other target rate") == 1
    assert "f1, c less a: not compared" in text
    assert "f1, b less a: +1.0, one pair" in text
