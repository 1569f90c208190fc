"""Vectors of pieces: of an encoder's layers, of a table, and what is refused."""

import hashlib
import types

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from common.contract.symbols import SymbolIds
from common.errors import UserError
from data.text.tokenizer import Tokenizer
from modeling import XLNetConfig
from modeling.checkpoints.names import named_variables
from modeling.encoders import registry
from modeling.encoders.bert.config import AlbertConfig, BertConfig
from modeling.encoders.modernbert.config import ModernBertConfig
from modeling.encoders.transformer_xl.config import TransformerXLConfig
from modeling.heads.classification import ClassificationModel
from training.finetuning.ranking import vectors
from training.finetuning.ranking.options import AUTO, RANDOM, RankerOptions


@pytest.mark.slow
@pytest.mark.shared
def test_every_encoder_gives_a_vector_per_piece(spiece_model):
    tokenizer = Tokenizer(spiece_model)
    rows = [np.asarray(tokenizer.encode(t)) for t in ("a b c", "", "winter")]
    sizes = {"vocab_size": tokenizer.vocab_size, "d_model": 8, "n_layer": 2}
    sizes |= {"n_head": 2, "d_inner": 12}
    own = {"xlnet": {"d_head": 4}, "albert": {"embedding_size": 5}}
    read = 0
    for name, row in registry.ENCODERS.items():
        if row.capabilities.layout == "stream":
            continue
        read += 1
        config = registry.config_from_dict(
            sizes | own.get(name, {}) | {"model_type": name}
        )
        tf.keras.utils.set_random_seed(0)
        model = ClassificationModel(config.with_memory(None), num_labels=1)
        source = vectors.EncoderVectors(model, tokenizer.symbols, (0, 2), 2)
        found = source.embed(rows)
        count = sum(map(len, rows))
        assert found.shape == (2, count, 8), name
        alone = source.embed([rows[2]])
        np.testing.assert_allclose(
            found[:, -len(rows[2]) :], alone, atol=1e-5, err_msg=name
        )
        assert not np.allclose(found[0], found[1])
        assert np.abs(found[1]).sum(-1).min() > 0
    assert read >= 4


def test_an_encoder_of_streams_is_refused():
    config = TransformerXLConfig(
        vocab_size=30, d_model=8, n_layer=1, n_head=2, d_head=4, d_inner=12
    )
    options = RankerOptions(layer="0")
    with pytest.raises(UserError, match="transformer_xl reads streams"):
        vectors.open_encoder(config, None, None, options)


XLNET = XLNetConfig(
    vocab_size=30, d_model=6, n_layer=2, n_head=2, d_head=3, d_inner=7
)
SMALL = {"d_model": 6, "n_layer": 2, "n_head": 2, "d_inner": 7}
ROWS = [np.array(row, np.int32) for row in ([11, 12, 13], [], [14, 11], [12])]


@pytest.mark.long
@pytest.mark.parametrize(
    "config",
    [
        XLNET,
        AlbertConfig(vocab_size=30, embedding_size=4, **SMALL),
    ],
    ids=lambda config: config.model_type,
)
def test_a_piece_has_its_vector_whatever_stands_in_the_batch(config):
    lengths = {"max_doc_length": 9, "max_query_length": 9}
    options = RankerOptions(embed_batch_size=2, **lengths)
    source = vectors.open_encoder(config, None, SymbolIds(), options, 5)
    assert source.layers == (0, 1, 2)
    found = source.embed(ROWS)
    assert found.shape == (3, 6, 6) and found.dtype == np.float32
    ends = np.cumsum([0, *map(len, ROWS)])
    for row, start, end in zip(ROWS, ends[:-1], ends[1:], strict=True):
        alone = source.embed([row])
        np.testing.assert_allclose(found[:, start:end], alone, atol=1e-5)
    # XLNet's embeddings know no positions; ALBERT's are narrower.
    if config is XLNET:
        np.testing.assert_allclose(found[0, 0], found[0, 4], atol=1e-5)
    assert (found[0, :, 4:] == 0.0).all() == (config is not XLNET)
    assert np.abs(found[2, 0] - found[2, 4]).max() > 1e-4
    stored = source.states(ROWS[0], found.astype(np.float16))
    assert stored.dtype == np.float32
    # The name of what is kept: the weights and the layers.
    again = vectors.open_encoder(config, None, SymbolIds(), options, 5)
    assert again.fingerprint == source.fingerprint
    others = [
        vectors.open_encoder(
            config,
            None,
            SymbolIds(),
            RankerOptions(layer=layer, **lengths),
            seed,
        )
        for layer, seed in (("1", 5), (AUTO, 6))
    ]
    prints = {source.fingerprint, *(other.fingerprint for other in others)}
    assert len(prints) == 3


