"""The original's training trajectories through our own training step."""

import numpy as np
import pytest
import tensorflow as tf

from modeling.checkpoints.names import named_variables
from modeling.encoders.xlnet import original
from tests.modeling.golden import golden_util
from training import strategy as strategy_lib
from training.checkpointing.memory_files import HostRows
from training.objectives.build import build_objective
from training.run_options import OptimizerOptions, StrategyOptions
from training.step.batch_split import BatchSplit, distribute
from training.step.learner import build_learner
from training.step.train_step import Trainer

pytestmark = pytest.mark.shared

HEADS = "xlnet_tiny_heads.ckpt"
# Zero in theory; Adam makes steps of their rounding noise.
NOISE = {
    "start_logits/dense/bias",
    "end_logits/dense_1/bias",
    "end_logits/LayerNorm/beta",
    "logits/dense/bias",
}


def make_strategy(replicas):
    name = "mirrored" if replicas > 1 else "one_device"
    return strategy_lib.setup(
        StrategyOptions(
            distribution_strategy=name,
            num_virtual_replicas=replicas if replicas > 1 else 0,
        )
    )


def run_steps(golden, objective, weights, options, train_steps, batches, **kw):
    """History [steps, columns], names, model, memory."""
    replicas = kw.get("replicas", 1)
    strategy = make_strategy(replicas)
    rows = len(next(iter(batches[0].values())))
    split = BatchSplit(
        rows, replicas, kw.get("accumulation_steps", 1), objective.row_groups
    )
    learner = build_learner(objective, strategy, split, options, train_steps)
    model, memory = learner.model, learner.memory
    with strategy.scope():
        golden_util.assign(model, golden, weights, kw.get("rename", ()))
    if memory:
        length = np.full([rows], 6, np.int32)
        memory.from_host(HostRows(np.arange(rows), kw["memory"], length))

    def input_fn(params):
        arrays = {k: np.stack([b[k] for b in batches]) for k in batches[0]}
        return tf.data.Dataset.from_tensor_slices(arrays).repeat()

    dataset, _ = distribute(strategy, input_fn, split)
    trainer = Trainer(learner, dataset)
    trainer.train(tf.constant(len(batches)))
    assert trainer.trace_count == 1
    kept = memory and memory.to_host()
    return trainer.last, trainer.stat_names, model, kept


def assert_finals(model, arrays, prefix):
    ours = original.stack(
        {k: v.numpy() for k, v in named_variables(model).items()}
    )
    wanted = golden_util.gradients_of(arrays, prefix)
    assert len(wanted) > 40
    for name, value in wanted.items():
        atol = 1e-3 if name in NOISE else 5e-5
        np.testing.assert_allclose(
            ours[name], value, rtol=0, atol=atol, err_msg=name
        )


@pytest.mark.long
@pytest.mark.parametrize(
    "replicas,accumulation_steps",
    [
        (1, 1),
        pytest.param(2, 1, marks=pytest.mark.slow),
        pytest.param(1, 2, marks=pytest.mark.slow),
    ],
)
def test_pretraining_trajectory(golden, replicas, accumulation_steps):
    data = golden_util.load(golden, "pretrain_tm")
    wanted = golden_util.load(golden, "pretrain_train")
    config = golden_util.config(golden, mem_len=6, reuse_len=4)
    objective = build_objective("pretraining", config, blind_rows="original")
    options = OptimizerOptions(
        learning_rate=0.01,
        warmup_steps=1,
        min_lr_ratio=0.1,
        weight_decay=0.01,
        adam_epsilon=1e-6,
        clip=0.25,
    )
    batches = [pretraining_batch(data, s) for s in wanted["segments"]]
    memory = [data[f"mems_in_{i}"].transpose(1, 0, 2) for i in range(3)]
    history, names, model, kept = run_steps(
        golden,
        objective,
        "xlnet_tiny.ckpt",
        options,
        8,
        batches,
        memory=memory,
        replicas=replicas,
        accumulation_steps=accumulation_steps,
    )
    for ours, theirs in (
        ("loss", "loss"),
        ("gradient_norm", "gnorm"),
        ("learning_rate", "lr"),
    ):
        np.testing.assert_allclose(
            history[:, names.index(ours)], wanted[theirs], rtol=3e-5
        )
    for i, layer in enumerate(kept.layers):
        golden_util.assert_close(
            layer.transpose(1, 0, 2), wanted[f"mems_out_{i}"]
        )
    assert_finals(model, wanted, "final")


