"""The table of rows and seeds: every line has a cell per column."""

from studies.runner.seed_table import Column, Row, table


def test_a_row_without_a_rate_of_targets_has_its_cell():
    """Released or random weights beside rows that were pretrained."""
    pretrained = Row("a", {"f1": {"0": 2.0}}, rate=0.1)
    released = Row("b", {"f1": {"0": 3.0}}, paper={"f1": 80.0})
    lines = table([pretrained, released], [Column("f1", digits=1)], "a")
    cells = [line.split("|")[1:-1] for line in lines.splitlines()]
    assert [len(line) for line in cells] == [3] * 6
    head, _, first, second, less, paper = cells
    assert [head[1], first[1]] == [" targets ", " 10.00% "]
    assert not "".join([second[1], less[1], paper[1]]).strip()


def test_a_bar_in_a_message_ends_no_cell():
    rows = [Row("a", errors={"f1": "wanted x|y"}), Row("b")]
    line = table(rows, [Column("f1"), Column("em")], "a").splitlines()[2]
    assert line == r"| a | failed: wanted x\|y |  |"
