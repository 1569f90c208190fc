"""A span model's export reads SQuAD's files."""

import gzip
import json

import pytest

from common.errors import UserError
from serving.exported import input_rows
from serving.options import PredictOptions
from tests.serving.exported.fake_models import FakeModel

CONTEXT = "Ada lives\nin Rome."


def rows(path, head="span", **changes):
    fake = FakeModel("question", "paragraph")
    description = {"labels": [], "head": head}
    asked = PredictOptions("model", input_file=str(path), **changes)
    return list(input_rows.read_rows(fake.inputs(), description, asked))


def squad(*questions, indent=None):
    paragraph = {"context": CONTEXT, "qas": list(questions)}
    data = [{"title": "t", "paragraphs": [paragraph]}]
    return json.dumps({"version": "1.1", "data": data}, indent=indent)


WHO = {"id": "q1", "question": "Who?", "answers": [{"text": "Ada"}]}
WHERE = {"id": "q2", "question": "Where?", "is_impossible": True}


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("name", ["dev.json", "dev.json.gz", "DEV.JSON"])
def test_a_question_is_a_row_with_its_id(tmp_path, name, indent):
    """The file was one row, without question and paragraph."""
    path = tmp_path / name
    content = squad(WHO, WHERE, indent=indent).encode()
    path.write_bytes(gzip.compress(content) if "gz" in name else content)
    one, other = rows(path)
    assert one.inputs == {"question": "Who?", "paragraph": CONTEXT}
    assert one.known == {"key": "q1", "true_label": ["Ada"]}
    assert other.known == {"key": "q2", "true_label": []}
    assert "q2" in other.where


def test_a_file_without_answers_has_no_labels(tmp_path):
    path = tmp_path / "test.json"
    path.write_text(squad({"id": "a", "question": "Who?"}))
    (row,) = rows(path)
    assert row.known == {"key": "a"}


def test_what_is_wrong_comes_behind_the_questions(tmp_path):
    path = tmp_path / "dev.json"
    path.write_text(squad({"id": "a", "question": ""}, WHO))
    good, bad = rows(path)
    assert good.known["key"] == "q1" and not good.problem
    assert bad.inputs is None and bad.known == {"row": 1}
    assert bad.problem.startswith(f"{path}: article 0 paragraph 0 question 0: ")


def test_rows_of_json_and_other_models_stay_as_they_are(tmp_path):
    path = tmp_path / "rows.json"
    path.write_text('{"question": "Who?", "paragraph": "Ada."}\n')
    (row,) = rows(path)
    assert row.inputs == {"question": "Who?", "paragraph": "Ada."}
    path.write_text(squad(WHO))
    (row,) = rows(path, "classification")
    assert "wanted an object with the keys" in row.problem
    with pytest.raises(UserError, match="--key_column is for"):
        rows(path, key_column="a")
