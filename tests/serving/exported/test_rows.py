"""Outputs of a batch become one JSON object per row."""

import json

import numpy as np

from serving.exported import rows


def test_rows_are_plain_json():
    outputs = {
        "logits": np.zeros([2, 2], np.float32),
        "probabilities": np.array([[0.25, 0.75], [1.0, 0.0]], np.float32),
        "label": np.array([b"b", "na\u00efve".encode()], object),
        "label_ids": np.array([[1, 2, 3], [4, -1, -1]], np.int32),
        "num_pieces": np.array([3, 1], np.int32),
        "truncated": np.array([True, False]),
        "value": np.array([np.inf, 0.1], np.float32),
    }
    description = {"labels": ["a", "b"]}
    first, second = (rows.format_row(description, outputs, i) for i in (0, 1))
    assert first["probabilities"] == {"a": 0.25, "b": 0.75}
    assert first["value"] is None and second["value"] == 0.1
    assert second["label"] == "na\u00efve" and second["label_ids"] == [4]
    assert first["truncated"] is True and "logits" not in first
    json.dumps([first, second], allow_nan=False)


def test_a_row_has_its_own_masks_only():
    outputs = {
        "pieces": np.array([[[b"a"], [b"b"]], [[b"c"], [b"<unk>"]]], object),
        "probabilities": np.array([[[0.5], [0.25]], [[0.75], [0.0]]]),
        "num_masks": np.array([2, 1], np.int32),
    }
    first, second = (
        rows.format_row({"labels": []}, outputs, i) for i in (0, 1)
    )
    none = rows.format_row(
        {"labels": []}, outputs | {"num_masks": np.array([0, 1])}, 0
    )
    assert none["pieces"] == none["probabilities"] == []
    assert first["pieces"] == [["a"], ["b"]]
    assert second["pieces"] == [["c"]] and second["probabilities"] == [[0.75]]


def test_a_row_has_its_own_tokens_only():
    """The first token of a text has no log-probability."""
    outputs = {
        "token_ids": np.array([[7, 8, 9], [7, 0, 0], [0, 0, 0]], np.int32),
        "token_log_probs": np.array(
            [[-0.5, -1.25], [9.0, 9.0], [9.0, 9.0]], np.float32
        ),
        "num_tokens": np.array([3, 1, 0], np.int32),
        "total": np.array([[4, 5], [4, 5], [4, 5]], np.int32),
    }
    found = [rows.format_row({"labels": []}, outputs, i) for i in range(3)]
    assert [a["token_ids"] for a in found] == [[7, 8, 9], [7], []]
    assert [a["token_log_probs"] for a in found] == [[-0.5, -1.25], [], []]
    assert found[2]["total"] == [4, 5] and found[2]["num_tokens"] == 0


def test_probabilities_have_names_only_where_each_has_one():
    outputs = {"probabilities": np.array([[0.5, 0.25, 0.25]], np.float32)}
    named = rows.format_row({"labels": ["x", "y", "z"]}, outputs, 0)
    assert named == {"probabilities": {"x": 0.5, "y": 0.25, "z": 0.25}}
    # A choice among options has no classes.
    bare = rows.format_row({"labels": ["x", "y"]}, outputs, 0)
    assert bare == {"probabilities": [0.5, 0.25, 0.25]}


def test_values_are_those_of_json():
    assert rows.plain(np.float32(0.1)) == 0.1  # not 0.10000000149011612
    assert rows.plain(np.float32(-123456.789)) == -123456.8
    assert rows.plain(np.array([np.nan, -np.inf, 2.5])) == [None, None, 2.5]
    true = rows.plain(np.bool_(True))
    assert true is True and rows.plain(np.int64(-3)) == -3
    assert rows.plain(b"caf\xe9 \xe2\x82\xac") == "caf\ufffd \u20ac"
    nested = np.array([[b"a", b"b"], [b"c", b""]], object)
    assert rows.plain(nested) == [["a", "b"], ["c", ""]]
