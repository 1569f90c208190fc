"""What an exported masked language model answers."""

import numpy as np
import pytest
import tensorflow as tf

from common.contract.task_spec import TaskSpec
from data.finetuning.features import pair_features
from data.text.graph.graph_tokenizer import GraphTokenizer
from data.text.tokenizer import Tokenizer
from modeling import PretrainingModel
from modeling.encoders.bert.config import AlbertConfig
from modeling.encoders.modernbert.config import ModernBertConfig
from serving.signatures.language_model import lm_signatures
from serving.signatures.sequence import Context

SIZES = dict(vocab_size=1000, d_model=8, n_head=2, d_inner=6)


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
