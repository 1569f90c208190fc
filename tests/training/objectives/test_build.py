"""Every head trains, evaluates and predicts; replicas change nothing."""

import numpy as np
import pytest
import tensorflow as tf

from common.contract import schema
from common.errors import UserError
from modeling import XLNetConfig
from tests.training import toy
from training import loop
from training.objectives import build as heads

CONFIG = XLNetConfig(
    vocab_size=30,
    d_model=6,
    n_layer=1,
    n_head=2,
    d_head=3,
    d_inner=10,
    dropout=0.0,
    dropatt=0.0,
    mem_len=4,
)
N, T, C, Y = 11, 6, 3, 4
OPTIONS = {
    "classification": {"num_labels": Y},
    "multi_label": {"num_labels": Y},
    "regression": {},
    "span": {"start_n_top": 2, "end_n_top": 3},
    "multiple_choice": {},
    "token_classification": {"num_labels": Y},
}
SHAPES = {
    "classification": {"logits": (N, Y)},
    "multi_label": {"logits": (N, Y)},
    "regression": {"logits": (N,)},
    "span": {"start_top_index": (N, 2), "end_top_index": (N, 6)},
    "multiple_choice": {"logits": (N, C)},
    "token_classification": {"logits": (N, T, Y)},
}


def examples(head):
    rng = np.random.default_rng(4)
    lead = (N, C, T) if head == "multiple_choice" else (N, T)
    batch = {
        "input_ids": rng.integers(9, 30, lead, np.int32),
        "segment_ids": np.zeros(lead, np.int32),
        "input_mask": np.ones(lead, np.int32),
        "example_weight": np.ones(N, np.float32),
        "example_index": np.arange(N, dtype=np.int32),
    }
    for name, field in schema.HEAD_FIELDS[head].items():
        shape = [{"B": N, "T": T, "Y": Y}[x] for x in field.shape.split()]
        high = {"label_ids": C, "paragraph_mask": 2}.get(name, T)
        if field.dtype == "float32":
            high = 2
        values = rng.integers(0, high, shape)
        if name == "paragraph_mask":
            values[:] = 1
        batch[name] = values.astype(field.dtype)
    return batch


def functions(batch):
    def endless(params):
        data = tf.data.Dataset.from_tensor_slices(batch).repeat()
        return data.batch(params["batch_size"], drop_remainder=True)

    def once(params):
        data = tf.data.Dataset.from_tensor_slices(batch)
        return data.batch(params["batch_size"])  # 8 + 3 rows

    return endless, once


def run(head, folder, **changes):
    objective = heads.build_objective(head, CONFIG, **OPTIONS[head])
    endless, once = functions(examples(head))
    options = toy.run_options(
        folder, train_steps=4, save_steps=0, progress="none", **changes
    )
    result = loop.train(objective, endless, options)
    evaluation = loop.evaluate(objective, once, options, model=result.model)
    outputs = loop.predict(objective, once, options, model=result.model)
    return evaluation, outputs


@pytest.mark.parametrize(
    "head",
    [
        "classification",
        *(
            pytest.param(h, marks=pytest.mark.slow)
            for h in OPTIONS
            if h != "classification"
        ),
    ],
)
def test_a_head_gives_every_row_on_one_and_two_replicas(head, tmp_path):
    evaluation, outputs = run(head, tmp_path / "1")
    assert outputs["example_index"].tolist() == list(range(N))
    for name, shape in SHAPES[head].items():
        assert outputs[name].shape == shape
        np.testing.assert_array_equal(
            outputs[name], evaluation.predictions[name]
        )
    two, _ = run(head, tmp_path / "2", distribution="mirrored", replicas=2)
    assert two.metrics.keys() == evaluation.metrics.keys()
    for name, value in evaluation.metrics.items():
        assert two.metrics[name] == pytest.approx(value, abs=2e-4)
    for name, value in evaluation.labels.items():
        np.testing.assert_array_equal(two.labels[name], value)
    if head == "span":
        assert evaluation.metrics == {}
    else:
        assert evaluation.metrics["loss"] > 0


def test_an_unknown_head_is_refused_with_the_list():
    with pytest.raises(UserError, match="token_classification"):
        heads.build_objective("tagging", CONFIG)


def test_a_fine_tuned_model_keeps_the_memory_length_in_its_config():
    objective = heads.build_objective("regression", CONFIG)
    assert objective.config.mem_len is None
    assert objective.saved_config.mem_len == 4
