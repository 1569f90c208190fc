"""Tasks by name: labels, splits, metrics."""

import numpy as np
import pytest
import tensorflow as tf

from common.errors import UserError
from data.finetuning.classifier import sets as classifier_sets
from data.finetuning.examples import BadRows
from data.finetuning.options import ClassifierDataOptions


def build(name, folder="", **kwargs):
    options = ClassifierDataOptions(name, str(folder), **kwargs)
    return classifier_sets.open_set(options)


@pytest.mark.parametrize(
    "name, canonical, classes",
    [
        ("MNLI", "mnli", 3),
        ("SST2", "sst-2", 2),
        ("stsb", "sts-b", 0),
        ("IMDB", "imdb", 2),
        ("Yelp-5", "yelp-5", 5),
        ("yelp2", "yelp-2", 2),
        ("DBpedia", "dbpedia", 14),
        ("AG_News", "ag", 4),
        ("amazon-2", "amazon-2", 2),
        ("Amazon5", "amazon-5", 5),
    ],
)
def test_names_in_any_case(name, canonical, classes):
    task = build(name)
    assert (task.name, len(task.labels)) == (canonical, classes)


def test_a_file_without_labels_says_why(tmp_path):
    path = tmp_path / "train.jsonl"
    path.write_text('{"text": "a", "label": ["x"]}\n')
    with pytest.raises(
        UserError, match=r"labels \(.*l:1: a list .*--multi_lab"
    ):
        build("jsonl", tmp_path)
    path.write_text('{"text": "a", "label": []}\n')
    with pytest.raises(
        UserError, match=r"labels \(all are empty\); correct .* check"
    ):
        build("jsonl", tmp_path, head="multi_label")


@pytest.mark.parametrize("name", ["trec", "trec-fine", "imdb", "ag", "mrpc"])
def test_a_set_has_its_own_head(tmp_path, name):
    for head in ("regression", "multi_label"):
        with pytest.raises(UserError, match=f"{name} is classif.*, not {head}"):
            build(name, tmp_path, head=head)
    assert build("sts-b", head="regression").head == "regression"
    with pytest.raises(UserError, match="sts-b is regression, not multi_label"):
        build("sts-b", head="multi_label")


def test_trec_as_a_table_has_any_head(tmp_path):
    (tmp_path / "train.tsv").write_text("text\tlabel\na\tx|y\nb\t\n")
    task = build("trec", tmp_path, head="multi_label")
    assert (task.name, task.labels) == ("tsv", ("x", "y"))


def test_errors_in_per_cent_where_the_paper_has_them():
    """Table 3's sets; no checkpoint is picked by the largest error."""
    logits = np.eye(4)[[0, 1, 2, 2]]
    labels = np.array([0, 1, 2, 3])
    found = build("ag").evaluate(logits, labels)
    assert found == {"accuracy": 0.75, "error_rate": 25.0}
    assert "error_rate" not in build("ag").possible_metrics
    assert "error_rate" not in build("mnli").evaluate(logits[:, :3], labels % 3)


def test_labels_of_a_table_are_sorted_as_numbers_where_they_are(tmp_path):
    rows = "text\tlabel\n" + "".join(f"a\t{n}\n" for n in (10.0, 2.5, -1.0))
    (tmp_path / "train.tsv").write_text(rows)
    assert build("tsv", tmp_path).labels == ("-1.0", "2.5", "10.0")
    rows = "text\tlabel\n" + "".join(f"a\t{n}\n" for n in (10, 2, 1, 2))
    (tmp_path / "train.tsv").write_text(rows)
    task = build("tsv", tmp_path)
    assert task.labels == ("1", "2", "10")
    examples = task.read("train", BadRows())
    assert task.label_array(examples).tolist() == [2, 1, 0, 1]
    given = build("tsv", tmp_path, labels=("2", "1"))
    with pytest.raises(UserError, match="train.tsv:2: unknown label '10'"):
        given.read("train", BadRows())
    with pytest.raises(UserError, match="no dev split"):
        task.read("dev", BadRows())


@pytest.mark.parametrize(
    "labels",
    [("--1", "-2"), ("--1", "-2", "3"), ("-", "1"), ("-1-", "2")],
    ids=" ".join,
)
def test_labels_that_are_nearly_numbers_are_sorted_as_text(tmp_path, labels):
    rows = [f"a text\t{label}" for label in reversed(labels)]
    (tmp_path / "train.tsv").write_text("\n".join(["text\tlabel", *rows]))
    found = build("tsv", tmp_path)
    assert found.labels == tuple(sorted(labels))
    examples = found.read("train", BadRows())
    assert found.label_array(examples).tolist() == [*range(len(labels))][::-1]


