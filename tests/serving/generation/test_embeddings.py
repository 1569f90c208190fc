"""Embeddings of encoders that have CLS first, and of those that have none."""

import json
import types

import numpy as np
import pytest
import tensorflow as tf

from common.errors import UserError
from data.text.tokenizer import Tokenizer
from modeling import PretrainingModel
from modeling.encoders.bert.config import BertConfig
from modeling.encoders.modernbert.config import ModernBertConfig
from modeling.encoders.registry import write_config
from modeling.encoders.transformer_xl.config import TransformerXLConfig
from serving.generation.embeddings import Embedder
from serving.generation.language_model import load_encoder
from serving.generation.options import EmbedOptions, ModelOptions
from serving.generation.sentence_folder import SentenceFolder

SIZES = dict(vocab_size=1000, d_model=16, n_layer=2, n_head=2, d_inner=24)
TEXTS = [
    "A short text.",
    "The caf\u00e9 owner paid 12,000 francs, and nobody asked why he did so.",
]


@pytest.mark.slow
@pytest.mark.shared
@pytest.mark.parametrize(
    "config",
    [
        BertConfig(**SIZES, max_position_embeddings=12),
        ModernBertConfig(**SIZES, local_window=6),
    ],
    ids=lambda c: c.model_type,
)
def test_rows_have_cls_first_and_sep_last(config, spiece_model):
    """A text is read in rows of T tokens, each `CLS pieces SEP`."""
    tokenizer = Tokenizer(spiece_model)
    encoder = PretrainingModel(config).encoder
    embedder = Embedder(encoder, tokenizer, 12)
    together = list(embedder.embed(TEXTS))
    alone = [next(embedder.embed([text])) for text in TEXTS]
    symbols = tokenizer.symbols
    for text, a, b in zip(TEXTS, together, alone, strict=True):
        ids, starts, ends = tokenizer.encode_with_offsets(text)
        assert (a.starts, a.ends) == (starts, ends)
        np.testing.assert_allclose(a.vectors, b.vectors, atol=2e-5)
        np.testing.assert_allclose(a.cls, b.cls, atol=2e-5)
        vectors = []
        for begin in range(0, len(ids), 10):
            row = [symbols.cls, *ids[begin : begin + 10], symbols.sep]
            states = encoder(tf.constant([row])).sequence_output[0].numpy()
            vectors.append(states[1:-1])
            if not begin:
                np.testing.assert_allclose(a.cls, states[0], atol=2e-5)
        np.testing.assert_allclose(
            a.vectors, np.concatenate(vectors), atol=2e-5
        )
    assert len(together[1].vectors) > 20


@pytest.mark.shared
def test_sentences_that_are_cut_are_counted(spiece_model):
    tokenizer = Tokenizer(spiece_model)
    encoder = PretrainingModel(BertConfig(**SIZES)).encoder
    rule = SentenceFolder("mean", True, 14)
    embedder = Embedder(encoder, tokenizer, 64)
    counts = [len(tokenizer.encode(text)) for text in TEXTS]
    assert counts[0] <= 12 < counts[1]
    assert len(list(embedder.sentences([*TEXTS, TEXTS[1]], rule))) == 3
    assert embedder.cut == 2


def test_rows_are_no_longer_than_the_positions(spiece_model):
    bert = types.SimpleNamespace(config=BertConfig(**SIZES))
    short = types.SimpleNamespace(
        config=BertConfig(**SIZES, max_position_embeddings=9)
    )
    assert Embedder(bert, None, 64).segment_len == 64
    assert Embedder(short, None, 64).segment_len == 9
    with pytest.raises(ValueError, match="CLS, a piece and SEP"):
        Embedder(short, None, 2)


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
