"""What a SavedModel folder must be before it is loaded and run."""

import errno
import json

import numpy as np
import pytest
import tensorflow as tf

from common.errors import UserError
from serving.exported import graph_check
from serving.saved_model import SavedModel
from tests.serving.exported.saved_graphs import GOOD, TEXT, save


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plain")
    save(folder, lambda text: {"n": tf.strings.length(text)})
    return folder


@pytest.mark.parametrize(
    "change",
    [
        [],
        "text",
        {"format_version": 2},
        {"format_version": None},
        {"labels": "ab"},
        {"labels": [1]},
        {"max_seq_length": "8"},
        {"max_seq_length": 0},
        {"prompt_segment": 0},
        {"mem_len": "8"},
        {"max_seq_length": True},
        {"vocab_size": [3]},
        {"data_options": []},
        {"weights": "model.ckpt-1"},
        {"type_vocab_size": "2"},
        {"max_position_embeddings": None},
        {"signatures": []},
        {"signatures": {}},
        {"signatures": {"serving_default": []}},
        {"signatures": {"serving_default": {"inputs": TEXT}}},
        {"signatures": {"serving_default": {"inputs": 3, "outputs": {}}}},
        {
            "signatures": {
                "serving_default": {
                    "inputs": {"text": {"dtype": "words", "shape": [None]}},
                    "outputs": {},
                }
            }
        },
        {
            "signatures": {
                "serving_default": {
                    "inputs": {"text": {"dtype": "string", "shape": ["a"]}},
                    "outputs": {},
                }
            }
        },
    ],
)
def test_a_damaged_description_is_one_line(plain, change):
    path = plain / "signature.json"
    value = GOOD | change if isinstance(change, dict) else change
    path.write_text(json.dumps(value))
    try:
        with pytest.raises(UserError, match="signature.json: .*wanted|missing"):
            SavedModel(str(plain))
    finally:
        path.write_text(json.dumps(GOOD))
    assert SavedModel(str(plain)).description == GOOD


def _signature(inputs, outputs=()):
    found = {"inputs": inputs, "outputs": {k: TEXT["text"] for k in outputs}}
    return {"serving_default": found}


@pytest.mark.parametrize(
    "signatures,message",
    [
        (_signature({}), "serving_default.text: the graph has another"),
        (_signature({"texts": TEXT["text"]}), "default.text: the graph has an"),
        (
            _signature({"text": TEXT["text"] | {"shape": [None, 9]}}),
            "default.t",
        ),
        (
            _signature({"text": TEXT["text"] | {"dtype": "int32"}}),
            "default.tex",
        ),
        (_signature(TEXT, ["label"]), "default.label: the graph has another"),
        (
            _signature(TEXT) | {"ids": _signature(TEXT)["serving_default"]},
            "ids",
        ),
    ],
)
def test_a_description_of_another_graph_is_one_line(plain, signatures, message):
    path = plain / "signature.json"
    path.write_text(json.dumps(GOOD | {"signatures": signatures}))
    try:
        with pytest.raises(UserError, match=f"signature.json: .*{message}"):
            SavedModel(str(plain))
    finally:
        path.write_text(json.dumps(GOOD))


def test_a_row_of_all_memory_is_not_tried(tmp_path):
    """A graph and its description may want a million times a million numbers."""
    shape = [None, 1 << 20, 1 << 20]
    module = tf.Module()
    module.call = tf.function(
        lambda x: {"n": tf.shape(x)[1:2]},
        input_signature=[tf.TensorSpec(shape, tf.float32, "x")],
        autograph=False,
    )
    tf.saved_model.save(module, str(tmp_path), signatures=module.call)
    inputs = {"x": {"dtype": "float32", "shape": shape}}
    about = GOOD | {"signatures": _signature(inputs)}
    (tmp_path / "signature.json").write_text(json.dumps(about))
    model = SavedModel(str(tmp_path))
    with pytest.raises(UserError, match="at most 1000000 numbers"):
        model.warm_up()


def test_another_vocabulary_in_the_folder_is_refused(plain):
    (plain / "assets").mkdir(exist_ok=True)
    (plain / "assets" / "spiece.model").write_bytes(b"x")
    path = plain / "signature.json"
    path.write_text(json.dumps(GOOD | {"spiece_sha256": "0" * 64}))
    try:
        with pytest.raises(UserError, match="SHA-256"):
            SavedModel(str(plain))
    finally:
        path.write_text(json.dumps(GOOD))


@pytest.mark.parametrize("kind", ["write", "read", "python", "nested"])
def test_a_graph_that_reaches_out_needs_trust(tmp_path, kind):
    target = str(tmp_path / "written")

    def write(text):
        tf.io.write_file(target, text[0])
        return {"n": tf.strings.length(text)}

    def read(text):
        return {"n": tf.map_fn(tf.io.read_file, text)}

    def python(text):
        return {"n": tf.py_function(lambda x: x, [text], tf.string)}

    def nested(text):
        return tf.cond(
            tf.size(text) > 3, lambda: write(text), lambda: write(text)
        )

    folder = tmp_path / "model"
    functions = {"write": write, "read": read, "python": python}
    save(folder, functions.get(kind, nested))
    with pytest.raises(UserError, match="--trust_model"):
        SavedModel(str(folder))
    assert not (tmp_path / "written").exists()
    if kind == "write":
        SavedModel(str(folder), trust=True)({"text": ["x"]})
        assert (tmp_path / "written").read_text() == "x"


def test_a_full_place_of_temporary_files_is_named(plain, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, "no room")

    monkeypatch.setattr(graph_check, "loadable", full)
    with pytest.raises(OSError) as info:
        SavedModel(str(plain))
    assert "(TMPDIR)" in info.value.__notes__[0]


def test_a_folder_without_an_export_is_one_line(tmp_path):
    with pytest.raises(UserError, match="holds no SavedModel"):
        SavedModel(str(tmp_path))
    (tmp_path / "3").mkdir()
    (tmp_path / "3" / "saved_model.pb").write_bytes(b"")
    with pytest.raises(UserError, match="signature.json cannot be read"):
        SavedModel(str(tmp_path))


def test_the_folder_at_hand_has_its_number(plain, monkeypatch):
    monkeypatch.chdir(plain)
    assert SavedModel(".", trust=True).version == plain.name
    assert SavedModel("./", trust=True).version == plain.name


def test_the_first_question_has_one_item_of_every_list():
    """K-NRM's documents and their scores must be as many."""

    class Asked:
        def inputs(self):
            scores = {"dtype": "float32", "shape": [None, None]}
            texts = {"dtype": "string", "shape": [None, None]}
            return TEXT | {"scores": scores, "texts": texts}

        def __call__(self, inputs):
            self.shapes = {k: np.shape(v) for k, v in inputs.items()}

    asked = Asked()
    SavedModel.warm_up(asked)
    assert asked.shapes == {"text": (1,), "scores": (1, 1), "texts": (1, 1)}
