"""Prediction reads the files that training reads, in the same way."""

import csv
import gzip
import io
import json

import pytest

from common.errors import UserError
from data.finetuning.classifier import sources as classifier_sources
from data.finetuning.examples import BadRows
from data.finetuning.options import ClassifierDataOptions
from serving.exported import answering, input_rows
from serving.options import PredictOptions
from tests.serving.exported.fake_models import FakeModel, answers, options

TEXTS = [
    'Er sagte: "Nein, danke"\nund ging.',
    "東京は、日本の首都です。",
    "plain",
    "Straße, über alles",
    "ガラス\tと紙",
]
LABELS = ["neg", "pos", "neg", "pos", "neg"]


def write(
    path, ending, header=("id", "text", "label"), newline="\n", bom=False
):
    rows = [
        dict(zip(("id", "text", "label"), (f"k{i}", t, y), strict=True))
        for i, (t, y) in enumerate(zip(TEXTS, LABELS, strict=True))
    ]
    if ending == "jsonl":
        lines = [json.dumps({n: r[n] for n in header}) for r in rows]
        content = newline.join(lines) + newline
    elif ending == "csv":
        out = io.StringIO()
        writer = csv.writer(out, lineterminator=newline)
        writer.writerow(header)
        writer.writerows([[r[n] for n in header] for r in rows])
        content = out.getvalue()
    else:
        clean = str.maketrans("\t\n", "  ")
        lines = ["\t".join(header)]
        lines += [
            "\t".join(r[n].translate(clean) for n in header) for r in rows
        ]
        content = newline.join(lines) + newline
    data = (b"\xef\xbb\xbf" if bom else b"") + content.encode()
    if path.suffix == ".gz":
        data = gzip.compress(data)
    path.write_bytes(data)


def model(**data_options):
    fake = FakeModel()
    fake.description = {"labels": ["neg", "pos"], "data_options": data_options}
    return fake


def rows(path, fake=None, **changes):
    fake = fake or model()
    asked = PredictOptions("model", input_file=str(path), **changes)
    return list(input_rows.read_rows(fake.inputs(), fake.description, asked))


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("bom", [False, True])
@pytest.mark.parametrize("name", ["in.csv", "in.tsv", "in.jsonl", "in.csv.gz"])
def test_the_texts_are_those_of_fine_tuning(tmp_path, name, bom, newline):
    path = tmp_path / name
    write(path, name.split(".")[1], newline=newline, bom=bom)
    wanted = classifier_sources.read_table(
        str(path),
        ClassifierDataOptions("tsv", "d"),
        BadRows(),
        {"neg": 0, "pos": 1},
        True,
    )
    found = rows(path)
    assert [r.inputs["text"] for r in found] == [e.texts[0] for e in wanted]
    assert [r.where for r in found] == [e.where for e in wanted]
    assert [r.known["true_label"] for r in found] == LABELS
    assert [r.known["key"] for r in found] == [f"k{i}" for i in range(5)]
    if "tsv" not in name:
        assert found[0].inputs["text"] == TEXTS[0]


def test_answers_carry_key_row_and_label(tmp_path):
    write(tmp_path / "in.csv", "csv", ("label", "text"))
    answering.predict_file(model(), options(tmp_path, "in.csv"))
    assert answers(tmp_path) == [
        {"row": i, "true_label": y, "length": len(t)}
        for i, (t, y) in enumerate(zip(TEXTS, LABELS, strict=True))
    ]
    # Half way: the same rows are skipped, header and all.
    (tmp_path / "out.jsonl").unlink()
    write(tmp_path / "in.tsv", "tsv")

    class Stopping(FakeModel):
        def __call__(self, inputs):
            if self.calls:
                raise KeyboardInterrupt
            return super().__call__(inputs)

    with pytest.raises(KeyboardInterrupt):
        answering.predict_file(Stopping(), options(tmp_path, "in.tsv"))
    assert answering.predict_file(model(), options(tmp_path, "in.tsv")) == 2
    assert [a["key"] for a in answers(tmp_path)] == [f"k{i}" for i in range(5)]


