"""Which columns of a table are taken, by training and by prediction."""

import json
import re

import numpy as np
import pytest

from common.errors import UserError
from data.finetuning.classifier import reports
from data.finetuning.classifier import sets as classifier_sets
from data.finetuning.classifier import sources as classifier_sources
from data.finetuning.examples import BadRows
from data.finetuning.options import ClassifierDataOptions
from data.finetuning.tables import table_columns
from serving.exported import answering
from tests.serving.exported.fake_models import FakeModel, answers, options


def read(path, text, skip=False, **kwargs):
    path.write_text(text)
    bad = BadRows(skip)
    found = classifier_sources.read_table(
        str(path), ClassifierDataOptions("tsv", "d", **kwargs), bad, None, True
    )
    return found, bad


def test_two_columns_that_may_be_the_label_are_refused(tmp_path):
    path = tmp_path / "a.csv"
    text = "text,score,class\ngood,0.9,pos\nbad,0.8,neg\n"
    with pytest.raises(UserError, match="found score and class: name it with"):
        read(path, text)
    found, bad = read(path, text, label_column="class")
    assert [e.label for e in found] == ["pos", "neg"]
    assert bad.summary() == f"{path}: columns taken: text text; label class"


@pytest.mark.parametrize(
    "name, sign", [("a.csv", ";"), ("a.csv", "\t"), ("a.tsv", ",")]
)
def test_another_sign_between_columns_is_named(tmp_path, name, sign):
    text = f"text{sign}label\na, b{sign}x\n"
    wanted = re.escape(f"{sign!r} seems to separate them: write the table")
    with pytest.raises(UserError, match=wanted):
        read(tmp_path / name, text, skip=True)
    with pytest.raises(UserError, match="'body'.; name them with --text_col"):
        read(tmp_path / name, "body\na\n")


@pytest.mark.parametrize("has_header", [True, False])
def test_one_line_that_is_too_long_is_no_empty_file(
    tmp_path, monkeypatch, has_header
):
    monkeypatch.setattr(table_columns.table_files, "MAX_LINE_BYTES", 1 << 20)
    path = tmp_path / "a.tsv"
    asked = ClassifierDataOptions("tsv", "d", has_header=has_header)
    path.write_text("a" * ((1 << 20) + 9))
    with pytest.raises(UserError, match=r"a\.tsv:1: line of more than 1 MiB"):
        table_columns.read_columns(str(path), asked)
    path.write_text("")
    with pytest.raises(UserError, match=r"a\.tsv:1: the file is empty"):
        table_columns.read_columns(str(path), asked)


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_the_label_is_no_text(tmp_path, ending):
    rows = {
        "csv": "text,Label\na,x\n",
        "jsonl": '{"text": "a", "Label": "x"}\n',
    }
    path = tmp_path / f"a.{ending}"
    names = {"text_columns": ("text", "Label"), "label_column": "label"}
    with pytest.raises(UserError, match=r"a.\w+:1: 'Label' is the label's col"):
        read(path, rows[ending], **names)
    found, _ = read(path, rows[ending], **names | {"text_columns": ("text",)})
    assert found[0].texts == ("a",)


def test_names_count_without_case(tmp_path):
    for label in ("Label", "CLASS", "Gold_Label"):
        path = tmp_path / "a.csv"
        found, bad = read(path, f"Text,{label}\na,x\n")
        assert (found[0].texts, found[0].label) == (("a",), "x")
        assert bad.said == [f"{path}: columns taken: text Text; label {label}"]
    # Names that are given, too; as they stand first.
    rows = "BODY,Body,Y\na,b,x\n"
    found, _ = read(path, rows, text_columns=("Body",), label_column="y")
    assert found[0].texts == ("b",)
    with pytest.raises(UserError, match=r"wanted \['body'\] for text"):
        read(path, rows, text_columns=("body",), label_column="y")
    with pytest.raises(UserError, match=r"wanted \['label'\]"):
        read(path, "Text,Art\na,x\n")


def test_keys_of_all_objects_count_not_those_of_the_first(tmp_path):
    """A first object without its second text, as writers leave out nulls."""
    rows = [
        {"text_a": "one", "label": "x"},
        {"id": 7, "text_a": "two", "text_b": "more", "label": "y"},
        {"label": "x", "text_b": "b", "text_a": "a", "note": None},
    ]
    path = tmp_path / "a.jsonl"
    text = "\n".join(map(json.dumps, rows)) + "\n"
    with pytest.raises(
        UserError, match=r"a.jsonl:1: .* none under 'text_b' \(--allow_empty"
    ):
        read(path, text)
    found, bad = read(path, text, skip=True)
    assert [e.texts for e in found] == [("two", "more"), ("a", "b")]
    assert [e.guid for e in found] == ["7", "2"] and bad.count == 1
    found, _ = read(path, text, allow_empty_text=True)
    assert [e.texts for e in found][0] == ("one", "")
    columns = table_columns.read_columns(
        str(path), ClassifierDataOptions("tsv", "d")
    )
    assert columns.texts == ("text_a", "text_b")
    assert columns.names == ("id", "text_a", "text_b", "label", "note")
    # The same name with another content is read again.
    found, _ = read(path, '{"Text": "a", "Label": "x"}\n')
    assert found[0].texts == ("a",)


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl"])
def test_ids_and_numbers_are_those_of_the_input(tmp_path, ending):
    """With --skip_bad_rows no row takes the number of another."""
    rows = [("k0", "a", "x"), ("k1", "", "x"), ("k2", "c", "?"), ("", "d", "y")]
    task = None
    for names in (("ID", "text", "label"), ("nr", "text", "label")):
        if ending == "jsonl":
            lines = [json.dumps(dict(zip(names, r, strict=True))) for r in rows]
        else:
            separator = {"csv": ",", "tsv": "\t"}[ending]
            lines = [separator.join(r) for r in (names, *rows)]
        for split in ("train", "test"):
            (tmp_path / f"{split}.{ending}").write_text("\n".join(lines) + "\n")
        task = classifier_sets.open_set(
            ClassifierDataOptions(ending, str(tmp_path), labels=("x", "y"))
        )
        found = task.read("train", BadRows(skip=True))
        wanted = ["k0", "3"] if names[0] == "ID" else ["0", "3"]
        assert [e.guid for e in found] == wanted
        found = task.read("test", BadRows(skip=True), with_labels=False)
        written = reports.prediction_rows(task, found, np.eye(3, 2))
        wanted = ["k0", "k2", "3"] if names[0] == "ID" else ["0", "2", "3"]
        assert [r[0] for r in written] == ["guid", *wanted]