def pretraining_batch(data, segment):
    values = golden_util.gradients_of(data, f"seg{segment}/in")
    rows = len(values["input_k"])
    return {
        "input_ids": values["input_k"].astype(np.int32),
        "segment_ids": values["seg_id"].astype(np.int32),
        "input_mask": np.ones_like(values["input_k"], np.int32),
        "perm_mask": values["perm_mask"].astype(np.int32),
        "target_mapping": values["target_mapping"].astype(np.float32),
        "target_ids": values["target"].astype(np.int32),
        "target_weights": values["target_mask"].astype(np.float32),
        "reset_memory": np.zeros([rows], bool),
        "row_weight": np.ones([rows], np.float32),
    }


def finetune_options(decay_rate):
    return OptimizerOptions(
        learning_rate=0.01,
        warmup_steps=2,
        min_lr_ratio=0.1,
        adam_epsilon=1e-6,
        clip=1.0,
        lr_layer_decay_rate=decay_rate,
        lr_layer_decay_style="gradient",
    )


def check_finetuning(golden, arrays, objective, options, batch, prefix):
    steps = len(arrays[f"{prefix}/train/loss"])
    history, names, model, _ = run_steps(
        golden, objective, HEADS, options, 6, [batch] * steps
    )
    for ours, theirs in (("loss", "loss"), ("learning_rate", "lr")):
        np.testing.assert_allclose(
            history[:, names.index(ours)],
            arrays[f"{prefix}/train/{theirs}"],
            rtol=1e-4,
        )
    if f"{prefix}/train/final" in "\n".join(arrays):
        assert_finals(model, arrays, f"{prefix}/train/final")


def finetune_batch(data):
    rows = len(data["in/input_ids"])
    return {
        "input_ids": data["in/input_ids"].astype(np.int32),
        "segment_ids": data["in/segment_ids"].astype(np.int32),
        "input_mask": (1 - data["in/input_mask"]).astype(np.int32),
        "example_weight": np.ones([rows], np.float32),
        "example_index": np.arange(rows, dtype=np.int32),
    }


@pytest.mark.slow
def test_squad_trajectory_with_dense_clipping(golden):
    # `train_tpu`: the gradient norm of the summed embedding rows, as ours.
    data = golden_util.load(golden, "squad_head")
    batch = finetune_batch(data) | {
        "paragraph_mask": (1 - data["in/p_mask"]).astype(np.int32),
        "cls_index": data["in/cls_index"],
        "start_positions": data["in/start_positions"],
        "end_positions": data["in/end_positions"],
        "is_impossible": data["in/is_impossible"],
    }
    objective = build_objective("span", golden_util.config(golden))
    check_finetuning(
        golden, data, objective, finetune_options(0.75), batch, "train_tpu"
    )


@pytest.mark.long
def test_race_trajectory_with_dense_clipping(golden):
    data = golden_util.load(golden, "race_head")
    batch = finetune_batch(data)
    for name in ("input_ids", "segment_ids", "input_mask"):
        batch[name] = batch[name].reshape(2, 4, 12)
    batch["label_ids"] = data["in/label_ids"]
    objective = build_objective("multiple_choice", golden_util.config(golden))
    check_finetuning(
        golden, data, objective, finetune_options(1.0), batch, "train_tpu"
    )
