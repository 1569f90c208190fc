"""GLUE layouts: columns, label orders, splits, submissions."""

import numpy as np
import pytest

from common.contract import symbols
from common.errors import UserError
from data.finetuning.classifier import glue as glue_tasks
from data.finetuning.classifier import reports
from data.finetuning.classifier import sets as classifier_sets
from data.finetuning.examples import BadRows
from data.finetuning.options import ClassifierDataOptions

ROWS = {
    "cola": ("gj04\t1\t\tA b.\n", ("A b.",), "1"),
    "sst-2": ("sentence\tlabel\nA b \t0\n", ("A b ",), "0"),
    "mrpc": (
        '\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t7\t8\tA\t"B\n',
        ("A", '"B'),
        "1",
    ),
    "sts-b": (
        "index\tgenre\tsentence1\tsentence2\tscore\n0\tg\tA\tB\t3.75\n",
        ("A", "B"),
        3.75,
    ),
    "qqp": (
        "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n0\t1\t2\tA\tB\t1\n",
        ("A", "B"),
        "1",
    ),
    "mnli": (
        "index\tsentence1\tsentence2\tlabel1\tgold_label\n0\tA\tB\tx\tneutral\n",
        ("A", "B"),
        "neutral",
    ),
    "qnli": (
        "index\tquestion\tsentence\tlabel\n0\tA\tB\tentailment\n",
        ("A", "B"),
        "entailment",
    ),
    "rte": (
        "index\tsentence1\tsentence2\tlabel\n0\tA\tB\tnot_entailment\n",
        ("A", "B"),
        "not_entailment",
    ),
    "wnli": (
        "index\tsentence1\tsentence2\tlabel\n0\tA\tB\t0\n",
        ("A", "B"),
        "0",
    ),
}


def build(name, folder):
    return classifier_sets.open_set(ClassifierDataOptions(name, str(folder)))


@pytest.mark.parametrize("name", glue_tasks.GLUE)
def test_train_layout_of_every_task(tmp_path, name):
    content, texts, label = ROWS[name]
    (tmp_path / "train.tsv").write_text(content)
    task = build(name.upper(), tmp_path)
    examples = task.read("train", BadRows())
    assert [(e.texts, e.label) for e in examples] == [(texts, label)]
    assert (task.head == "regression") == (name == "sts-b")


def test_folders_of_the_task_name_and_mnli_splits(tmp_path):
    folder = tmp_path / "MNLI"
    folder.mkdir()
    header = "index\tsentence1\tsentence2\tgold_label\n"
    row = "5\tA\tB\tcontradiction\n"
    for name in ("train", "dev_matched", "dev_mismatched"):
        (folder / f"{name}.tsv").write_text(header + row)
    (folder / "test_mismatched.tsv").write_text(
        "index\tsentence1\tsentence2\n7\tA\tB\n"
    )
    task = build("mnli", tmp_path)
    assert task.eval_splits() == ("dev", "dev_mismatched")
    assert task.predict_splits() == ("test_mismatched",)
    examples = task.read("test_mismatched", BadRows(), with_labels=False)
    assert (examples[0].guid, examples[0].label) == ("7", None)
    glue = glue_tasks.GLUE["mnli"]
    assert glue_tasks.submission_name(glue, "test_mismatched") == "MNLI-mm.tsv"
    assert (
        glue_tasks.submission_name(glue_tasks.GLUE["cola"], "test")
        == "CoLA.tsv"
    )


def test_missing_files_and_columns_say_what_is_wanted(tmp_path):
    with pytest.raises(UserError, match="holds none of train.tsv"):
        build("rte", tmp_path).read("train", BadRows())
    (tmp_path / "train.tsv").write_text("index\tsentence1\tlabel\n")
    with pytest.raises(UserError, match=r"train\.tsv:1: wanted the columns"):
        build("rte", tmp_path).read("train", BadRows())
    with pytest.raises(UserError, match="unknown --task_name 'nope'"):
        build("nope", tmp_path)


