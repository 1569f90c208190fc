"""Quotes of CSV and TSV: unclosed ones, pandas' and Excel's, plain ones."""

import csv
import io
import random

import pytest

from common.errors import UserError
from data.finetuning.classifier import sources as classifier_sources
from data.finetuning.examples import BadRows
from data.finetuning.options import ClassifierDataOptions
from data.finetuning.tables import quoted_rows
from serving.exported import answering
from tests.serving.exported.fake_models import FakeModel, answers, options

TEXTS = ['He said "hi"', "a\ttab", "two\nlines", "plain", "", "5\" 'x'", "ü,é"]


def table(path, skip=False, **kwargs):
    bad = BadRows(skip)
    found = classifier_sources.read_table(
        str(path), ClassifierDataOptions("tsv", "d", **kwargs), bad, None, True
    )
    return [(e.texts[0], e.label) for e in found], bad


def unclosed(path, before=3, after=1000, closing=""):
    """A table of `before` good rows, an open quote and `after` good rows."""
    rows = [f"text {i},x" for i in range(before)]
    rows += ['"never closed,x', *(f"more {i},y" for i in range(after))]
    path.write_text("\n".join(["text,label", *rows]) + f"\n{closing}")


@pytest.mark.parametrize(
    "closing", ["", 'a,"5"\n', 'the size is 5",y\n', 'a,"b"\nc,d\ne,f\n']
)
@pytest.mark.parametrize("skip", [False, True])
def test_an_unclosed_quote_is_no_small_loss(tmp_path, skip, closing):
    """Where the file ends in it, and where another quote ends it."""
    unclosed(tmp_path / "a.csv", closing=closing)
    with pytest.raises(UserError, match=r"a\.csv:5: .*quote") as e:
        table(tmp_path / "a.csv", skip)
    assert "5 to 100" in str(e.value) or "lines (99." in str(e.value)
    assert "\n" not in str(e.value)


def test_a_small_loss_is_said_with_its_lines(tmp_path):
    """Below 1 % of the lines, with --skip_bad_rows."""
    path = tmp_path / "a.csv"
    unclosed(path, 2000, 11, 'the size is 5",y\n' + "more,x\n" * 50)
    rows, bad = table(path, skip=True)
    assert len(rows) == 2050 and bad.count == 1
    assert "takes the lines 2002 to 2014 into one row" in bad.summary()
    with pytest.raises(UserError, match="2002 to 2014"):
        table(path)


def test_predictions_refuse_an_unclosed_quote(tmp_path):
    unclosed(tmp_path / "in.csv")
    with pytest.raises(UserError, match="unclosed quotes take 1000 of 1005"):
        answering.predict_file(
            FakeModel(), options(tmp_path, "in.csv", skip_bad_rows=True)
        )


def test_long_texts_are_no_unclosed_quotes(tmp_path):
    """Verse with a comma in most lines, and 150 lines, which are said."""
    verse = "\n".join(f"a line, {i}" if i % 4 else "a line" for i in range(40))
    prose = "\n".join(["word"] * 150)
    out = io.StringIO()
    csv.writer(out).writerows([["text", "label"], [verse, "x"], [prose, "y"]])
    (tmp_path / "a.csv").write_text(out.getvalue(), newline="")
    rows, bad = table(tmp_path / "a.csv")
    assert [len(text.splitlines()) for text, _ in rows] == [40, 150]
    assert bad.noted == [f"{tmp_path}/a.csv:42: the row has 150 lines"]


def test_a_row_with_bytes_that_are_no_text_is_left_out_whole(tmp_path):
    content = b'text,label\n"one\ncaf\xe9\nthree",x\ngood,y\n'
    (tmp_path / "a.csv").write_bytes(content)
    rows, bad = table(tmp_path / "a.csv", skip=True)
    assert rows == [("good", "y")]
    assert "a.csv:2: no valid UTF-8 at byte 4" in bad.summary()
    assert "(line 3)" in bad.summary() and bad.count == 1


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl"])
def test_long_fields_are_read(tmp_path, ending):
    long = "word " * 60_000
    content = {
        "csv": f'text,label\n"{long}",x\n',
        "tsv": f"text\tlabel\n{long}\tx\n",
        "jsonl": f'{{"text": "{long}", "label": "x"}}\n',
    }[ending]
    (tmp_path / f"a.{ending}").write_text(content)
    assert table(tmp_path / f"a.{ending}")[0] == [(long, "x")]


def test_a_field_above_16_mib_is_named(tmp_path):
    with open(tmp_path / "a.csv", "w") as f:
        f.write('text,label\ngood,x\n"')
        for _ in range(17):
            f.write("x" * (1 << 20) + "\n")
        f.write('",y\n')
    with pytest.raises(UserError, match=r"a\.csv:3: no valid CSV row"):
        table(tmp_path / "a.csv")


