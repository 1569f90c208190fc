"""Toy models and what is said of them when they are exported."""

import tensorflow as tf

from common.contract.task_spec import TaskSpec
from common.vocabularies.text_settings import TextSettings
from modeling import PretrainingModel, XLNetConfig
from modeling.checkpoints import conversion
from modeling.checkpoints import restore as checkpoints
from modeling.encoders.bert.config import BertConfig
from tests.helpers import released

LABELS = ("bad", "fair", "good")


def make_config(vocab_size: int = 1000) -> XLNetConfig:
    tf.keras.utils.set_random_seed(3)
    return XLNetConfig(
        vocab_size=vocab_size,
        d_model=20,
        n_layer=2,
        n_head=2,
        d_head=6,
        d_inner=28,
        init_std=0.3,
    )


def make_spec(head: str, labels=(), **data_options) -> TaskSpec:
    return TaskSpec(
        "tsv",
        head,
        tuple(labels),
        24,
        TextSettings(),
        "",
        data_options=data_options,
    )


ROWS = {
    "classification": {"text": "Nobody asked why."},
    "multiple_choice": {
        "passage": "The ticket cost 12,000 francs.",
        "question": "It cost _ .",
        "options": ["12,000", "1998", "a café"],
    },
    "span": {
        "question": "What did the ticket cost?",
        "paragraph": "The ticket cost 12,000 francs in 1998, said the café.",
    },
}

# Released tables may have more rows than the vocabulary has pieces.
RELEASED = BertConfig(
    vocab_size=len(released.PIECES) + 3,
    d_model=8,
    n_layer=1,
    n_head=2,
    d_inner=12,
    max_position_embeddings=24,
)


def random_weights(model):
    for i, variable in enumerate(model.variables):
        variable.assign(tf.random.stateless_normal(variable.shape, [2, i]))
    return model


def masked_folder(vocab: str) -> str:
    """A released folder beside its `vocab.txt`: a masked language model."""
    model = random_weights(PretrainingModel(RELEASED))
    nowhere = checkpoints.Source("native", "", "")
    weights = conversion.Weights("pretraining", RELEASED, model, {}, [])
    target = vocab.replace("vocab.txt", "hf")
    conversion.write(weights, "hf", target, nowhere)
    tf.io.gfile.copy(vocab, f"{target}/vocab.txt")
    return target
