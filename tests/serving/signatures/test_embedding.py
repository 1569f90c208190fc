"""Vectors of the graph are those of `serving.generation.embeddings`."""

import numpy as np
import pytest
import tensorflow as tf

from common.contract.symbols import CLS_FIRST, SymbolIds
from common.contract.task_spec import TaskSpec
from common.heads import TEXT_POOLINGS
from modeling.encoders.bert.config import BertConfig
from modeling.encoders.registry import spec_of
from modeling.encoders.xlnet.config import XLNetConfig
from modeling.heads.embedding import EmbeddingModel
from serving.generation.embeddings import Embedder
from serving.generation.sentence_folder import SentenceFolder
from serving.signatures import build
from serving.signatures.sequence import Context

SIZES = dict(vocab_size=40, d_model=6, n_layer=1, n_head=3, d_inner=10)
BERT = BertConfig(**SIZES, max_position_embeddings=8)
XLNET = XLNetConfig(**SIZES, d_head=2)
TEXTS = ["abc", "", "bbadefghijk"]  # the last is longer than a row
LONGEST = 8


class Letters:
    """Each letter is a piece, offline and in the graph."""

    symbols = SymbolIds()

    def encode_batch(self, texts):
        return [[ord(c) - 80 for c in text] for text in texts]

    def encode_with_offsets(self, text):
        places = list(range(len(text)))
        return self.encode_batch([text])[0], places, [i + 1 for i in places]

    def id_to_piece(self, i):
        return chr(i + 80)


class GraphLetters(tf.Module):
    """The same of strings [B]."""

    def tokenize(self, text):
        codes = tf.strings.unicode_decode(text, "UTF-8")
        return tf.cast(codes, tf.int32) - 80


def _signatures(config, **head_options):
    model = EmbeddingModel(config, **head_options)
    for i, variable in enumerate(model.variables):
        variable.assign(tf.random.stateless_normal(variable.shape, [3, i]))
    layout = spec_of(config.model_type).capabilities.layout
    spec = TaskSpec(
        "embedding", "embedding", (), LONGEST, None, "", {}, {"layout": layout}
    )
    context = Context(model, spec, GraphLetters(), Letters.symbols)
    return model, build.build(context)


def _close(found, wanted):
    np.testing.assert_allclose(found, wanted, atol=1e-5)


@pytest.mark.long
@pytest.mark.parametrize("pooling", TEXT_POOLINGS)
@pytest.mark.parametrize("config", [BERT, XLNET])
def test_a_pooling_is_that_of_embed(config, pooling):
    model, signatures = _signatures(config, pooling=pooling)
    found = signatures["serving_default"].function(text=tf.constant(TEXTS))
    embedder = Embedder(model.encoder, Letters(), LONGEST)
    whole = list(embedder.embed([text[: LONGEST - 2] for text in TEXTS]))
    _close(found["embedding"], [one.pooled(pooling) for one in whole])
    assert found["num_tokens"].numpy().tolist() == [5, 2, LONGEST]
    assert found["truncated"].numpy().tolist() == [False, False, True]


@pytest.mark.long
@pytest.mark.parametrize("pooling", ["cls", "mean", "max"])
@pytest.mark.parametrize("normalize", [False, True])
def test_a_folder_s_rule_is_that_of_embed(pooling, normalize):
    rule = SentenceFolder(pooling, normalize, LONGEST)
    model, signatures = _signatures(
        BERT, pooling=pooling, normalize=normalize, with_symbols=True
    )
    found = signatures["serving_default"].function(text=tf.constant(TEXTS))
    embedder = Embedder(model.encoder, Letters(), LONGEST)
    _close(found["embedding"], list(embedder.sentences(TEXTS, rule)))


@pytest.mark.parametrize("config", [BERT, XLNET])
def test_pieces_and_ids_give_the_vectors_of_their_text(config):
    _, signatures = _signatures(config, pooling="max")
    wanted = signatures["serving_default"].function(text=tf.constant(TEXTS))
    rows = Letters().encode_batch(TEXTS)
    width = max(map(len, rows))
    ids = np.asarray([row + [9] * (width - len(row)) for row in rows], np.int32)
    mask = np.asarray([[i < len(row) for i in range(width)] for row in rows])
    found = signatures["pieces"].function(
        input_ids=tf.constant(ids), input_mask=tf.constant(mask, tf.int32)
    )
    for name, value in wanted.items():
        _close(found[name], value)
    # The padding may be anywhere.
    left = signatures["pieces"].function(
        input_ids=tf.constant(ids[:, ::-1].copy()),
        input_mask=tf.constant(mask[:, ::-1].astype(np.int32)),
    )
    turned = signatures["pieces"].function(
        input_ids=tf.constant([r[::-1] + [9] * (width - len(r)) for r in rows]),
        input_mask=tf.constant(mask, tf.int32),
    )
    for name, value in turned.items():
        _close(left[name], value)
    special = Letters.symbols
    first = spec_of(config.model_type).capabilities.layout == CLS_FIRST
    row = [special.cls, *rows[0]] if first else rows[0]
    row = [*row, special.sep] if first else [*row, special.sep, special.cls]
    kinds = [0] * len(row) if first else [0] * (len(row) - 1) + [2]
    one = signatures["ids"].function(
        input_ids=tf.constant([row]),
        segment_ids=tf.constant([kinds]),
        input_mask=tf.ones([1, len(row)], tf.int32),
    )
    _close(one["embedding"][0], wanted["embedding"][0])


def test_an_unknown_pooling_is_refused():
    with pytest.raises(ValueError, match="must be one of"):
        EmbeddingModel(BERT, pooling="first")
