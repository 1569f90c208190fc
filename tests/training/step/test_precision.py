"""Mixed precision and recomputation through the whole loop."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from modeling import XLNetConfig
from tests.helpers.runs import toy
from training import loop
from training.checkpointing.memory_files import SavedMemory
from training.objectives import build as heads
from training.reporting import loss_log

CONFIG = XLNetConfig(
    vocab_size=20,
    d_model=8,
    n_layer=2,
    n_head=2,
    d_head=4,
    d_inner=12,
    mem_len=4,
    reuse_len=3,
    dropout=0.0,
    dropatt=0.0,
    init_std=0.2,
)
B, T, P = 4, 6, 2


def input_fn(params):
    rng = np.random.default_rng(1)
    shape = (3, B, T)
    arrays = {
        "input_ids": rng.integers(9, 20, shape, np.int32),
        "segment_ids": np.tile([0, 0, 0, 1, 1, 2], (3, B, 1)).astype(np.int32),
        "input_mask": np.ones(shape, np.int32),
        "ranks": rng.integers(0, T, shape, np.int32),
        "target_positions": np.tile([[[1, 4]]], (3, B, 1)).astype(np.int32),
        "target_ids": rng.integers(9, 20, (3, B, P), np.int32),
        "target_weights": np.ones((3, B, P), np.float32),
        "reset_memory": np.zeros((3, B), bool),
        "next_sentence_label": rng.integers(0, 2, (3, B), np.int32),
        "row_weight": np.ones((3, B), np.float32),
    }
    data = tf.data.Dataset.from_tensor_slices(arrays).repeat()
    return data.skip(params["start_step"])


def losses(folder, precision="float32", objective=None, **changes):
    options = toy.run_options(
        folder,
        train_steps=6,
        train_batch_size=B,
        save_steps=3,
        progress="none",
        **changes,
    )
    strategy = dataclasses.replace(options.strategy, precision=precision)
    options = options.replace(strategy=strategy)
    made = heads.build_objective("pretraining", CONFIG, **(objective or {}))
    loop.train(made, input_fn, options)
    names, rows = loss_log.read(str(folder))
    return rows[:, 1 + names.index("loss")]


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["mixed_bfloat16", "mixed_float16"])
def test_mixed_precision_stays_near_float32(tmp_path, precision):
    wanted = losses(tmp_path / "a")
    found = losses(tmp_path / "b", precision)
    np.testing.assert_allclose(found, wanted, rtol=0.03)
    # The memory is saved in the precision it was made in.
    saved = SavedMemory(tf.train.latest_checkpoint(str(tmp_path / "b")))
    kind = saved.read(np.arange(2)).layers[0].dtype
    assert tf.as_dtype(kind) == tf.as_dtype(precision.removeprefix("mixed_"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "objective",
    [{"recompute_layers": True}, {"loss_chunk_size": 3}],
    ids=["recompute", "chunks"],
)
def test_saving_memory_changes_no_loss(tmp_path, objective):
    wanted = losses(tmp_path / "a")
    found = losses(tmp_path / "b", objective=objective)
    np.testing.assert_allclose(found, wanted, rtol=1e-4)


@pytest.mark.slow
def test_next_sentence_prediction_trains_with_the_language_model(tmp_path):
    found = losses(tmp_path, objective={"next_sentence": True})
    names, rows = loss_log.read(str(tmp_path))
    lm = rows[:, 1 + names.index("lm_loss")]
    assert (found > lm).all() and "next_sentence_accuracy" in names