def test_columns_of_training(tmp_path):
    (tmp_path / "in.csv").write_text("when,frage,art\n2020,wo?,x\n")
    trained = model(
        text_columns=["frage"],
        label_column="art",
        columns=["when", "frage", "art"],
    )
    (row,) = rows(tmp_path / "in.csv", trained)
    assert row.inputs == {"text": "wo?"}
    assert row.known == {"row": 0, "true_label": "x"}
    # A column that training did not have is refused, unless texts are named.
    (tmp_path / "in.csv").write_text("frage,art,ort\nwo?,x,hier\n")
    with pytest.raises(UserError, match=r"columns \['ort'\] are no text"):
        rows(tmp_path / "in.csv", trained)
    (row,) = rows(tmp_path / "in.csv", trained, text_columns=("frage",))
    assert row.inputs == {"text": "wo?"}
    (tmp_path / "in.jsonl").write_text('{"frage": "wo?", "ort": "hier"}\n')
    with pytest.raises(UserError, match=r"columns \['ort'\] are no text"):
        rows(tmp_path / "in.jsonl", trained)
    with pytest.raises(UserError, match="wanted the column 'nr'"):
        rows(tmp_path / "in.csv", trained, key_column="nr")


def test_columns_without_a_name_may_be_several(tmp_path):
    """Spreadsheets write them behind the last one, and training reads them."""
    columns = ["text", "label", "", ""]
    fake = model(columns=columns, text_columns=["text"], label_column="label")
    path = tmp_path / "in.csv"
    path.write_text("text,label,,\na b,pos,,\n")
    (found,) = rows(path, fake)
    assert (found.inputs, found.known["true_label"]) == ({"text": "a b"}, "pos")
    for header in ("text,label,text,", "text,label,label,", "id,text,id,label"):
        path.write_text(f"{header}\na,b,c,d\n")
        with pytest.raises(UserError, match="once each, found"):
            rows(path, fake, text_columns=("text",))


def test_a_header_with_another_sign_is_no_text(tmp_path):
    path = tmp_path / "in.csv"
    path.write_text("text;label\na b;pos\n")
    with pytest.raises(UserError, match="in.csv:1: .*';' seems to separate"):
        rows(path)
    assert [r.inputs["text"] for r in rows(path, has_header=False)] == [
        "text;label",
        "a b;pos",
    ]


def test_files_without_a_header(tmp_path):
    path = tmp_path / "in.tsv"
    path.write_text("eins\nzwei\n")
    assert [r.inputs["text"] for r in rows(path)] == ["eins", "zwei"]
    path.write_text("pos\teins\nneg\tzwei\n")
    with pytest.raises(UserError, match="wanted 1 columns .* found 2 columns"):
        rows(path)
    trained = model(text_columns=["1"], label_column="0", columns=["0", "1"])
    found = rows(path, trained)
    assert [r.inputs["text"] for r in found] == ["eins", "zwei"]
    assert [r.known["true_label"] for r in found] == ["pos", "neg"]
    # "text" as the first text of a headerless file.
    path.write_text("text\nzwei\n")
    assert len(rows(path)) == 1
    assert len(rows(path, has_header=False)) == 2


@pytest.mark.parametrize("given", [{}, {"text_columns": ("1",)}])
def test_a_label_like_a_number_of_a_column_makes_no_header(tmp_path, given):
    """The first row had column 1, the text's, in its label."""
    trained = model(text_columns=["1"], label_column="0", columns=["0", "1"])
    path = tmp_path / "in.csv"
    path.write_text("1,a great film\n0,a bad one\n")
    found = rows(path, trained, **given)
    texts = [row.inputs["text"] for row in found]
    assert texts == ["a great film", "a bad one"]
    assert [row.known["true_label"] for row in found] == ["1", "0"]
    # pandas writes so the names of columns that have none.
    path.write_text("0,1\n1,a great film\n")
    (row,) = rows(path, trained, **given)
    assert row.inputs == {"text": "a great film"}


def test_official_topic_sets(tmp_path):
    (tmp_path / "in.csv").write_text('"3","Oil up","Prices\\rise, ""again"""\n')
    fake = model()
    fake.description["task"] = "ag"
    (row,) = rows(tmp_path / "in.csv", fake)
    (wanted,) = classifier_sources.read_topic_csv(
        str(tmp_path / "in.csv"), {"3": 0}, BadRows(), 2, "bare"
    )
    assert row.inputs["text"] == wanted.texts[0]
    assert row.known == {"row": 0, "true_label": "3"}


@pytest.mark.parametrize(
    "task, label", [("trec", "NUM"), ("trec-fine", "NUM:d")]
)
def test_trec_files_have_their_classes_before_the_text(tmp_path, task, label):
    """A model that was trained with them read `NUM:d` as words of the text."""
    path = tmp_path / "TREC_10.label"
    path.write_bytes(b"NUM:d How far ?\nbroken\nLOC:o Where is caf\xe9 ?\n")
    fake = model()
    fake.description["task"] = task
    first, broken, last = rows(path, fake)
    assert first.inputs == {"text": "How far ?"}
    assert first.known == {"row": 0, "true_label": label}
    assert "wanted `LABEL:fine text`, found 'broken'" in broken.problem
    assert last.inputs == {"text": "Where is café ?"}
    # Of other models' files the ending says nothing.
    assert rows(path)[0].inputs == {"text": "NUM:d How far ?"}