def written(texts, **kwargs):
    out = io.StringIO()
    rows = [["text", "label"], *([t, "x"] for t in texts)]
    writer = csv.writer(out, delimiter="\t", lineterminator="\n", **kwargs)
    writer.writerows(rows)
    return out.getvalue()


@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
def test_a_tsv_that_is_quoted_by_rfc_4180(tmp_path, quoting):
    path = tmp_path / "a.tsv"
    path.write_text(written(TEXTS, quoting=quoting))
    rows, bad = table(path, allow_empty_text=True)
    assert [text for text, _ in rows] == TEXTS
    assert "quotes are those of RFC 4180 (first in line" in bad.summary()
    # Every field in quotes, which hold nothing that needs them.
    path.write_text(written(["a", "b"], quoting=csv.QUOTE_ALL))
    assert table(path)[0] == [("a", "x"), ("b", "x")]


def test_a_tsv_of_pandas(tmp_path):
    pandas = pytest.importorskip("pandas")
    rng = random.Random(5)
    texts = [
        "".join(rng.choices("ab \"\t\n,'", k=rng.randint(1, 12))) + "z"
        for _ in range(300)
    ]
    frame = pandas.DataFrame({"text": texts, "label": "x"})
    for name, separator in (("a.tsv", "\t"), ("a.csv", ",")):
        frame.to_csv(tmp_path / name, sep=separator, index=False)
        rows, _ = table(tmp_path / name)
        assert [text for text, _ in rows] == texts
        back = pandas.read_csv(tmp_path / name, sep=separator)
        assert list(back["text"]) == texts


PLAIN = {
    '"Hello", he said\tx\n': "line 2 is not written so",
    '"Hello"\tx\n': "they hold no tab, no line end and no doubled quote",
    '"He said ""hi"""\tx\n5" disk\ty\n': "line 3 is not written so",
    '"He said ""hi"""\tx\n"open\ty\nmore\tz\n': "line 3 is not written so",
    r'"He said \"hi\""' + "\tx\n": "line 2 is not written so",
    '"I am here to stay.\tx\nYou cannot go."\ty\nThe sun.\tx\n': (
        "from line 2 on they hold whole rows"
    ),
    '"He said:\tx\n"I stay.\ty\nYou go."\ty\n': "line 2 is not written so",
}


@pytest.mark.parametrize("content", PLAIN)
def test_other_quotes_of_a_tsv_are_text_and_said(tmp_path, content):
    path = tmp_path / "a.tsv"
    path.write_text("text\tlabel\n" + content)
    rows, bad = table(path)
    assert [text for text, _ in rows] == [
        line.split("\t")[0] for line in content.splitlines()
    ]
    assert "a.tsv: quotes are text (first in line 2)" in bad.summary()
    assert PLAIN[content] in bad.summary()


def test_a_quotation_in_the_first_row_spans_rows(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text('"I stay.\tx\nI do.\tz\nYou go."\ty\nThe sun.\tx\n')
    options = {"has_header": False, "text_columns": ("0",), "label_column": "1"}
    rows, _ = table(path, **options)
    assert rows == [
        ('"I stay.', "x"), ("I do.", "z"), ('You go."', "y"), ("The sun.", "x")
    ]  # fmt: skip


@pytest.mark.parametrize(
    "other", ["two\nlines", 'He said "hi"', "two\n\tlines"]
)
def test_a_text_of_just_so_many_tabs_and_lines_is_one(tmp_path, other):
    """What another row says of the quotes holds for it."""
    path = tmp_path / "a.tsv"
    path.write_text(written(["a\tb\nc", other]))
    assert table(path)[0] == [("a\tb\nc", "x"), (other, "x")]
    path.write_text(written(["a\tb\nc"], quoting=csv.QUOTE_ALL))
    assert table(path)[0] == [("a\tb\nc", "x")]


def test_a_tsv_whose_fields_begin_with_no_quote_is_not_spoken_of(tmp_path):
    (tmp_path / "a.tsv").write_text('text\tlabel\n5" disk\tx\nplain\ty\n')
    assert not quoted_rows.quotes_are_rfc4180(
        str(tmp_path / "a.tsv"), bad := BadRows()
    )
    assert bad.said == []


def test_predictions_read_the_quotes_of_training(tmp_path, capsys):
    (tmp_path / "in.tsv").write_text(written(TEXTS[:4]))
    answering.predict_file(FakeModel(), options(tmp_path, "in.tsv"))
    assert [a["length"] for a in answers(tmp_path)] == list(map(len, TEXTS[:4]))
    assert "quotes are those of RFC 4180" in capsys.readouterr().err
