"""Task files as pretraining text: training rows alone, each text once."""

import json
import os
import shlex
import subprocess
import sys

import pytest

from common.errors import UserError
from data import convert_task
from data.corpus import documents as corpus
from data.finetuning.classifier import sets
from data.finetuning.examples import BadRows
from data.finetuning.options import ClassifierDataOptions
from tests.conftest import ROOT
from tools.faults import world


def run(*arguments, status=0):
    command = [sys.executable, "-m", "data.convert_task", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == status, done.stderr
    return done.stdout + done.stderr


def read(path):
    """The documents as the builder reads them."""
    data = path.read_bytes()
    block = corpus.Block(str(path), 0, len(data))
    return [d.lines for d in corpus.documents(data, block)]


def test_pairs_sentences_and_repeated_rows(tmp_path):
    rows = [
        ("One. Two!", "Three?", "yes"),
        ("昨日は雨。今日は晴れ。", "Four", "no"),
        ("One. Two!", "Three?", "no"),  # the same text once more
    ]
    for split in ("train", "dev"):
        lines = ["sentence1\tsentence2\tlabel", *map("\t".join, rows)]
        lines.append(f"only in {split}\t.\tno")
        (tmp_path / f"{split}.tsv").write_text("\n".join(lines) + "\n")
    path = tmp_path / "my text.txt"
    said = run(
        *("--task_name=tsv", f"--data_dir={tmp_path}"), f"--output_file={path}"
    )
    assert "3 documents, 8 sentences" in said
    command = shlex.split(said.split("next: python -m ")[1])
    assert command == [
        "data.create_pretraining_data",
        f"--input_glob={path}",
        "--spiece_model_file=PRETRAINED/spiece.model",
        f"--output_dir={tmp_path}/my text_records",
    ]
    assert read(path) == [
        ["One.", "Two!", "Three?"],
        ["昨日は雨。", "今日は晴れ。", "Four"],
        ["only in train", "."],
    ]


def test_held_out_rows_are_left_out(tmp_path):
    rows = [{"text": f"row {i}", "label": "ab"[i % 2]} for i in range(60)]
    path = tmp_path / "train.jsonl"
    path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    options = ClassifierDataOptions("jsonl", str(tmp_path), dev_fraction=0.3)
    found = [t[0] for t in convert_task.texts_of_rows(options, BadRows())]
    held = sets.open_set(options).read("dev", BadRows())
    assert held and sorted(found + [e.texts[0] for e in held]) == sorted(
        row["text"] for row in rows
    )


def test_squad_and_race(tmp_path):
    world.write_squad(str(tmp_path / "squad.json"))
    world.write_race(str(tmp_path / "race"))
    first = tmp_path / "a.txt"
    run(
        *("--task_name=squad", f"--train_file={tmp_path}/squad.json"),
        f"--output_file={first}",
    )
    words = world.WORDS
    assert read(first) == [[" ".join(words[i : i + 12])] for i in range(2)]
    second = tmp_path / "b.txt"
    run(
        *("--task_name=RACE", f"--data_dir={tmp_path}/race"),
        f"--output_file={second}",
    )
    # Two questions on one passage: the passage once.
    assert read(second) == [[" ".join(words[:12])]]


@pytest.mark.long
@pytest.mark.parametrize(
    "arguments,message",
    [
        (["--task_name=squad"], "--task_name=squad needs --train_file"),
        (["--task_name=race"], "--task_name=race needs --data_dir"),
        (
            ["--task_name=race", "--data_dir=.", "--dev_fraction=0.1"],
            "--dev_fraction is not for --task_name=race",
        ),
        (
            ["--task_name=squad", "--train_file=a", "--multi_label"],
            "--multi_label and --is_regression are not for --task_name=squad",
        ),
        (
            ["--task_name=squad", "--train_file=a", "--labels=x,y"],
            "--labels is of classes of tables (tsv, csv, jsonl) and tfds:NAME",
        ),
        (
            ["--task_name=sst-2", "--data_dir=.", "--text_columns=a"],
            "--task_name=sst-2 would ignore it, leave it out",
        ),
        (
            ["--task_name=squad", "--train_file=a", "--data_dir=."],
            "--data_dir is not for --task_name=squad, which would ignore it",
        ),
        (
            ["--task_name=race", "--data_dir=.", "--train_file=a"],
            "--train_file is not for --task_name=race, which would ignore it",
        ),
        (["--task_name=nosuch", "--data_dir=."], "nosuch"),
        (["--task_name=imdb", "--data_dir=/nowhere"], "/nowhere"),
    ],
)
def test_what_is_missing_is_one_line(tmp_path, arguments, message):
    path = tmp_path / "text.txt"
    said = run(*arguments, f"--output_file={path}", status=1)
    assert message in said and len(said.strip().splitlines()) == 1
    assert os.listdir(tmp_path) == []


def test_a_name_that_readers_take_for_another_form_is_refused(tmp_path):
    path = tmp_path / "text.txt.gz"
    said = run(
        *("--task_name=squad", "--train_file=x.json"),
        f"--output_file={path}",
        status=1,
    )
    assert "--output_file is written plain: give a name without .gz" in said
    assert os.listdir(tmp_path) == []


def test_a_text_of_the_set_is_not_replaced(tmp_path):
    folder = tmp_path / "train"
    for inside in (folder / "high" / "1.txt", tmp_path / "a/../train/b.txt"):
        with pytest.raises(UserError, match="lies in .*/train, whose text f"):
            convert_task._refuse_within(str(inside), str(folder))
    convert_task._refuse_within(str(tmp_path / "train.txt"), str(folder))
    world.write_race(str(tmp_path))
    (path,) = (folder / "high").glob("*.txt")
    before = path.read_bytes()
    said = run(
        *("--task_name=race", f"--data_dir={tmp_path}"),
        f"--output_file={path}",
        status=1,
    )
    assert f"--output_file={path} lies in" in said
    assert path.read_bytes() == before


def test_text_that_is_none_leaves_no_file(tmp_path):
    with pytest.raises(UserError, match="hold no text"):
        convert_task.convert([("  ",), ()], str(tmp_path / "text.txt"))
    assert os.listdir(tmp_path) == []


@pytest.mark.long
def test_rows_with_several_labels_are_read(tmp_path):
    """As `run_classifier.py` reads them: a row without one is held out, too."""
    rows = [
        {"text": f"row {i}", "label": ["a", "b"][: i % 3]} for i in range(60)
    ]
    rows.append({"text": "", "label": ["a"]})
    path = tmp_path / "train.jsonl"
    path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    out = tmp_path / "text.txt"
    flags = ["--task_name=jsonl", f"--data_dir={tmp_path}"]
    flags += [f"--output_file={out}", "--dev_fraction=0.3"]
    said = run(*flags, status=1)
    assert "a list of labels needs --multi_label" in said
    assert len(said.strip().splitlines()) == 1 and not out.exists()
    said = run(*flags, "--multi_label", "--is_regression", status=1)
    assert "give one of --is_regression and --multi_label" in said
    run(*flags, "--multi_label", "--allow_empty_text")
    found = [document[0] for document in read(out)]
    options = ClassifierDataOptions(
        *("jsonl", str(tmp_path), "multi_label"),
        dev_fraction=0.3,
        allow_empty_text=True,
    )
    held = sets.open_set(options).read("dev", BadRows())
    texts = {e.texts[0] for e in held}
    assert texts and not texts & {*found}
    assert texts | {*found, ""} == {row["text"] for row in rows} | {""}


@pytest.mark.long
def test_rows_of_other_classes_than_those_of_labels_are_left_out(tmp_path):
    """They are none of the rows that `run_classifier.py` counts either."""
    rows = [
        {"text": f"row {i}", "label": ("neg", "pos", "other")[i % 3]}
        for i in range(60)
    ]
    (tmp_path / "train.jsonl").write_text("\n".join(map(json.dumps, rows)))
    out = tmp_path / "text.txt"
    run(
        *("--task_name=jsonl", f"--data_dir={tmp_path}", "--skip_bad_rows"),
        *("--labels=neg,pos", "--dev_fraction=0.3", f"--output_file={out}"),
    )
    found = {document[0] for document in read(out)}
    options = ClassifierDataOptions(
        *("jsonl", str(tmp_path)), labels=("neg", "pos"), dev_fraction=0.3
    )
    held = sets.open_set(options).read("dev", BadRows(skip=True))
    texts = {example.texts[0] for example in held}
    assert len(texts) == 11 and not texts & found
    assert texts | found == {r["text"] for r in rows if r["label"] != "other"}
