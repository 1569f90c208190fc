"""Embeddings of encoders that have CLS first, and of those that have none."""

import json
import types

import numpy as np
import pytest
import tensorflow as tf

from data.text.tokenizer import Tokenizer
from modeling import PretrainingModel
from modeling.encoders.bert.config import BertConfig
from modeling.encoders.modernbert.config import ModernBertConfig
from serving.generation.embeddings import Embedder
from serving.generation.language_model import LanguageModel
from serving.generation.sentence_folder import SentenceFolder
from tests.serving.generation.asked_models import Pieces, make_model

SIZES = dict(vocab_size=1000, d_model=16, n_layer=2, n_head=2, d_inner=24)
TEXTS = [
    "A short text.",
    "The caf\u00e9 owner paid 12,000 francs, and nobody asked why he did so.",
]


@pytest.fixture(scope="module")
def lm(spiece_model):
    return LanguageModel(make_model(), Tokenizer(spiece_model))


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


def test_cls_is_the_last_vector_of_what_the_encoder_reads():
    model = make_model(vocab_size=40)
    embedder = Embedder(model.encoder, Pieces(), segment_len=16)
    (found,) = embedder.embed(["abca"])
    ids = [[9, 10, 11, 9, 4, 3]]  # ... SEP CLS
    output = (
        model.encoder(
            np.asarray(ids), segment_ids=np.array([[0, 0, 0, 0, 0, 2]])
        )
        .sequence_output[0]
        .numpy()
    )
    np.testing.assert_allclose(found.cls, output[5], atol=2e-5)
    np.testing.assert_allclose(found.vectors, output[:4], atol=2e-5)
    np.testing.assert_allclose(
        found.pooled("mean"), output[:4].mean(0), atol=2e-5
    )
    np.testing.assert_allclose(found.pooled("last"), output[3], atol=2e-5)


@pytest.mark.long
@pytest.mark.shared
def test_embeddings_ignore_padding_batch_and_order(lm, golden):
    with open(golden / "text" / "encode.json") as f:
        texts = [c["text"] for c in json.load(f)["cases"]][:12]
    texts = [t for t in texts if t.strip()]
    model = make_model(mem_len=12)
    embedder = Embedder(model.encoder, lm.tokenizer, segment_len=8)
    one = list(embedder.embed(texts, batch_size=1))
    many = list(embedder.embed(texts, batch_size=7))
    turned = list(embedder.embed(texts[::-1], batch_size=5))[::-1]
    for text, a, b, c in zip(texts, one, many, turned, strict=True):
        for other in (b, c):
            np.testing.assert_allclose(a.vectors, other.vectors, atol=2e-5)
            np.testing.assert_allclose(a.cls, other.cls, atol=2e-5)
        ids, starts, ends = lm.tokenizer.encode_with_offsets(text)
        assert (a.starts, a.ends) == (starts, ends)
        assert len(a.vectors) == len(ids) == len(a.pieces)
        mean = a.vectors.astype(np.float64).mean(0)
        np.testing.assert_allclose(a.pooled("mean"), mean, atol=1e-6)
        np.testing.assert_array_equal(a.pooled("last"), a.vectors[-1])


@pytest.mark.slow
@pytest.mark.shared
def test_memory_reaches_later_segments_and_layers_can_be_picked(lm):
    with_memory = make_model(mem_len=16).encoder
    without = make_model().encoder
    first = "One two three four five six. "
    texts = [first + "The end of it.", "Quite another start. " + first * 2]
    seen = Embedder(with_memory, lm.tokenizer, 6)
    blind = Embedder(without, lm.tokenizer, 6)
    a, b = list(seen.embed(texts))[0], list(blind.embed(texts))[0]
    np.testing.assert_allclose(a.vectors[:6], b.vectors[:6], atol=2e-5)
    assert np.abs(a.vectors[6:] - b.vectors[6:]).max() > 1e-2
    words = Embedder(without, lm.tokenizer, 6, layer=0)
    table = without.embeddings.lookup_table.numpy()
    ids = lm.tokenizer.encode(texts[0])
    vectors = list(words.embed(texts))[0].vectors
    np.testing.assert_array_equal(vectors, table[ids])
    with pytest.raises(ValueError, match="layer"):
        Embedder(without, lm.tokenizer, 6, layer=4)
