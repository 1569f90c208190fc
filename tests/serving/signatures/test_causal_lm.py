"""Raw text in the graph of a left-to-right model: as the vocabulary says."""

import numpy as np
import pytest
import tensorflow as tf

from data.text.lm_vocabulary import PieceVocabulary
from modeling.encoders.transformer_xl.config import TransformerXLConfig
from modeling.heads.causal_lm import CausalLanguageModel
from serving.generation import causal_decoder
from serving.generation.causal_decoder import CausalGenerator
from serving.generation.causal_scoring import CausalScorer
from serving.generation.options import SamplingOptions
from serving.signatures.causal_lm import causal_signatures
from serving.signatures.graph_symbols import tokenizer_of
from serving.signatures.sequence import Context
from tests.serving.generation.asked_models import asked

TEXTS = [
    "It cost 12 francs, he said.",
    "Nobody  asked twice",
    "é",
    "asked\n\nhe cost\n",
]


@pytest.fixture(scope="module")
def pieces(spiece_model):
    """(model, vocabulary) of pieces."""
    vocabulary = PieceVocabulary(spiece_model, "eos")
    config = TransformerXLConfig(
        vocab_size=vocabulary.size,
        d_model=8,
        n_layer=1,
        n_head=2,
        d_head=3,
        d_inner=6,
        mem_len=6,
        init_std=0.5,
    )
    return CausalLanguageModel(config), vocabulary


@pytest.mark.slow
def test_pieces_are_scored_and_continued(pieces):
    model, vocabulary = pieces
    best = np.argsort(-model.log_probs(tf.zeros([1, 8])).numpy()[0])
    banned = np.sort(best[:200]).astype(np.int32)
    context = Context(model, None, tokenizer_of(vocabulary), None)
    found = causal_signatures(context, banned)
    answer = found["score_text"].function(text=tf.constant(TEXTS))
    for i, text in enumerate(TEXTS):
        ids = [vocabulary.eos_id, *vocabulary.encode(text)]
        assert answer["token_ids"][i, : len(ids)].numpy().tolist() == ids
        hidden = model(tf.constant([ids[:-1]])).sequence_output
        wanted = -model.token_losses(hidden, tf.constant([ids[1:]]))
        np.testing.assert_allclose(
            answer["log_prob"][i], tf.reduce_sum(wanted), rtol=1e-5
        )
    how = {"max_new_tokens": 9, "temperature": 0.0, "top_k": 0, "seed": 0}
    how = {k: tf.constant(v) for k, v in how.items()}
    answer = found["generate_text"].function(text=tf.constant(TEXTS), **how)
    generator = CausalGenerator(model, banned, vocabulary.eos_id)
    for i, text in enumerate(TEXTS):
        head = vocabulary.encode(text)
        wanted = generator.generate(
            np.asarray([vocabulary.eos_id, *head], np.int32),
            SamplingOptions(max_new_tokens=9, num_samples=1, temperature=0.0),
        )
        tokens = answer["tokens"][i].numpy()
        np.testing.assert_array_equal(tokens, wanted.tokens[0])
        assert not set(tokens) & set(banned)
        np.testing.assert_allclose(
            answer["log_probs"][i], wanted.log_probs[0], atol=1e-5
        )
        shown = answer["continuation"][i].numpy().decode()
        whole = vocabulary.decode([*head, *tokens])
        assert whole == vocabulary.decode(head) + shown


@pytest.mark.long
@pytest.mark.parametrize("count", [8, 9, 21])
def test_a_long_text_is_read_in_segments(monkeypatch, count):
    """It was one segment, each of whose tokens saw all before it."""
    monkeypatch.setattr(causal_decoder, "SEGMENT", 4)
    lm = asked("none", ["a", "b", "c", "<unk>"], init_std=1.0)
    context = Context(lm.model, None, tokenizer_of(lm.vocabulary), None)
    found = causal_signatures(context, np.zeros([0], np.int32))
    how = {"max_new_tokens": 6, "temperature": 0.0, "top_k": 0, "seed": 1}
    how = {k: tf.constant(v) for k, v in how.items()}
    texts = ["a b c c a b b a c b a b a a c b c c b a b".split()[:count], ["b"]]
    answer = found["generate_text"].function(
        text=tf.constant([" ".join(words) for words in texts]), **how
    )
    generator = CausalGenerator(lm.model, [])
    sampling = SamplingOptions(max_new_tokens=6, temperature=0.0)
    for i, words in enumerate(texts):
        ids = lm.vocabulary.encode(" ".join(words))
        wanted = generator.generate(ids, sampling)
        np.testing.assert_array_equal(answer["tokens"][i], wanted.tokens[0])
        np.testing.assert_allclose(
            answer["log_probs"][i], wanted.log_probs[0], atol=1e-5
        )


def test_a_text_without_tokens_is_scored():
    """As `serving.score` does it; pieces have none of a zero-width space."""
    lm = asked("none", ["a", "b", "c", "<unk>"], n_layer=1)
    context = Context(lm.model, None, tokenizer_of(lm.vocabulary), None)
    score = causal_signatures(context, np.zeros([0], np.int32))["score_text"]
    for texts, counts in ((["", ""], [0, 0]), (["", "a b c"], [0, 3])):
        answer = score.function(text=tf.constant(texts))
        assert answer["num_tokens"].numpy().tolist() == counts
        scored = [max(count - 1, 0) for count in counts]
        assert answer["num_scored"].numpy().tolist() == scored
        assert answer["log_prob"][0] == 0.0


@pytest.mark.long
@pytest.mark.parametrize(
    "changes",
    [
        {"memory_start": "zeros"},
        {"same_length": True},
        {"memory_start": "zeros", "same_length": True},
        {"encoding": "absolute", "max_positions": 8},
    ],
)
def test_texts_begin_as_in_evaluation(pieces, changes):
    """Raw text is scored as `CausalScorer` scores its ids, or not at all."""
    _, vocabulary = pieces
    config = pieces[0].config.replace(**changes)
    model = CausalLanguageModel(config)
    context = Context(model, None, tokenizer_of(vocabulary), None)
    found = causal_signatures(context, np.zeros([0], np.int32))
    if config.bound_to_segment:  # its numbers would depend on the others
        assert "text" not in found["serving_default"].inputs
        return
    text = "It cost"
    sums = []
    for name, line_end in (
        *(("score_line", True), ("score_text", False)),
        ("serving_default", True),
    ):
        ids, _ = vocabulary.encode_line(text, line_end)
        (wanted,) = CausalScorer(model, len(ids) - 1, 1).score([ids])
        answer = found[name].function(text=tf.constant([text, TEXTS[0]]))
        np.testing.assert_allclose(
            answer["token_log_probs"][0, : len(wanted)], wanted, atol=2e-5
        )
        assert answer["num_tokens"][0] == len(ids)
        assert answer["num_scored"][0] == len(wanted)
        sums.append(float(answer["log_prob"][0]))
        assert sums[-1] == pytest.approx(wanted.sum(), abs=1e-4)
    assert sums[0] == sums[2] < sums[1] - 1e-3
