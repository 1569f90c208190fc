"""Options of a question in the graph: rows, cuts and choices."""

import numpy as np
import tensorflow as tf

from common.contract.symbols import SymbolIds
from common.contract.task_spec import TaskSpec
from data.finetuning.race import examples as race_features
from serving.signatures.choice import (
    choice_of,
    choice_signatures,
    question_with_option,
)
from serving.signatures.sequence import IDS, RAW, Context
from tests.helpers.runs.rows import pad_left
from tests.serving.signatures.letters import Letters

LENGTH, LONGEST = 16, 7
PASSAGES = ["abcdefgh ijk", "x"]
QUESTIONS = ["so _ it", "why?"]
OPTIONS = [["a", "bcdefg", "c"], ["no", "of the ship", ""]]


class Model:
    """Logits are sums of real ids; it keeps what it was asked."""

    def __call__(self, ids, segment_ids, input_mask, training):
        assert training is False
        self.asked = [x.numpy() for x in (ids, segment_ids, input_mask)]
        return tf.cast(tf.reduce_sum(ids * input_mask, -1) % 97, tf.bfloat16)


def test_question_with_option_equals_the_offline_one():
    cases = [
        ("He went to the _ today.", "island"),
        ("Why?", "because"),
        ("_ and _", "x"),
        ("", "alone"),
        ("__", "y"),
        ("By ____, not __.", "\\1"),
    ]
    for batch in (cases, cases[:2], cases[:1]):
        got = question_with_option(*map(tf.constant, zip(*batch, strict=True)))
        wanted = [race_features.question_with_option(*c) for c in batch]
        assert [g.decode() for g in got.numpy()] == wanted


def test_rows_are_the_offline_ones_and_each_has_its_choice():
    model, letters = Model(), Letters()
    spec = TaskSpec(
        "race",
        "multiple_choice",
        (),
        LENGTH,
        None,
        "",
        data_options={"max_qa_length": LONGEST},
    )
    signatures = choice_signatures(Context(model, spec, letters, SymbolIds()))
    found = signatures[RAW].function(
        tf.constant(PASSAGES), tf.constant(QUESTIONS), tf.constant(OPTIONS)
    )
    asked = model.asked
    assert asked[0].shape == (2, 3, LENGTH)
    cut = [False, False]
    for row, passage in enumerate(PASSAGES):
        texts = [
            race_features.question_with_option(QUESTIONS[row], option)
            for option in OPTIONS[row]
        ]
        sequences = race_features.option_sequences(
            letters.encode(passage),
            [letters.encode(text) for text in texts],
            LENGTH,
            LONGEST,
            SymbolIds(),
        )
        for place, sequence in enumerate(sequences):
            wanted = pad_left(sequence, LENGTH)
            for value, own in zip(asked, wanted, strict=True):
                np.testing.assert_array_equal(value[row, place], own)
            whole = len(passage) + len(texts[place]) + 3
            cut[row] |= len(sequence.ids) < whole
    assert found["truncated"].numpy().tolist() == cut == [True, True]
    logits = (asked[0] * asked[2]).sum(-1) % 97
    assert found["choice"].numpy().tolist() == logits.argmax(-1).tolist()
    assert len(set(found["choice"].numpy().tolist())) == 2, "other texts"
    again = signatures[IDS].function(*map(tf.constant, asked))
    assert again.keys() == found.keys() - {"truncated"}
    for name, value in again.items():
        np.testing.assert_array_equal(value, found[name])
    short = signatures[RAW].function(
        tf.constant(["ab"]), tf.constant(["c"]), tf.constant([["d", "e"]])
    )
    assert short["truncated"].numpy().tolist() == [False]


def test_a_choice_is_made_in_float32():
    """A bfloat16 sum of many options would be off by a hundredth."""
    logits = tf.zeros([1, 300], tf.bfloat16) + tf.one_hot(
        [7], 300, dtype=tf.bfloat16
    )
    found = choice_of(logits)
    assert found["choice"].numpy().tolist() == [7]
    assert found["probabilities"].dtype == tf.float32
    share = np.e / (np.e + 299)
    np.testing.assert_allclose(found["probabilities"][0, 7], share, rtol=1e-5)


def test_the_options_of_the_example_differ():
    """Which of two equal ones is taken depends on the machine's rounding."""
    spec = TaskSpec("race", "multiple_choice", (), LENGTH, None, "")
    context = Context(Model(), spec, Letters(), SymbolIds())
    signature = choice_signatures(context)[IDS]
    ids = np.asarray(signature.example["input_ids"])
    assert ids.shape[:2] == (1, 2) and (ids[0, 0] != ids[0, 1]).any()
    for name, spec in signature.inputs.items():
        value = tf.constant(signature.example[name], tf.int32)
        assert spec.is_compatible_with(value), name
