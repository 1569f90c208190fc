"""SQuAD JSON: both versions, and every field that can be wrong."""

import json

import pytest

from common.errors import UserError
from data.finetuning.examples import BadRows
from data.finetuning.squad import examples as squad_examples


def write(tmp_path, qas, context="A b c d."):
    value = {"data": [{"paragraphs": [{"context": context, "qas": qas}]}]}
    path = tmp_path / "q.json"
    path.write_text(json.dumps(value))
    return str(path)


GOOD = {
    "id": "q",
    "question": "b?",
    "answers": [
        {"text": "b c", "answer_start": 2},
        {"text": "c", "answer_start": 4},
    ],
}


def test_version_1_has_no_is_impossible(tmp_path):
    file = squad_examples.read_squad(write(tmp_path, [GOOD]), True, BadRows())
    assert not file.version_2
    question = file.questions[0]
    assert (question.answer, question.answer_start, question.answerable) == (
        "b c",
        2,
        True,
    )
    assert file.gold_answers() == {"q": ["b c", "c"]}


def test_version_2_ignores_plausible_answers(tmp_path):
    impossible = GOOD | {"is_impossible": True, "plausible_answers": []}
    file = squad_examples.read_squad(
        write(tmp_path, [impossible]), True, BadRows()
    )
    assert file.version_2
    assert file.gold_answers() == {"q": []}


@pytest.mark.parametrize(
    "change, problem",
    [
        ({"id": 3}, "wanted a string 'id'"),
        ({"question": " "}, "non-empty string 'question'"),
        ({"is_impossible": "no"}, "neither true nor false"),
        ({"answers": {}}, "wanted a list 'answers'"),
        ({"answers": []}, "needs an answer"),
        ({"answers": [{"text": "b"}]}, "'answer_start' in each answer"),
        ({"answers": [{"text": "", "answer_start": 0}]}, "the answer is empty"),
        ({"answers": [{"text": "d.", "answer_start": 7}]}, "do not fit"),
        ({"answers": [{"text": "b", "answer_start": -1}]}, "do not fit"),
    ],
)
def test_bad_questions_name_their_place(tmp_path, change, problem):
    path = write(tmp_path, [GOOD, GOOD | {"id": "r"} | change])
    with pytest.raises(
        UserError, match="article 0 paragraph 0 question 1"
    ) as e:
        squad_examples.read_squad(path, True, BadRows())
    assert problem in str(e.value)
    bad = BadRows(skip=True)
    assert len(squad_examples.read_squad(path, True, bad).questions) == 1
    assert bad.count == 1


def test_ids_are_unique_and_files_hold_squad(tmp_path):
    with pytest.raises(UserError, match="used twice"):
        squad_examples.read_squad(
            write(tmp_path, [GOOD, GOOD]), True, BadRows()
        )
    path = tmp_path / "x.json"
    for content, problem in (
        ("[1]", "wanted SQuAD's"),
        ('{"data":\n [}', ":2: no valid JSON"),
        ('{"data": []}', "no usable question"),
    ):
        path.write_text(content)
        with pytest.raises(UserError, match=problem):
            squad_examples.read_squad(str(path), True, BadRows())


@pytest.mark.shared
def test_shared_cuts_count_as_listed(shared):
    for name, questions, impossible in (
        ("train-v1.1", 2214, 0),
        ("dev-v1.1", 758, 0),
        ("train-v2.0", 4600, 2432),
        ("dev-v2.0", 1478, 736),
    ):
        path = shared / "data" / "squad" / f"{name}.json.xz"
        file = squad_examples.read_squad(str(path), True, BadRows())
        assert len(file.questions) == questions
        assert sum(not q.answerable for q in file.questions) == impossible
        assert file.version_2 == name.endswith("v2.0")