def test_bad_rows_keep_their_places(tmp_path):
    lines = ["id,text", "a,one", "b", "c,three", 'd,"x"y', "e,five"]
    (tmp_path / "in.csv").write_text("\n".join(lines) + "\n")
    with pytest.raises(UserError, match="in.csv:3: wanted 2 columns, found 1"):
        answering.predict_file(FakeModel(), options(tmp_path, "in.csv"))
    for left in tmp_path.glob("out*"):
        left.unlink()
    answering.predict_file(
        FakeModel(), options(tmp_path, "in.csv", skip_bad_rows=True)
    )
    found = answers(tmp_path)
    assert [a.get("key", a.get("row")) for a in found] == ["a", 1, "c", 3, "e"]
    assert ["error" in a for a in found] == [False, True, False, True, False]


def test_empty_files_and_blank_texts(tmp_path):
    for name in ("in.txt", "in.csv", "in.tsv", "in.jsonl"):
        (tmp_path / name).write_bytes(b"")
        with pytest.raises(UserError, match=f"{name}:1: the file holds no row"):
            rows(tmp_path / name)
    (tmp_path / "in.csv").write_text("text_a,text_b\nsome,\n")
    fake = FakeModel("text_a", "text_b")
    with pytest.raises(UserError, match="text_b: the text is empty"):
        answering.predict_file(
            fake, options(tmp_path, "in.csv", output_file="")
        )
    fake.description = {
        "labels": [],
        "data_options": {"allow_empty_text": True},
    }
    answering.predict_file(
        fake, options(tmp_path, "in.csv", output_file=str(tmp_path / "b.jsonl"))
    )
    assert answers(tmp_path, "b.jsonl") == [{"row": 0, "length": 4}]


def test_plain_text_stays_one_text_per_line(tmp_path):
    content = '\ufeff"quoted", text\tx\ntext,label\n'
    (tmp_path / "in.txt").write_text(content, newline="\r\n")
    found = [r.inputs["text"] for r in rows(tmp_path / "in.txt")]
    assert found == ['"quoted", text\tx', "text,label"]


TEXT, LIST = ({"dtype": "string", "shape": [None] * n} for n in (1, 2))


def read(path, inputs, **changes):
    """Rows of a model whose inputs are sorted as `signature.json` has them."""
    asked = PredictOptions("model", input_file=str(path), **changes)
    return list(input_rows.read_rows(dict(sorted(inputs.items())), {}, asked))


@pytest.mark.parametrize("ending", ["txt", "tsv"])
@pytest.mark.parametrize(
    ("inputs", "cells", "wanted"),
    [
        (
            {"question": TEXT, "paragraph": TEXT},
            ["Who?", "She did."],
            {"question": "Who?", "paragraph": "She did."},
        ),
        (
            {"passage": TEXT, "question": TEXT, "options": LIST},
            ["So.", "Who?", "he", "she"],
            {"passage": "So.", "question": "Who?", "options": ["he", "she"]},
        ),
        (
            {"query": TEXT, "documents": LIST},
            ["who", "one", "two"],
            {"query": "who", "documents": ["one", "two"]},
        ),
        (
            {"text_b": TEXT, "text_a": TEXT},
            ["one", "two"],
            {"text_a": "one", "text_b": "two"},
        ),
    ],
)
def test_columns_go_to_inputs_in_the_order_of_the_head(
    tmp_path, ending, inputs, cells, wanted
):
    path = tmp_path / f"in.{ending}"
    path.write_text("\t".join(cells) + "\n")
    (row,) = read(path, inputs)
    assert row.inputs == wanted
    row = input_rows.from_text(
        dict(sorted(inputs.items())),
        {},
        PredictOptions("model", text=("x",)),
        "--text",
        "\t".join(cells),
    )
    assert row.inputs == wanted


def test_columns_hold_one_list(tmp_path):
    scores = {"dtype": "float32", "shape": [None, None]}
    inputs = {"query": TEXT, "documents": LIST, "candidate_scores": scores}
    for name in ("in.txt", "in.csv"):
        (tmp_path / name).write_text("who,one,2\n".replace(",", "\t"))
        with pytest.raises(UserError, match="query, documents, candidate_sco"):
            read(tmp_path / name, inputs)
    row = {"query": "who", "documents": ["one"], "candidate_scores": [2.0]}
    (tmp_path / "in.jsonl").write_text(json.dumps(row))
    assert read(tmp_path / "in.jsonl", inputs)[0].inputs == row