@pytest.mark.long
@pytest.mark.shared
@pytest.mark.parametrize(
    "name, rows",
    [("CoLA", None), ("SST-2", None), ("MRPC", None), ("STS-B", None),
     ("QQP", None), ("MNLI", None), ("QNLI", None), ("RTE", None),
     ("WNLI", None)],
)  # fmt: skip
def test_shared_cuts_are_read_whole(shared, name, rows):
    manifest = (shared / "data" / "MANIFEST.tsv").read_text().splitlines()
    task = build(name, shared / "data" / "glue")
    for split in ("train", *task.eval_splits()):
        examples = task.read(split, BadRows())
        stem = (
            {"dev": "dev_matched"}.get(split, split)
            if name == "MNLI"
            else split
        )
        line = next(
            m for m in manifest if m.startswith(f"glue/{name}/{stem}.tsv")
        )
        assert len(examples) == int(line.split("\t")[1].split()[0])
        assert task.label_array(examples) is not None


def test_every_id_of_a_test_set_is_in_the_submission(tmp_path):
    rows = [
        b"10\tA b\tC",
        b"11\t\tC",  # an empty question, as QQP's test set has
        b"12\tA",  # an empty last field whose tab an editor cut
        b"13\tna\xefve\tC",
        b"14\tA\tC\textra",
    ]
    header = b"id\tquestion1\tquestion2"
    (tmp_path / "test.tsv").write_bytes(b"\n".join([header, *rows]) + b"\n")
    task = build("qqp", tmp_path)
    bad = BadRows()
    examples = task.read("test", bad, with_labels=False)
    assert [e.texts for e in examples] == [
        ("A b", "C"),
        ("", "C"),
        ("A", ""),
        ("na\ufffdve", "C"),
        ("A", "C"),
    ]
    ids = symbols.SymbolIds()
    pieces = [[[9] * len(t) for t in e.texts] for e in examples]
    assert len(task.table(examples, pieces, 16, ids).lengths()) == 5
    logits = np.eye(5, 2)
    written = reports.submission_rows(task, examples, logits)
    assert [r[0] for r in written[1:]] == ["10", "11", "12", "13", "14"]
    assert bad.count == 0
    assert "4 rows are used as they are" in bad.summary()
    assert "test.tsv:3: the column 'question1' is empty" in bad.summary()
    assert "test.tsv:4: wanted 3 columns, found 2" in bad.summary()
    assert "test.tsv:5: bytes that are no UTF-8" in bad.summary()


@pytest.mark.parametrize(
    "name, content",
    [
        ("mrpc", ROWS["mrpc"][0] + "0\t2\t3\tC\tD\n"),  # Microsoft's own
        ("sst-2", "sentence\tlabel\nA\t1\nB\t0\n"),  # a dev file
    ],
)
def test_rows_without_an_id_are_counted(tmp_path, name, content):
    (tmp_path / "test.tsv").write_text(content)
    examples = build(name, tmp_path).read("test", BadRows(), False)
    assert [(e.guid, e.label) for e in examples] == [("0", None), ("1", None)]


def test_labelled_splits_still_refuse_an_empty_text(tmp_path):
    (tmp_path / "dev.tsv").write_text("sentence\tlabel\n \t1\n")
    with pytest.raises(UserError, match=r"dev\.tsv:2: the column 'sentence'"):
        build("sst-2", tmp_path).read("dev", BadRows())
    (tmp_path / "test.tsv").write_text("index\tsentence\n\n1\ta\n\n\n")
    with pytest.raises(UserError, match=r"test\.tsv:2: no id in the column"):
        build("sst-2", tmp_path).read("test", BadRows(), False)
    # Blank lines at the end are no rows.
    (tmp_path / "test.tsv").write_text("index\tsentence\n1\ta\n\n\n")
    (found,) = build("sst-2", tmp_path).read("test", BadRows(), False)
    assert found.guid == "1"


def test_the_diagnostic_set_lies_beside_the_folder(tmp_path, monkeypatch):
    folder, path = tmp_path / "MNLI", tmp_path / "AX" / "AX.tsv"
    for made in (folder, path.parent):
        made.mkdir()
    path.write_text("index\tsentence1\tsentence2\n0\ta\tb\n")
    monkeypatch.chdir(folder)
    for data_dir in (".", "./", str(folder), "../MNLI"):
        found = glue_tasks.split_path(glue_tasks.GLUE["mnli"], data_dir, "ax")
        assert found == str(path)
