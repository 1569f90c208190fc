"""What commands load: an encoder, its tokenizer, and what they refuse."""

import json

import numpy as np
import pytest
import tensorflow as tf

from common.errors import UserError
from modeling import PretrainingModel
from modeling.encoders.bert.config import BertConfig
from modeling.encoders.registry import write_config
from modeling.encoders.transformer_xl.config import TransformerXLConfig
from serving.generation.language_model import load_encoder
from serving.generation.options import EmbedOptions, ModelOptions

SIZES = dict(vocab_size=1000, d_model=16, n_layer=2, n_head=2, d_inner=24)


@pytest.mark.shared
def test_a_folder_of_bert_s_and_what_is_refused(tmp_path, spiece_model):
    """No memory is asked for unless the user does."""
    model = PretrainingModel(BertConfig(**SIZES))
    folder = tmp_path / "bert"
    folder.mkdir()
    write_config(str(folder), model.encoder.config)
    tf.train.Checkpoint(model=model).write(str(folder / "model.ckpt-1"))
    given = ModelOptions(str(folder / "model.ckpt-1"), spiece_model)
    assert EmbedOptions(text=("a",)).memory_len is None
    encoder, _ = load_encoder(given, None)
    np.testing.assert_array_equal(
        encoder.embeddings.lookup_table, model.encoder.embeddings.lookup_table
    )
    with pytest.raises(UserError, match="memory_len=8 needs an encoder"):
        load_encoder(given, 8)
    other = tmp_path / "lm"
    other.mkdir()
    sizes = {k: v for k, v in SIZES.items() if k != "vocab_size"}
    write_config(
        str(other), TransformerXLConfig(vocab_size=9, d_head=8, **sizes)
    )
    (other / "model.ckpt-1.index").write_bytes(b"")
    found = json.loads((other / "transformer_xl_config.json").read_text())
    assert found["n_layer"] == 2
    with pytest.raises(UserError, match="rows with CLS.*transformer_xl"):
        load_encoder(ModelOptions(str(other)), None)
