"""Texts that are hard to cut, and where two tokenizers differ."""

import random

import tensorflow as tf

from common.vocabularies.text_settings import TextSettings
from data.text import opening
from tests.helpers import languages, released


def random_parts(parts, count: int, seed: int) -> list[str]:
    """Texts of up to 15 parts."""
    draw = random.Random(seed)
    return [
        "".join(draw.choice(parts) for _ in range(draw.randrange(16)))
        for _ in range(count)
    ]


def hard(count: int) -> list[str]:
    texts = random_parts(released.BPE_PARTS, count, 7)
    for language in languages.LANGUAGES:
        texts += languages.lines(language) + languages.hard_lines(language)
    return [*released.ODD, *texts, "a" * 700, "ab" * 90]


def differences(offline, texts) -> list:
    """Texts whose ids or spans in the graph are not the offline ones."""
    graph = opening.graph_tokenizer(offline)
    run = tf.function(
        graph.tokenize_with_offsets,
        input_signature=[tf.TensorSpec([None], tf.string)],
        autograph=False,
    )
    wrong = []
    for at in range(0, len(texts), 500):
        part = list(texts[at : at + 500])
        found = [x.to_list() for x in run(tf.constant(part))]
        for text, *row in zip(part, *found, strict=True):
            wanted = [x.tolist() for x in offline.encode_spans(text)]
            if wanted != row:
                wrong.append((text, wanted, row))
    return wrong


VARIANTS = {
    "cased": TextSettings(),
    "uncased": TextSettings(uncased=True),
    "keep_accents": TextSettings("composed"),
    "uncased_keep_accents": TextSettings("composed", True),
    "no_remove_space": TextSettings(remove_space=False),
}