def test_official_sets_keep_their_numbers(tmp_path):
    bad = BadRows(skip=True)
    path = tmp_path / "t.csv"
    path.write_text('"1","a"\n"9","b"\n"2"\n"2","d"\n')
    found = classifier_sources.read_topic_csv(
        str(path), {"1": 0, "2": 1}, bad, 1, "readme"
    )
    assert [e.guid for e in found] == ["0", "3"]
    path.write_text("A:b one\nnothing\nA:c two\n")
    found = classifier_sources.read_trec(str(path), bad, None, False, True)
    assert [e.guid for e in found] == ["0", "2"]
    path = tmp_path / "dev.tsv"
    path.write_text("sentence\tlabel\na\t1\n\t1\nc\t0\n")
    task = classifier_sets.open_set(
        ClassifierDataOptions("sst-2", str(tmp_path))
    )
    assert [e.guid for e in task.read("dev", bad)] == ["0", "2"]


def predicted(tmp_path, name, text, model=None, **changes):
    (tmp_path / name).write_text(text)
    for left in tmp_path.glob("out.jsonl*"):
        left.unlink()
    answering.predict_file(
        model or FakeModel(), options(tmp_path, name, **changes)
    )
    return answers(tmp_path)


def test_predictions_say_what_they_take(tmp_path, capsys):
    text = "Text,Label,ID\na,x,k\nb,y,l\n"
    found = predicted(tmp_path, "in.csv", text)
    assert [(a["key"], a["true_label"]) for a in found] == [
        ("k", "x"),
        ("l", "y"),
    ]
    said = capsys.readouterr().err
    line = "in.csv: columns taken: text Text; label Label; id ID\n"
    assert said.count(line) == 1
    with pytest.raises(UserError, match="found score and class: name it"):
        predicted(tmp_path, "two.csv", "text,score,class\na,1,x\n")
    found = predicted(
        tmp_path,
        "two.csv",
        "text,score,class\na,1,x\n",
        text_columns=("text",),
        label_column="class",
    )
    assert found == [{"row": 0, "true_label": "x", "length": 1}]


def test_a_header_in_another_case_is_no_row(tmp_path):
    found = predicted(tmp_path, "in.csv", "Text\none\n")
    assert found == [{"row": 0, "length": 3}]


def test_json_files_are_read_as_in_training(tmp_path):
    """`.json` is JSON lines for the classifier, and no text per line."""
    found = predicted(tmp_path, "in.json", '{"text": "abc", "label": "x"}\n')
    assert found == [{"row": 0, "true_label": "x", "length": 3}]
    found = predicted(tmp_path, "IN.CSV", 'text\n"a,b"\n')
    assert found == [{"row": 0, "length": 3}]


def test_a_missing_second_text_is_empty_where_training_allowed_it(tmp_path):
    model = FakeModel("text_a", "text_b")
    data = {"text_columns": ["a", "b"], "allow_empty_text": True}
    model.description = {"labels": [], "data_options": data}
    text = '{"a": "abc"}\n{"a": "de", "b": null}\n'
    found = predicted(tmp_path, "in.jsonl", text, model)
    assert [a["length"] for a in found] == [3, 2]


def test_tagged_tokens_are_no_texts(tmp_path):
    with pytest.raises(UserError, match="which a tagger reads"):
        predicted(tmp_path, "in.conllu", "1\tAda\n")


@pytest.mark.parametrize(
    ("fields", "names"),
    [
        (["text"], True),
        ([" Premise ", "hypothesis"], True),
        (["id", "sentence_2", "gold_label"], True),
        (["id", "label"], False),
        (["text", "other"], False),
        (["text", "kind"], True),
        (["Label;QUESTION"], True),
        (["id\ttext\tkind"], True),
        (["text, or no text"], False),
        (["kind;label"], False),
        ([""], False),
        ([], False),
    ],
)
def test_rows_of_names(fields, names):
    wanted = ("question", "sentence")
    if not names:
        table_columns.refuse_names("a.csv:1", fields, wanted, ["kind"])
        return
    with pytest.raises(
        UserError, match="a.csv:1: .* texts question, sentence"
    ) as found:
        table_columns.refuse_names("a.csv:1", fields, wanted, ["kind"])
    one_field = ";" in fields[0] or "\t" in fields[0]
    assert ("seems to separate them" in str(found.value)) == one_field
