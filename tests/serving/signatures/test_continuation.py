"""What an exported permutation language model adds to a text."""

import numpy as np
import pytest
import tensorflow as tf

from common.contract.task_spec import TaskSpec
from data.text.graph.graph_tokenizer import GraphTokenizer
from data.text.tokenizer import Tokenizer
from modeling import PretrainingModel, XLNetConfig
from serving.generation.decoder import Generator
from serving.generation.options import SamplingOptions
from serving.signatures.continuation import continuation_signature
from serving.signatures.sequence import Context

pytestmark = [pytest.mark.slow, pytest.mark.shared]
TEXTS = ["It cost 12,000 francs and", "Nobody"]


def _asked(spiece_model):
    """(model, tokenizer, the signature as a graph) with rows of 8 pieces."""
    tf.keras.utils.set_random_seed(5)
    config = XLNetConfig(
        vocab_size=1000,
        d_model=16,
        n_layer=1,
        n_head=2,
        d_head=6,
        d_inner=20,
        init_std=0.4,
    )
    model = PretrainingModel(config)
    tokenizer = Tokenizer(spiece_model)
    spec = TaskSpec("lm", "pretraining", (), 8, tokenizer.settings, "")
    graph = GraphTokenizer(tokenizer.vocabulary.content, tokenizer.settings)
    signature = continuation_signature(
        Context(model, spec, graph, tokenizer.symbols)
    )
    concrete = tf.function(
        signature.function, autograph=False
    ).get_concrete_function(**signature.inputs)

    def ask(texts, count, temperature=0.0, top_k=0, seed=0):
        found = concrete(
            text=tf.constant(texts),
            max_new_tokens=tf.constant(count),
            temperature=tf.constant(temperature),
            top_k=tf.constant(top_k),
            seed=tf.constant(seed),
        )
        return {name: value.numpy() for name, value in found.items()}

    ask.alive = graph  # its table lives as long as it does
    return model, tokenizer, ask


def test_an_export_goes_on_with_texts(spiece_model):
    """One graph for all: a new seed of TensorFlow's empties its tables."""
    asked = _asked(spiece_model)
    _check_that_it_goes_on_as_the_generator_does(asked)
    _check_seeds_and_choices(asked)
    _check_that_a_text_ends_where_the_model_ends_it(asked)


def _check_that_it_goes_on_as_the_generator_does(asked):
    """The most probable pieces, of texts of two lengths, one cut to its end."""
    model, tokenizer, ask = asked
    found = ask(TEXTS, 6)
    symbols = tokenizer.symbols
    generator = Generator(
        model,
        np.asarray(sorted(symbols.never_written()), np.int32),
        symbols.eod,
        symbols.pad,
    )
    counts = [len(tokenizer.encode(text)) for text in TEXTS]
    assert counts[0] > 8 > counts[1] > 0
    assert found["truncated"].tolist() == [True, False]
    assert found["num_tokens"].tolist() == [8, counts[1]]
    for i, text in enumerate(TEXTS):
        prompt = np.asarray(tokenizer.encode(text)[-8:], np.int32)
        wanted = generator.generate(
            prompt,
            SamplingOptions(max_new_tokens=6, temperature=0.0, use_cache=False),
        )
        length = wanted.tokens.shape[1]
        tokens = found["tokens"][i]
        np.testing.assert_array_equal(tokens[:length], wanted.tokens[0])
        assert (tokens[length:] == symbols.pad).all()
        np.testing.assert_allclose(
            found["log_probs"][i, :length], wanted.log_probs[0], atol=2e-5
        )
        kept = tokens[: int(wanted.lengths[0])]
        kept = [int(t) for t in kept if t != symbols.eod]
        whole = tokenizer.decode([*map(int, prompt), *kept])
        added = found["continuation"][i].decode()
        assert added and whole == tokenizer.decode(prompt) + added


def _check_seeds_and_choices(asked):
    _, _, ask = asked
    one, same, other = (ask(TEXTS, 9, 1.0, 0, s)["tokens"] for s in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()
    best = ask(TEXTS, 9)["tokens"]
    np.testing.assert_array_equal(ask(TEXTS, 9, 1.0, 1, 3)["tokens"], best)


def _check_that_a_text_ends_where_the_model_ends_it(asked):
    model, tokenizer, ask = asked
    symbols, bias = tokenizer.symbols, model.lm_head.bias
    before = bias.numpy()
    raised = before.copy()
    raised[symbols.eod] = 1e3
    bias.assign(raised)
    try:
        found = ask(["Nobody"], 4)
    finally:
        bias.assign(before)
    assert found["tokens"].tolist() == [[symbols.eod, *[symbols.pad] * 3]]
    assert found["log_probs"][0, 1:].tolist() == [0.0] * 3
    assert found["continuation"].tolist() == [b""]
