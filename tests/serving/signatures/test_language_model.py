"""What an exported masked language model answers."""

import numpy as np
import pytest
import tensorflow as tf

from common.contract.symbols import SymbolIds
from common.contract.task_spec import TaskSpec
from data.finetuning.features import pair_features
from data.text.graph.graph_tokenizer import GraphTokenizer
from data.text.tokenizer import Tokenizer
from modeling import PretrainingModel
from modeling.encoders.bert.config import AlbertConfig
from modeling.encoders.modernbert.config import ModernBertConfig
from serving.generation import fill
from serving.generation.language_model import LanguageModel
from serving.signatures.language_model import _embed, lm_signatures
from serving.signatures.sequence import Context
from tests.serving.generation.asked_models import Pieces, make_model

SIZES = dict(vocab_size=1000, d_model=8, n_head=2, d_inner=6)


@pytest.fixture(scope="module")
def lm(spiece_model):
    return LanguageModel(make_model(), Tokenizer(spiece_model))


@pytest.mark.shared
@pytest.mark.parametrize(
    "config",
    [
        AlbertConfig(**SIZES, n_layer=1, embedding_size=4),
        ModernBertConfig(**SIZES, n_layer=2, local_window=6),
    ],
    ids=lambda config: config.model_type,
)
def test_one_stream_gives_vectors_and_fills(config, spiece_model):
    """Nothing that needs memory, and CLS is the first row."""
    tf.keras.utils.set_random_seed(5)
    model = PretrainingModel(config)
    tokenizer = Tokenizer(spiece_model)
    spec = TaskSpec("lm", "pretraining", (), 9, tokenizer.settings, "")
    graph = GraphTokenizer(tokenizer.vocabulary.content, tokenizer.settings)
    found = lm_signatures(Context(model, spec, graph, tokenizer.symbols))
    assert found.keys() == {"serving_default", "tokenize", "fill_mask"}
    texts = ["It cost 12,000 francs and nobody asked.", "No"]
    answers = found["serving_default"].function(text=tf.constant(texts))
    for i, text in enumerate(texts):
        pieces = tokenizer.encode(text)
        row = pair_features.join_segments(
            [pieces], 9, tokenizer.symbols, layout="cls_first"
        )
        ids = row.ids
        output = model(np.array([ids]), segment_ids=np.array([row.segments]))
        states = output.sequence_output[0].numpy()
        assert answers["num_tokens"][i] == len(ids)
        assert bool(answers["truncated"][i]) == (len(pieces) > 7)
        np.testing.assert_allclose(answers["cls"][i], states[0], atol=1e-5)
        np.testing.assert_allclose(
            answers["embedding"][i], states[1:-1].mean(0), atol=1e-5
        )


def test_the_vector_of_a_text_is_the_mean_of_its_pieces():
    """In a batch with padding, as alone; SEP and CLS are no pieces."""
    model = make_model(vocab_size=40)
    spec = type("Spec", (), {"max_seq_length": 16})
    context = Context(model, spec, Pieces(), SymbolIds())
    texts = tf.constant(["ab", "cabde"])
    found = _embed(context, texts)
    for row, text in enumerate(("ab", "cabde")):
        ids = [[*Pieces().encode(text), 4, 3]]
        kinds = np.array([[0] * (len(text) + 1) + [2]])
        output = model.encoder(np.asarray(ids), segment_ids=kinds)
        output = output.sequence_output[0].numpy()
        np.testing.assert_allclose(
            found["embedding"][row], output[:-2].mean(0), atol=2e-5
        )
        np.testing.assert_allclose(found["cls"][row], output[-1], atol=2e-5)
    # Without pieces it is CLS, as in `serving.embed`, and not zeros.
    found = _embed(context, tf.constant(["", "ab"]))
    np.testing.assert_array_equal(found["embedding"][0], found["cls"][0])
    assert np.abs(found["embedding"][0]).max() > 0.0


def test_streamed_signatures_equal_one_long_call():
    """Left-to-right scores in two calls with memory = in one."""
    model = make_model(vocab_size=30)
    spec = type("Spec", (), {"max_seq_length": 16})
    context = type("C", (), {"model": model, "spec": spec, "tokenizer": None})
    context.ids = type("I", (), {"eod": 7})
    score = lm_signatures(context)["score"].function
    ids = np.array([[4, 9, 12, 7, 21, 3], [5, 5, 8, 20, 2, 1]], np.int32)
    memory = tf.zeros([2, 2, 1, 20])
    length = tf.zeros([2], tf.int32)
    ones = tf.ones([2, 6], tf.int32)
    whole = score(ids, ones, memory, length)["token_log_probs"]
    parts = []
    for begin in (0, 3):
        out = score(ids[:, begin : begin + 3], ones[:, :3], memory, length)
        memory, length = out["new_memory"], out["new_memory_length"]
        parts.append(out["token_log_probs"])
    np.testing.assert_allclose(tf.concat(parts, 1), whole, atol=2e-5)
    assert length.numpy().tolist() == [6, 6]


@pytest.mark.long
@pytest.mark.shared
def test_the_command_and_the_export_fill_with_equal_probabilities(lm):
    symbols = lm.tokenizer.symbols
    # Likely, if they were offered.
    bias = np.zeros(1000, np.float32)
    bias[[symbols.eop, symbols.eod, symbols.unk]] = 9.0
    model = make_model()
    model.lm_head.bias.assign(bias)
    lm = lm._replace(model=model)
    spec = TaskSpec(
        task_name="lm",
        head="pretraining",
        labels=(),
        max_seq_length=64,
        text=lm.tokenizer.settings,
        spiece_sha256=lm.tokenizer.sha256,
    )
    with open(lm.tokenizer.path, "rb") as f:
        graph = GraphTokenizer(f.read(), lm.tokenizer.settings)
    context = Context(lm.model, spec, graph, symbols)
    text = "The <mask> was <mask>."
    out = lm_signatures(context)["fill_mask"].function(tf.constant([text]))
    hidden = fill.parse(lm, text, None)
    filler = fill.Filler(lm)
    order = np.arange(2)
    (best,) = filler.search(hidden, order, 1)
    ids = hidden.ids.copy()
    ids[hidden.positions] = best.ids
    factors = filler.factors(ids[np.newaxis], hidden.positions, order)[0]
    top = -np.sort(-np.exp(factors), axis=-1)[:, :10]
    np.testing.assert_allclose(out["probabilities"][0], top, rtol=2e-5)
    assert [p.decode() for p in out["pieces"][0, :, 0].numpy()] == [
        lm.tokenizer.id_to_piece(int(i)) for i in best.ids
    ]
    assert float(out["joint_log_prob"][0]) == pytest.approx(best.joint, 1e-5)
    # A mask beyond the model's length is not one that was certain.
    cut = lm_signatures(context)["fill_mask"].function(
        tf.constant([text, "was " * 70 + "<mask>"])
    )
    assert cut["truncated"].numpy().tolist() == [False, True]
    assert cut["num_masks"].numpy().tolist() == [2, 0]
    # A zero-width space has no piece; alone it ended in an error.
    none = lm_signatures(context)["fill_mask"].function(tf.constant(["\u200b"]))
    assert none["filled"].numpy().tolist() == [b""]
    assert none["num_masks"].numpy().tolist() == [0]
    assert none["joint_log_prob"].numpy().tolist() == [0.0]
