"""An export of a masked language model fills as the command does."""

import numpy as np
import pytest
import tensorflow as tf

from common.contract.task_spec import TaskSpec
from data.text.opening import graph_tokenizer, open_tokenizer
from modeling.encoders.bert.config import BertConfig
from serving.generation import fill
from serving.generation.masked_fill import MaskedFiller
from serving.signatures.language_model import lm_signatures
from serving.signatures.sequence import Context
from tests.serving.generation.asked_models import (
    HIDDEN_TEXT as TEXT,
)
from tests.serving.generation.asked_models import (
    MASKED,
    MASKED_SIZES,
    masked_lm,
    released_tokenizer,
)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return released_tokenizer(tmp_path_factory)


@pytest.mark.long
@pytest.mark.parametrize("config", MASKED, ids=lambda c: c.model_type)
def test_the_export_fills_as_the_command_does(config, tokenizer):
    lm = masked_lm(config, tokenizer)
    spec = TaskSpec(
        "lm", "pretraining", (), 16, tokenizer.settings, tokenizer.sha256
    )
    graph = graph_tokenizer(tokenizer)
    signatures = lm_signatures(
        Context(lm.model, spec, graph, tokenizer.symbols)
    )
    assert set(signatures) == {"serving_default", "fill_mask", "tokenize"}
    texts = [TEXT, "a boat", "x " * 20 + "<mask>", "[MASK]"]
    out = signatures["fill_mask"].function(tf.constant(texts))
    assert out["num_masks"].numpy().tolist() == [2, 0, 0, 1]
    assert out["truncated"].numpy().tolist() == [False, False, True, False]
    assert out["independent"].numpy().all()
    filler = MaskedFiller(lm)
    for row in (0, 3):
        hidden = fill.parse(lm, texts[row], None)
        factors = filler.log_probs(hidden.ids, hidden.positions)
        best = filler.search(hidden, 1)[0]
        for place, index in enumerate(best.ids):
            pieces = [p.decode() for p in out["pieces"][row, place].numpy()]
            assert pieces[0] == tokenizer.id_to_piece(int(index))
            ids = [tokenizer.package.token_to_id(p) for p in pieces]
            np.testing.assert_allclose(
                out["probabilities"][row, place],
                np.exp(factors[place, ids]),
                atol=1e-5,
            )
    # Rows without masks are the text.
    assert out["filled"][1].numpy() == b"a boat"
    assert not out["probabilities"][1].numpy().any()
    vectors = signatures["serving_default"].function(tf.constant(["a boat"]))
    ids = tokenizer.encode("a boat")
    row = [tokenizer.symbols.cls, *ids, tokenizer.symbols.sep]
    states = lm.model(np.asarray([row], np.int32)).sequence_output[0]
    np.testing.assert_allclose(
        vectors["embedding"][0], np.mean(states[1:-1], 0), atol=1e-5
    )
    np.testing.assert_allclose(vectors["cls"][0], states[0], atol=1e-5)


@pytest.mark.shared
def test_a_sentencepiece_vocabulary_hides_places_as_in_training(spiece_model):
    offline = open_tokenizer(spiece_model)
    config = BertConfig(**(MASKED_SIZES | {"vocab_size": offline.vocab_size}))
    lm = masked_lm(config, offline)
    spec = TaskSpec("lm", "pretraining", (), 24, offline.settings, "")
    context = Context(lm.model, spec, graph_tokenizer(offline), offline.symbols)
    text = "The <mask> was <mask>."
    out = lm_signatures(context)["fill_mask"].function(tf.constant([text]))
    hidden = fill.parse(lm, text, None)
    best = MaskedFiller(lm).search(hidden, 1)[0]
    assert [p.decode() for p in out["pieces"][0, :, 0].numpy()] == [
        offline.id_to_piece(int(i)) for i in best.ids
    ]