@pytest.mark.shared
def test_shared_csv_cuts(shared):
    for name, folder, train, dev in (
        ("ag", "ag_news_csv", 3200, 600),
        ("yelp-5", "yelp_review_full_csv", 800, 200),
    ):
        task = build(name, shared / "data" / folder)
        assert task.eval_splits() == ("dev",)
        assert len(task.read("train", BadRows())) == train
        assert len(task.read("dev", BadRows())) == dev
    trec = build("TREC", shared / "data" / "trec")
    assert len(trec.labels) == 6
    assert len(trec.read("dev", BadRows())) == 546


def write_trec(folder, train="train_5500.label", dev="TREC_10.label"):
    rows = b"LOC:city What is the sister\xf0city of Bonn ?\n"
    rows += b"HUM:ind Who wrote na\xefve songs ?\r\nNUM:date When ?\n"
    (folder / train).write_bytes(rows)
    (folder / dev).write_text("HUM:ind Who was na\u00efve ?\n", "utf-8")


def test_official_trec_files_load_with_coarse_and_fine_labels(tmp_path):
    write_trec(tmp_path)
    coarse = build("TREC", tmp_path)
    assert (coarse.name, coarse.labels) == ("trec", ("HUM", "LOC", "NUM"))
    found = coarse.read("train", BadRows())
    assert [(e.texts[0], e.label) for e in found] == [
        ("What is the sister city of Bonn ?", "LOC"),
        ("Who wrote na\u00efve songs ?", "HUM"),
        ("When ?", "NUM"),
    ]
    assert found[2].where.endswith("train_5500.label:3")
    assert coarse.read("dev", BadRows())[0].texts == ("Who was na\u00efve ?",)
    fine = build("trec-fine", tmp_path)
    assert fine.labels == ("HUM:ind", "LOC:city", "NUM:date")
    assert fine.label_array(fine.read("dev", BadRows())).tolist() == [0]
    assert fine.eval_splits() == ("dev",) == coarse.eval_splits()


def test_files_of_ones_own_in_that_layout_and_bad_lines(tmp_path):
    write_trec(tmp_path, "train.label", "dev.label")
    with open(tmp_path / "train.label", "a") as f:
        f.write("no label here\n")
    task = build("trec", tmp_path)
    with pytest.raises(UserError, match=r"train\.label:4: wanted `LABEL:fine"):
        task.read("train", BadRows())
    assert len(task.read("train", BadRows(True))) == 3
    unknown = tmp_path / "dev.label"
    unknown.write_text("ABBR:exp What is NASA ?\n")
    with pytest.raises(UserError, match="unknown label 'ABBR'"):
        task.read("dev", BadRows())
    assert task.read("dev", BadRows(), with_labels=False)[0].label is None


def test_trec_without_files_names_both_layouts(tmp_path):
    with pytest.raises(UserError, match="train_5500.label, train.label"):
        build("trec", tmp_path)
    (tmp_path / "train.tsv").write_text("sentence\tlabel\na b\t1\nc\t0\n")
    assert build("trec", tmp_path).name == "tsv"


@pytest.mark.shared
def test_no_escape_is_left_in_the_shared_csv_cuts(shared):
    for name, folder in (
        ("ag", "ag_news_csv"),
        ("yelp-5", "yelp_review_full_csv"),
    ):
        task = build(name, shared / "data" / folder)
        texts = [
            e.texts[0]
            for s in ("train", "dev")
            for e in task.read(s, BadRows())
        ]
        assert not any("\\" in t for t in texts)
        if name == "ag":
            assert any("Americans do\nnot know" in t for t in texts)
        else:
            assert any("\u00fc" in t for t in texts)


def test_imdb_is_read_from_a_bucket():
    for label in ("neg", "pos"):
        folder = f"ram://imdb/train/{label}"
        tf.io.gfile.makedirs(folder)
        with tf.io.gfile.GFile(f"{folder}/1_1.txt", "w") as f:
            f.write("Good.")
    imdb = build("imdb", "ram://imdb")
    assert imdb.eval_splits() == ()
    examples = imdb.read("train", BadRows())
    assert [e.guid for e in examples] == ["neg/1_1", "pos/1_1"]
