"""Whose task a trained model has; a set that is planted."""

import dataclasses
import json

import numpy as np
import pytest

from common.contract.task_spec import TaskSpec
from common.errors import UserError
from common.vocabularies.text_settings import TextSettings
from data.finetuning.classifier import glue
from data.finetuning.classifier.sets import open_set
from data.finetuning.classifier.task import (
    ambiguous,
    check_count,
    check_trained,
    with_labels,
)
from data.finetuning.examples import BadRows
from data.finetuning.options import ClassifierDataOptions
from tests.helpers.runs import classifier as run_classifier
from tests.helpers.runs.classifier import CONFIG, make_job, make_options


def trained(name="sst-2", head="classification"):
    return TaskSpec(name, head, ("0", "1"), 16, TextSettings(), "")


@pytest.mark.parametrize("name", ["sst-2", "tsv", "jsonl", "tfds:a"])
def test_a_model_reads_its_task_or_a_table(name):
    check_trained(name, trained())
    check_trained(name, trained("csv"))


def test_another_official_task_is_refused():
    with pytest.raises(UserError, match="--task_name=cola: .* for sst-2; leav"):
        check_trained("cola", trained())


@pytest.mark.parametrize("task_name", ["tsv", "csv", "jsonl"])
def test_classes_without_names_have_those_of_a_file_or_the_model_s(
    tmp_path, task_name
):
    """`LABEL_0`, ... stand for none: a training file or --labels says them."""
    labels = ("LABEL_0", "LABEL_1")
    data = ClassifierDataOptions(task_name=task_name, data_dir=str(tmp_path))
    assert with_labels(data, labels, False).labels == labels
    with pytest.raises(UserError, match="--labels: wanted names of .* 2 ou"):
        with_labels(data, labels, True)
    named = dataclasses.replace(data, labels=("no", "yes"))
    assert with_labels(named, labels, True) is named
    (tmp_path / f"train.{task_name}").write_text("x")
    assert with_labels(data, labels, True) is data
    data = dataclasses.replace(data, task_name="sst-2")
    assert with_labels(data, labels, True) is data


def test_classes_are_as_many_as_the_model_s():
    data = ClassifierDataOptions(
        task_name="tsv", data_dir="", labels=("a", "b", "c")
    )
    three = open_set(data)
    check_count(three, trained("tsv"))
    unnamed = dataclasses.replace(trained(), labels=("LABEL_0", "LABEL_1"))
    with pytest.raises(UserError, match="wanted 2 names, .* found 3: a, b, c"):
        check_count(three, unnamed)
    check_count(three, dataclasses.replace(unnamed, head="multi_label"))
    data = dataclasses.replace(data, labels=("a", "b"))
    check_count(open_set(data), unnamed)


def test_a_label_that_holds_the_separator_is_told():
    assert not ambiguous(("a", "b c"), "|")
    line = ambiguous(("a", "b|c"), "|")
    assert "'b|c' holds --label_separator='|'" in line
    assert not ambiguous(("a", "b|c"), ";")


@pytest.mark.parametrize(
    "dev",
    [
        "question\ttext\tlabel\nred\triver\tno\n",  # in another order
        "title\ttext\tquestion\tLABEL\ttags\nx\triver\tred\tno\ty\n",
    ],
)
def test_dev_is_read_by_the_columns_of_training(
    tmp_path, spiece_model, dev, capsys
):
    train = "text\tquestion\tlabel\ngreen\tred\tyes\nriver\tred\tno\n"
    (tmp_path / "train.tsv").write_text(train)
    (tmp_path / "dev.tsv").write_text(dev)
    job = make_job(
        tmp_path,
        spiece_model,
        make_options(tmp_path, do_train=True, do_eval=True, do_predict=True),
    )
    for split in (job.evals["dev"], job.predicts["dev"]):
        assert [e.texts for e in split.examples] == [("river", "red")]
    said = capsys.readouterr().out
    assert (
        said.count("labels (") == said.count("labels (2): 'no' 1, 'yes' 1") > 0
    )
    assert job.spec().data_options["text_columns"] == ["text", "question"]
    (tmp_path / "dev.tsv").write_text("text\tlabel\nred\tno\n")
    with pytest.raises(UserError, match=r"dev.tsv:1: wanted \['question'\]"):
        make_job(
            tmp_path,
            spiece_model,
            make_options(tmp_path, do_train=True, do_eval=True),
        )


def test_rows_have_room_for_what_joins_their_texts(tmp_path, spiece_model):
    (tmp_path / "train.tsv").write_text(
        "text\tquestion\tlabel\nred\tsea\tyes\nsea\tred\tno\n"
    )
    options = make_options(tmp_path, do_train=True)
    job = make_job(tmp_path, spiece_model, options)
    examples, bad = job.train.examples, BadRows(False)
    for layout, least in (("cls_first", 4), ("cls_first_sep_sep", 5)):
        job.features = dataclasses.replace(
            job.features, layout=layout, max_seq_length=least
        )
        table = job.with_features("train", examples, bad).table
        assert max(np.diff(table.row_splits)) == least
    job.features = dataclasses.replace(job.features, max_seq_length=4)
    with pytest.raises(UserError, match="at least 5 for 2 texts"):
        job.with_features("train", examples, bad)


@pytest.mark.long
@pytest.mark.shared
def test_a_classification_set_is_a_row(tmp_path, spiece_model, monkeypatch):
    """Read by its columns, trained, judged by its metric, and submitted."""
    row = glue.GlueTask(
        "Pets",
        ("title", "body"),
        "kind",
        ("cat", "dog", "newt"),
        ("macro_f1",),
        submission={"test": "Pets-1"},
    )
    monkeypatch.setitem(glue.GLUE, "pets", row)
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    for split, count in (("train", 9), ("dev", 4), ("test", 3)):
        lines = ["index\ttitle\tkind\tbody"]
        for i in range(count):
            lines.append(f"{i}\ttower {i}\t{row.labels[i % 3]}\tthe river")
        (tmp_path / f"{split}.tsv").write_text("\n".join(lines) + "\n")
    options = make_options(
        tmp_path, steps=2, do_train=True, do_eval=True, do_predict=True
    )
    results, _ = run_classifier.run(
        tmp_path, spiece_model, options, task_name="PETS"
    )
    assert set(results["dev"]) == {"accuracy", "macro_f1", "loss"}
    spec = json.loads((tmp_path / "model/task.json").read_text())
    assert (spec["task_name"], spec["labels"]) == ("pets", list(row.labels))
    folder = tmp_path / "model/predictions"
    rows = run_classifier.read_rows(folder / "Pets-1.tsv")
    assert rows[0] == ["index", "prediction"]
    assert [r[0] for r in rows[1:]] == ["0", "1", "2"]
    assert {r[1] for r in rows[1:]} <= set(row.labels)
