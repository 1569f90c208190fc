"""The original Transformer-XL's training and evaluation through our loop."""

import numpy as np
import pytest
import tensorflow as tf

from modeling.checkpoints import tf1
from modeling.checkpoints.names import named_variables
from modeling.encoders.transformer_xl import original
from tests.modeling.golden import golden_util, txl_golden
from training import strategy as strategy_lib
from training.objectives.build import build_objective
from training.optim.schedules import Schedule
from training.reporting.evaluation import Evaluator
from training.run_options import OptimizerOptions, StrategyOptions
from training.step.batch_split import BatchSplit, distribute
from training.step.learner import build_learner
from training.step.train_step import Trainer

pytestmark = pytest.mark.shared


def make_strategy(replicas):
    return strategy_lib.setup(
        StrategyOptions(
            distribution_strategy="mirrored" if replicas > 1 else "one_device",
            num_virtual_replicas=replicas if replicas > 1 else 0,
        )
    )


def dataset_of(inputs, targets):
    """Endless or finite batches [steps, B, T]; memory starts at the first."""

    def input_fn(params):
        first = np.arange(len(inputs)) == 0
        return tf.data.Dataset.from_tensor_slices(
            {
                "input_ids": inputs,
                "target_ids": targets,
                "target_weights": np.ones(inputs.shape, np.float32),
                "reset_memory": np.repeat(
                    first[:, np.newaxis], inputs.shape[1], 1
                ),
            }
        )

    return input_fn


def train(golden, name, replicas, accumulation_steps=1):
    found = txl_golden.cases(golden)
    settings = found["training"][name]["settings"]
    arrays = txl_golden.load(golden, name)
    config = txl_golden.config(found["config"], settings)
    options = OptimizerOptions(
        learning_rate=settings["learning_rate"],
        warmup_steps=settings["warmup_steps"],
        decay_method="cos",
        min_lr_ratio=settings["min_lr_ratio"],
        clip=settings["clip"],
    )
    inputs, targets = arrays["inputs"], arrays["targets"]
    strategy = make_strategy(replicas)
    split = BatchSplit(inputs.shape[1], replicas, accumulation_steps)
    learner = build_learner(
        build_objective("language_model", config),
        strategy,
        split,
        options,
        settings["train_steps"],
    )
    with strategy.scope():
        txl_golden.assign(
            learner.model, golden_util.gradients_of(arrays, "initial")
        )
    dataset, _ = distribute(strategy, dataset_of(inputs, targets), split)
    trainer = Trainer(learner, dataset)
    trainer.train(tf.constant(len(inputs)))
    history = dict(zip(trainer.stat_names, trainer.last.T, strict=True))
    return arrays, history, learner


def check(arrays, history, learner):
    np.testing.assert_allclose(history["loss"], arrays["loss"], rtol=2e-5)
    np.testing.assert_allclose(
        history["gradient_norm"], arrays["gnorm"], rtol=5e-5
    )
    np.testing.assert_allclose(
        history["learning_rate"], arrays["learning_rate"], rtol=1e-6, atol=1e-9
    )
    ours = original.stack(
        {k: v.numpy() for k, v in named_variables(learner.model).items()}
    )
    wanted = golden_util.gradients_of(arrays, "final")
    for name in ("beta1_power", "beta2_power", "global_step"):
        wanted.pop(name)
    assert set(ours) == set(wanted)
    for name, value in wanted.items():
        # Rows of low frequencies are rounding noise that Adam makes steps of.
        noise = name.endswith("rel_attn/r/kernel")
        np.testing.assert_allclose(
            ours[name], value, atol=2e-3 if noise else 5e-5, err_msg=name
        )
    layers = learner.memory.to_host().layers
    last = max(int(k[len("new_mems/step")]) for k in arrays if "new_mems" in k)
    for i, kept in enumerate(layers):
        prefix = f"new_mems/step{last}/tower"
        parts = [
            arrays[k]
            for k in sorted(arrays)
            if k.startswith(prefix) and k.endswith(f"/layer{i}")
        ]
        whole = np.swapaxes(np.concatenate(parts, 1), 0, 1)
        golden_util.assert_close(kept, whole, f"memory {i}")


def runs(golden):
    found = txl_golden.cases(golden)["training"]
    return {k: v for k, v in found.items() if k.startswith("train_")}