PAIR = {"text_a": TEXT, "text_b": TEXT}


def test_columns_are_numbers_without_a_header(tmp_path):
    path = tmp_path / "in.csv"
    path.write_text("k1,one,two,y\n")
    numbers = {"text_columns": ("2", "1"), "label_column": "3"}
    (row,) = read(path, PAIR, key_column="0", **numbers)
    assert row.inputs == {"text_a": "two", "text_b": "one"}
    assert row.known == {"key": "k1", "true_label": "y"}
    for wrong, message in (
        ({"text_columns": ("hypothesis", "premise")}, "found 'hypothesis'"),
        ({"text_columns": ("1", "4")}, "--text_columns: .* 0 to 3.*'4'"),
        (numbers | {"label_column": "9"}, "--label_column: .*found '9'"),
        (numbers | {"label_column": "y"}, "--label_column: .*found 'y'"),
        (numbers | {"key_column": "-1"}, "--key_column: .*found '-1'"),
        (numbers | {"key_column": "2"}, "--key_column=2: .*a text already"),
    ):
        with pytest.raises(UserError, match=f"in.csv:1: .*{message}"):
            read(path, PAIR, **wrong)


@pytest.mark.parametrize(
    "given",
    [
        {"text_columns": ("1", "0")},
        {"label_column": "y"},
        {"key_column": "id"},
        {"has_header": True},
    ],
)
def test_plain_text_has_no_columns_to_choose(tmp_path, given):
    (name,) = given
    (tmp_path / "in.txt").write_text("one\ttwo\n")
    with pytest.raises(UserError, match=f"in.txt: --{name} is for .csv"):
        read(tmp_path / "in.txt", PAIR, **given)
    asked = PredictOptions("model", text=("x",), **given)
    with pytest.raises(UserError, match=f"--text: --{name} is for .csv"):
        input_rows.from_text(PAIR, {}, asked, "--text", "one\ttwo")
    assert len(read(tmp_path / "in.txt", PAIR, has_header=False)) == 1


def test_json_lines_have_no_header(tmp_path):
    (tmp_path / "in.jsonl").write_text('{"text": "a"}\n')
    wanted = "in.jsonl: --has_header is for .csv and .tsv files, found JSON"
    with pytest.raises(UserError, match=wanted):
        rows(tmp_path / "in.jsonl", has_header=True)
    assert len(rows(tmp_path / "in.jsonl", has_header=False)) == 1


@pytest.mark.parametrize("empty", [False, True])
def test_a_key_in_other_case_is_that_text(tmp_path, empty):
    path = tmp_path / "in.jsonl"
    trained = FakeModel("text_a", "text_b")
    trained.description = {
        "data_options": {
            "allow_empty_text": empty,
            "columns": ["text_a", "text_b", "label"],
            "text_columns": ["text_a", "text_b"],
        }
    }
    path.write_text('{"text_a": "x", "Text_B": "y"}\n')
    assert rows(path, trained)[0].inputs == {"text_a": "x", "text_b": "y"}
    path.write_text('{"text_a": "x", "text_b": "y", "Text_B": "z"}\n')
    with pytest.raises(UserError, match=r"columns \['Text_B'\] are no text"):
        rows(path, trained)
    path.write_text('{"text_a": "x", "Text_B": null}\n{"text_a": "x"}\n')
    if empty:
        found = [row.inputs for row in rows(path, trained)]
        assert found == [{"text_a": "x", "text_b": ""}] * 2


def test_a_header_of_other_names_is_no_row(tmp_path):
    """It was answered as the first row, and all others were one too late."""
    fake = FakeModel("text_a", "text_b")
    columns = {"text_columns": ["question", "sentence"]}
    fake.description = {"labels": [], "data_options": columns}
    path = tmp_path / "in.csv"
    for header in ("premise,hypothesis", "id,Sentence", "Text 1,label"):
        path.write_text(f"{header}\none,two\n")
        with pytest.raises(UserError, match="csv:1: .* not the texts question"):
            rows(path, fake)
        assert len(rows(path, fake, has_header=False)) == 2
    path.write_text("premise,hypothesis\none,two\n")
    (row,) = rows(path, fake, text_columns=("premise", "hypothesis"))
    assert row.inputs == {"text_a": "one", "text_b": "two"}
    path.write_text("question,was it?\none,two\n")
    assert len(rows(path, fake)) == 2


def test_what_answers_repeat_is_json(tmp_path):
    path = tmp_path / "in.jsonl"
    path.write_text('{"text": "a", "id": NaN, "label": 1e400}\n')
    (row,) = rows(path)
    assert row.known == {"key": None, "true_label": None}
