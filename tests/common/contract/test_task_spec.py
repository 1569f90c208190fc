"""`task.json` with values of other JSON types is one line, never a trace."""

import json

import pytest

from common.contract.task_spec import TaskSpec
from common.errors import UserError
from common.vocabularies.text_settings import TextSettings


@pytest.mark.parametrize(
    "change",
    [
        [],
        "x",
        None,
        3,
        {"task_name": 3},
        {"head": ["span"]},
        {"labels": "ab"},
        {"labels": None},
        {"labels": [1]},
        {"max_seq_length": "8"},
        {"max_seq_length": True},
        {"max_seq_length": 0},
        {"text": []},
        {"spiece_sha256": None},
        {"head_options": []},
        {"data_options": "x"},
        {"data_options": {"layout": 3}},
        {"data_options": {"num_texts": "2"}},
        {"data_options": {"label_threshold": "0.5"}},
        {"data_options": {"null_score_diff_threshold": [0.5]}},
    ],
)
def test_wrong_types_are_one_line(tmp_path, change):
    spec = TaskSpec("tsv", "classification", ("a",), 8, TextSettings(), "")
    spec.write(str(tmp_path))
    path = tmp_path / "task.json"
    value = json.loads(path.read_text())
    assert TaskSpec.read(str(tmp_path)) == spec
    value = value | change if isinstance(change, dict) else change
    path.write_text(json.dumps(value))
    with pytest.raises(UserError, match=r"task\.json: ") as found:
        TaskSpec.read(str(tmp_path))
    assert "\n" not in str(found.value)


def test_a_deeply_nested_file_is_one_line(tmp_path):
    (tmp_path / "task.json").write_text("[" * 100_000)
    with pytest.raises(UserError, match="JSON"):
        TaskSpec.read(str(tmp_path))