@pytest.mark.long
def test_five_updates_with_adaptive_softmax_and_warm_up(golden):
    name = next(k for k, v in runs(golden).items() if v["settings"]["cutoffs"])
    check(*train(golden, name, 1))


@pytest.mark.slow
def test_five_updates_of_every_run(golden):
    """Towers of the original are replicas here."""
    for name, run in runs(golden).items():
        check(*train(golden, name, run["settings"]["cores"]))


@pytest.mark.slow
@pytest.mark.parametrize("replicas,steps", [(1, 2), (2, 2)])
def test_any_split_of_the_batch_gives_the_same_run(golden, replicas, steps):
    name = next(k for k, v in runs(golden).items() if v["settings"]["cutoffs"])
    check(*train(golden, name, replicas, steps))


def test_the_schedule(golden):
    arrays = txl_golden.load(golden, "schedule")
    for key in [k for k in arrays if k.endswith("/settings")]:
        peak, warmup, steps, ratio = arrays[key]
        options = OptimizerOptions(
            learning_rate=float(peak),
            warmup_steps=int(warmup),
            decay_method="cos",
            min_lr_ratio=float(ratio),
        )
        schedule = Schedule(options, int(steps))
        wanted = arrays[key.replace("settings", "rate")]
        found = [schedule(tf.constant(s, tf.int64)) for s in range(len(wanted))]
        np.testing.assert_allclose(found, wanted, atol=5e-7 * peak)


@pytest.mark.slow
def test_evaluations_of_the_released_form(golden):
    """Other lengths, memory, clamping and masks than in training.

    The weights are a TF1 checkpoint with optimizer slots.
    """
    found = txl_golden.cases(golden)
    arrays = txl_golden.load(golden, "evaluate")
    base = found["training"]["train_warmup_adaptive"]["settings"]
    prefix = str(txl_golden.folder(golden) / "txl_train_model.ckpt")
    tokens = arrays["tokens"]
    for name, run in found["training"].items():
        if not name.startswith("eval_"):
            continue
        name, settings = name.removeprefix("eval_"), run["settings"]
        config = txl_golden.config(
            found["config"],
            base,
            mem_len=run["mem_len"],
            same_length=settings["same_length"],
            clamp_len=settings["clamp"],
        )
        weights, stripped, _ = tf1.read(prefix, config)
        assert any(n.endswith("/Adam") for n in stripped)
        strategy = make_strategy(settings["cores"])
        objective = build_objective("language_model", config)
        with strategy.scope():
            model = objective.build_model()
            for key, variable in named_variables(model).items():
                variable.assign(weights[key])
        rows, length = run["batch_size"], run["tgt_len"]
        # The original's rows: the rest is dropped, the first of each row is
        # not predicted; what fills the last segment has no weight.
        width = len(tokens) // rows
        streams = tokens[: width * rows].reshape(rows, width)
        evaluator = Evaluator(
            objective, model, strategy, ordered(streams, length), rows
        )
        wanted = arrays[f"{name}/batch_loss"].astype(np.float64)
        counts = arrays[f"{name}/batch_tokens"]
        result = evaluator.run()
        assert result.counts["lm_loss"] == counts.sum(), name
        # Weighted means of the batches, and the whole as it was printed.
        for value in (
            sum(wanted * counts) / counts.sum(),
            arrays[f"{name}/average"],
        ):
            np.testing.assert_allclose(
                result.metrics["lm_loss"], value, rtol=2e-6, err_msg=name
            )


def ordered(streams, length):
    """Segments of all rows side by side, the last one filled up."""
    count = -(-(streams.shape[1] - 1) // length)
    surplus = count * length + 1 - streams.shape[1]
    weights = np.pad(np.ones(streams[:, 1:].shape), [[0, 0], [0, surplus]])
    streams = np.pad(streams, [[0, 0], [0, surplus]])

    def steps(x):
        return x.reshape(len(x), count, length).swapaxes(0, 1)

    def input_fn(params):
        first = np.arange(count) == 0
        return tf.data.Dataset.from_tensor_slices(
            {
                "input_ids": steps(streams[:, :-1]),
                "target_ids": steps(streams[:, 1:]),
                "target_weights": steps(weights).astype(np.float32),
                "reset_memory": np.repeat(first[:, None], len(streams), 1),
            }
        )

    return input_fn
