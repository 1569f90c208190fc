"""Answers are judged question by question."""

import json

from data.finetuning.examples import BadRows
from data.finetuning.squad import answers as squad_answers
from data.finetuning.squad import examples as squad_examples
from tests.data.finetuning.squad.published_metrics import (
    published,
    write_dataset,
)


def test_unusable_questions_of_version_1_count_as_wrong(tmp_path):
    dataset = write_dataset(tmp_path / "dev.json", 10, version_2=False)
    qas = [p["qas"][0] for p in dataset["data"][0]["paragraphs"]]
    qas[3]["question"] = "  "
    (tmp_path / "dev.json").write_text(json.dumps(dataset))
    file = squad_examples.read_squad(
        str(tmp_path / "dev.json"), False, BadRows(skip=True)
    )
    right = {q.question_id: q.answer for q in file.questions}
    answers = squad_answers.SquadAnswers(
        right,
        {q: [{"text": t}] for q, t in right.items()},
        dict.fromkeys(right, 0.0),
    )
    got = squad_answers.evaluate_answers(file, answers, None)
    assert got == published(dataset, right, False)
    assert got == {"exact": 90.0, "f1": 90.0, "total": 10}
