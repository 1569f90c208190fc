"""Hugging Face's names and ours."""

import json
import pathlib

import numpy as np
import pytest

from common.errors import UserError
from modeling.checkpoints import conversion, hf
from modeling.checkpoints.names import named_variables
from modeling.command_options import ConvertOptions
from modeling.encoders import registry
from modeling.encoders.bert.config import AlbertConfig
from tests.modeling.encoders import golden_encoders as g

TINY = dict(vocab_size=19, d_model=8, n_layer=3, n_head=2, d_inner=12)
ALBERT = AlbertConfig(
    **TINY, embedding_size=4, num_groups=1, max_position_embeddings=9
)


@pytest.mark.long
@pytest.mark.parametrize("case", g.cases("bert", "albert", "modernbert"))
def test_folders_come_back_bit_for_bit(case, golden, tmp_path):
    from safetensors.numpy import load_file

    folder = golden / "encoders" / case
    native, back = str(tmp_path / "native"), str(tmp_path / "hf")
    for options in (
        ConvertOptions("hf", "native", str(folder), native),
        ConvertOptions("native", "hf", native, back),
    ):
        conversion.convert(options)
    wanted = load_file(folder / "model.safetensors")
    read_back = load_file(f"{back}/model.safetensors")
    assert set(read_back) == set(wanted)
    for name, value in wanted.items():
        assert read_back[name].dtype == value.dtype
        np.testing.assert_array_equal(read_back[name], value, err_msg=name)
    theirs = json.loads((folder / "config.json").read_text())
    ours = json.loads(pathlib.Path(back, "config.json").read_text())
    assert {k: ours.get(k) for k in theirs} == theirs


@pytest.mark.parametrize("head", ["multiple_choice", "token_classification"])
def test_heads_of_their_classes(head, tmp_path):
    from modeling.heads import table

    shapes = {
        "model/token_classification/logit/kernel": [8, 3],
        "pooler/projection/kernel": [8, 8],
    }
    model = table.build(head, ALBERT, shapes)
    arrays = {n: v.numpy() for n, v in named_variables(model).items()}
    hf.write_weights(str(tmp_path), arrays, ALBERT, head)
    hf.write_config(str(tmp_path), ALBERT, head, arrays)
    again, read_head, left_out = hf.read_weights(str(tmp_path), ALBERT)
    assert read_head == head and set(again) == set(arrays) and not left_out
    for name, value in arrays.items():
        np.testing.assert_array_equal(again[name], value)


def test_a_question_answering_head_has_no_place_there(tmp_path):
    from modeling import SpanModel

    model = SpanModel(ALBERT)
    arrays = {n: v.numpy() for n, v in named_variables(model).items()}
    with pytest.raises(UserError, match="no place for"):
        hf.write_weights(str(tmp_path), arrays, ALBERT, "span")


def test_old_names_and_buffers_of_theirs(golden, tmp_path):
    """Released BERTs call gains gamma and keep the tied decoder."""
    from safetensors.numpy import load_file, save_file

    folder = next(
        golden / "encoders" / c for c in g.cases("bert") if c != "missing"
    )
    arrays = load_file(folder / "model.safetensors")
    config = registry.read_config(str(folder / "config.json"))
    wanted = hf.read_weights(str(folder), config).arrays
    old = {}
    for name, value in arrays.items():
        if "LayerNorm" in name:
            name = name.replace("weight", "gamma").replace("bias", "beta")
        old[name] = value
    words = "bert.embeddings.word_embeddings.weight"
    old["cls.predictions.decoder.weight"] = old[words]
    old["bert.embeddings.position_ids"] = np.arange(5)[np.newaxis]
    save_file(old, tmp_path / "model.safetensors")
    text = (folder / "config.json").read_text()
    (tmp_path / "config.json").write_text(text)
    found, head, _ = hf.read_weights(str(tmp_path), config)
    assert head == "pretraining" and set(found) == set(wanted)
    old["cls.predictions.decoder.weight"] = old[words] + 1
    save_file(old, tmp_path / "model.safetensors")
    with pytest.raises(UserError, match="differs from"):
        hf.read_weights(str(tmp_path), config)