@pytest.mark.long
def test_the_last_layer_is_read_behind_its_norm():
    """It was read before: stored vectors of it are made again, no others."""
    config = ModernBertConfig(
        vocab_size=30, local_window=4, **SMALL | {"n_head": 1}
    )
    options = RankerOptions(max_doc_length=9, max_query_length=9)
    source = vectors.open_encoder(config, None, SymbolIds(), options, 5)
    source.encoder.final_norm.gamma.assign(np.linspace(0.2, 3.0, 6))
    row, symbols = ROWS[0], SymbolIds()
    ids = np.asarray([[symbols.cls, *row, symbols.sep]])
    output = source.encoder(ids, output_hidden_states=True)
    read = (*output.hidden_states[:-1], output.sequence_output)
    for found, wanted in zip(source.embed([row]), read, strict=True):
        np.testing.assert_allclose(found, wanted[0, 1:-1], atol=1e-5)
    for layers in ((0, 1), (1, 2)):
        digest = hashlib.sha256(repr((config.to_dict(), layers)).encode())
        for name, variable in sorted(named_variables(source.model).items()):
            if name.startswith(source.encoder.scope):
                digest.update(name.encode())
                digest.update(variable.numpy().tobytes())
        found = vectors._fingerprint(source.model, layers)
        assert (found == digest.hexdigest()) == (2 not in layers)


def test_vectors_of_another_precision_have_a_name_of_their_own():
    """Else a run in float32 goes on with those of bfloat16."""
    options = RankerOptions(max_doc_length=9, max_query_length=9)
    sources = []
    for policy in ("float32", "mixed_bfloat16"):
        tf_keras.mixed_precision.set_global_policy(policy)
        try:
            sources.append(
                vectors.open_encoder(XLNET, None, SymbolIds(), options, 5)
            )
        finally:
            tf_keras.mixed_precision.set_global_policy("float32")
    one, other = (source.embed(ROWS) for source in sources)
    assert 0 < np.abs(one - other).max() < 0.1
    assert sources[0].fingerprint != sources[1].fingerprint


def test_layers_that_are_asked_for():
    assert vectors.layers_of(XLNET, AUTO) == (0, 1, 2)
    for layer in (0, 2):
        assert vectors.layers_of(XLNET, str(layer)) == (layer,)
    with pytest.raises(UserError, match=r"must be 0 .embeddings. to 2, rec"):
        vectors.layers_of(XLNET, "3")


def test_texts_that_are_longer_than_an_encoder_reads():
    bert = BertConfig(vocab_size=30, max_position_embeddings=14, **SMALL)
    assert vectors.places(XLNET) is None and vectors.places(bert) == 12
    for flag in ("max_doc_length", "max_query_length"):
        lengths = {"max_doc_length": 12, "max_query_length": 12}
        options = RankerOptions(**(lengths | {flag: 13}))
        with pytest.raises(UserError, match=f"--{flag}=13: .* at most 12"):
            vectors.open_encoder(bert, None, None, options)


def test_a_table_has_one_vector_per_piece():
    rows = np.arange(12, dtype=np.float64).reshape(4, 3)
    table = vectors.TableVectors(rows)
    assert (table.layers, table.dim) == ((0,), 3)
    assert table.embed([np.array([1])]) is None
    found = table.states(np.array([2, 0, 2]), None)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, rows[[2, 0, 2]][np.newaxis])
    same = vectors.TableVectors(rows.astype(np.float32))
    assert table.fingerprint == same.fingerprint
    assert table.fingerprint != vectors.TableVectors(rows + 1).fingerprint


def test_random_vectors_are_of_the_seed():
    one, same, other = (vectors.open_table(RANDOM, 9, 4, s) for s in (3, 3, 5))
    assert one.table.shape == (9, 4)
    assert one.fingerprint == same.fingerprint != other.fingerprint
    assert abs(one.table.mean()) < 1.0 < 2 * one.table.std()


def test_a_table_of_a_file(tmp_path):
    path = str(tmp_path / "v.npy")
    rows = np.random.default_rng(0).normal(size=(9, 4))
    np.save(path, rows)
    found = vectors.open_table(path, 9, 77, 0)
    np.testing.assert_array_equal(found.table, rows.astype(np.float32))
    wrong = {
        r"wanted floats .9, D., .* found float64 .8, 4.": rows[:8],
        r"found int64 .9, 4.": np.zeros((9, 4), np.int64),
        r"found float64 .9.": rows[:, 0],
        "must be encoder, random or an .npy file": np.array([None] * 9),
    }
    for message, array in wrong.items():
        np.save(path, array, allow_pickle=True)
        with pytest.raises(UserError, match=message):
            vectors.open_table(path, 9, 4, 0)
    with open(path, "wb") as f:
        np.savez(f, rows=rows)
    with pytest.raises(UserError, match="found an archive"):
        vectors.open_table(path, 9, 4, 0)
    for text in ("", "no table"):
        (tmp_path / "v.npy").write_text(text)
        with pytest.raises(UserError, match="must be encoder, random or an"):
            vectors.open_table(path, 9, 4, 0)
    with pytest.raises(UserError, match="gone.npy"):
        vectors.open_table(str(tmp_path / "gone.npy"), 9, 4, 0)


def test_the_encoders_own_table_is_that_of_its_words(monkeypatch):
    rows = np.arange(6.0).reshape(3, 2)
    monkeypatch.setattr(
        vectors,
        "named_variables",
        lambda model: {
            "model/transformer/r_w_bias": tf.Variable([7.0]),
            "model/transformer/word_embedding/lookup_table": tf.Variable(rows),
        },
    )
    found = vectors.word_table(types.SimpleNamespace(model=None))
    np.testing.assert_array_equal(found.table, rows)
