"""docs/explanation/architecture.md, "To add something": data sets that are planted.

Heads, encoders, attention variants and objectives are planted beside their
tables (the table of that page says where).
"""

import json

import pytest

from common.errors import UserError
from data.finetuning.classifier import glue
from data.finetuning.examples import BadRows
from data.finetuning.squad import examples as squad_examples
from data.finetuning.squad.examples import SquadFile, SquadQuestion
from tests.helpers.runs import classifier as run_classifier
from tests.helpers.runs import squad as run_squad
from tests.helpers.runs.classifier import CONFIG, make_options

TEXT = "The red tower stood by the river all winter. "


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


def read_cards(path, training, bad):
    """`paragraph|question|answer` a line; no answer = unanswerable."""
    paragraphs, questions = [], []
    with open(path) as f:
        for number, line in enumerate(f):
            text, asked, answer = line.rstrip("\n").split("|")
            start = text.find(answer) if answer else -1
            if answer and start < 0:
                bad.report(f"{path}:{number + 1}", "the answer is not there")
                continue
            questions.append(
                SquadQuestion(
                    f"card-{number}",
                    asked,
                    len(paragraphs),
                    (answer,) if answer else (),
                    start,
                    bool(answer),
                )
            )
            paragraphs.append(text)
    return SquadFile(tuple(paragraphs), tuple(questions), True)


@pytest.mark.shared
def test_a_question_answering_format_is_a_reader(
    tmp_path, spiece_model, monkeypatch
):
    """Its file goes through windows, training, evaluation and predictions."""
    from training.finetuning.driver import Driver

    monkeypatch.setitem(squad_examples.READERS, ".cards", read_cards)
    (tmp_path / "config.json").write_text(json.dumps(CONFIG | {"n_layer": 1}))
    lines = (f"{TEXT * 2}|What stood by the river?|red tower", f"{TEXT}|Why?|")
    for name in ("train", "dev"):
        (tmp_path / f"{name}.cards").write_text("\n".join(lines) + "\n")
    options = make_options(
        tmp_path,
        steps=1,
        do_train=True,
        do_eval=True,
        run={"train_batch_size": 2},
    )
    files = {
        f"{flag}_file": str(tmp_path / f"{name}.cards")
        for flag, name in (("train", "train"), ("predict", "dev"))
    }
    job = run_squad.make_job(
        tmp_path, spiece_model, options, 32, doc_stride=8, **files
    ).load()
    results = Driver(job, options, say=lambda line: None).run()["dev"]
    assert (results["HasAns_total"], results["NoAns_total"]) == (1, 1)
    folder = tmp_path / "model/predictions"
    answers = json.loads((folder / "predictions.json").read_text())
    assert list(answers) == ["card-0", "card-1"]
    (tmp_path / "dev.cards").write_text(f"{TEXT}|Who?|nobody\n")
    with pytest.raises(UserError, match="dev.cards:1: the answer is not"):
        squad_examples.read_file(files["predict_file"], False, BadRows())
