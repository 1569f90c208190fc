"""What options refuse together, in one line each."""

import dataclasses

import pytest

from common.errors import UserError
from training.run_options import (
    OPTIMIZERS,
    OptimizerOptions,
    RunOptions,
    StrategyOptions,
)


def refused(make, message):
    with pytest.raises(UserError, match=message) as e:
        make()
    assert "\n" not in str(e.value)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"learning_rate": 0.0}, "--learning_rate must be > 0, received 0.0"),
        ({"beta2": 1.0}, r"--adam_beta2 must be in \[0, 1\), received 1.0"),
        ({"ema_decay": float("nan")}, "--ema_decay must be in"),
        ({"lr_layer_decay_rate": 0.0}, r"rate must be in \(0, 1\]"),
        ({"decay_method": "step"}, "--decay_method must be one of poly, cos"),
        (
            {"decay_steps": 3},
            "--decay_steps is of --decay_method=wsd, found poly: leave it out",
        ),
        (
            {"decouple_lr": True},
            "--decouple_lr is of --optimizer=stable_adamw, found adamw: leave",
        ),
        (
            {"average_last": 2, "average_trigger": 3},
            r"at a time, received \['average_last', 'average_trigger'\]",
        ),
        ({"ema_decay": 0.5, "average_last": 2}, "one average of the weights"),
    ],
)
def test_an_optimizer_that_is_wrong(changes, message):
    refused(lambda: OptimizerOptions(**changes), message)


def test_what_goes_with_another_optimizer_or_schedule():
    made = OptimizerOptions(
        decay_method="wsd",
        decay_steps=3,
        optimizer="stable_adamw",
        decouple_lr=True,
    )
    assert made.decay_steps == 3 and made.decouple_lr
    for name in OPTIMIZERS:
        assert OptimizerOptions(optimizer=name).optimizer == name


@pytest.mark.parametrize(
    "changes, averages",
    [
        ({}, False),
        ({"ema_decay": 0.5}, True),
        ({"average_last": 2}, True),
        ({"average_trigger": 5}, True),
    ],
)
def test_every_kind_of_average_is_one(changes, averages):
    assert OptimizerOptions(**changes).averages is averages


@pytest.mark.parametrize(
    "changes, message",
    [
        (
            {"num_virtual_replicas": 2},
            "is of --distribution_strategy=mirrored, found one_device: leave",
        ),
        ({"seed": 2**31}, r"--seed must be in \[0, 2147483648\)"),
        ({"seed": -1}, "--seed must be in"),
        ({"num_virtual_replicas": -2}, "replicas must be >= 0, received -2"),
        # They had no effect: a training ran on the CPU of a TPU VM.
        (
            {"tpu": "local"},
            "--tpu=local needs --distribution_strategy=tpu, received "
            "'one_device': give --use_tpu, or leave it out",
        ),
        ({"tpu_zone": "a"}, "--tpu_zone=a needs .*=tpu, received"),
        ({"gcp_project": "a"}, "--gcp_project=a needs .*=tpu, received"),
        (
            {"worker_hosts": "a:1,b:2", "distribution_strategy": "mirrored"},
            "--worker_hosts=a:1,b:2 needs .*=multi_worker_mirrored, received",
        ),
        ({"task_index": 1}, "--task_index=1 needs .*=multi_worker_mirrored"),
        (
            {"all_reduce_alg": "nccl"},
            "--all_reduce_alg=nccl needs .*=mirrored or multi_worker_mirrored",
        ),
        (
            {
                "all_reduce_alg": "nccl",
                "distribution_strategy": "mirrored",
                "num_virtual_replicas": 2,
            },
            "--all_reduce_alg=nccl is for GPUs: leave it out",
        ),
        # One of them trained; every process took all of its machine.
        (
            {"num_gpus": 2},
            "--num_gpus=2 needs --distribution_strategy=mirrored",
        ),
        (
            {"num_gpus": 2, "distribution_strategy": "multi_worker_mirrored"},
            "received 'multi_worker_mirrored': leave it out; CUDA_VISIBLE_DEV",
        ),
        ({"num_gpus": -2}, "--num_gpus must be >= -1, received -2"),
        ({"num_hosts": 0}, "--num_hosts must be >= 1, received 0"),
        ({"num_core_per_host": -8}, "--num_core_per_host must be >= 1"),
        ({"inter_op_threads": -1}, "--inter_op_threads must be >= 0"),
        ({"intra_op_threads": -1}, "--intra_op_threads must be >= 0"),
        ({"precision": "float16"}, "--precision must be one of float32"),
        ({"distribution_strategy": "gpu"}, "must be one of one_device"),
        ({"all_reduce_alg": "tree"}, "--all_reduce_alg must be one of nccl"),
    ],
)
def test_a_strategy_that_is_wrong(changes, message):
    refused(lambda: StrategyOptions(**changes), message)


def test_one_virtual_replica_is_the_device_itself():
    assert StrategyOptions(num_virtual_replicas=1).num_virtual_replicas == 1


OPTIMIZER = OptimizerOptions(warmup_steps=4)
TRAPEZOID = OptimizerOptions(decay_method="wsd", warmup_steps=2, decay_steps=3)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"model_dir": ""}, "--model_dir must be given"),
        ({"train_steps": 0}, "--train_steps must be >= 1, received 0"),
        ({"eval_steps": 0}, r"--eval_steps must be >= 1 or -1 \(all\), got 0"),
        ({"eval_steps": -2}, "got -2"),
        (
            {"train_steps": 4, "optimizer": OPTIMIZER},
            r"--warmup_steps \(4\) must be smaller than --train_steps \(4\)",
        ),
        (
            {"train_steps": 4, "optimizer": TRAPEZOID},
            r"\(2\) and --decay_steps \(3\) must fit into --train_steps \(4\)",
        ),
        ({"min_batch_size": 2}, "go together, received 2 and 0"),
        ({"batch_size_warmup_tokens": 9}, "go together, received 0 and 9"),
        (
            {"train_steps": 4, "optimizer": OptimizerOptions(average_last=5)},
            r"--average_last \(5\) must be at most --train_steps \(4\)",
        ),
        (
            {"optimizer": OptimizerOptions(average_trigger=5)},
            "--average_trigger counts evaluations: give --eval_every",
        ),
        ({"init_require": "head"}, "--init_require must be one of encoder"),
        ({"progress": "bar"}, "--progress must be one of auto, lines, none"),
        ({"memory_checkpoint": "no"}, "--memory_checkpoint must be one of"),
        ({"checkpoint_choice": "first"}, "--checkpoint_choice must be one of"),
    ],
)
def test_a_run_that_is_wrong(changes, message):
    refused(lambda: RunOptions(**({"model_dir": "m"} | changes)), message)


def test_limits_are_inclusive_where_nothing_is_lost():
    """A run of one step; a mean of all steps; a warm-up but for one."""
    assert RunOptions(model_dir="m", train_steps=1).optimizer.warmup_steps == 0
    for optimizer in (OptimizerOptions(average_last=5), OPTIMIZER, TRAPEZOID):
        made = RunOptions(model_dir="m", train_steps=5, optimizer=optimizer)
        assert made.optimizer is optimizer
    trigger = OptimizerOptions(average_trigger=5)
    made = RunOptions(model_dir="m", eval_every=2, optimizer=trigger)
    assert made.optimizer.averages


def test_a_copy_is_checked_as_the_first_was():
    one = RunOptions(model_dir="m", train_steps=9, optimizer=OPTIMIZER)
    other = one.replace(model_dir="n", train_steps=5)
    assert (other.model_dir, other.train_steps) == ("n", 5)
    assert other.optimizer == OPTIMIZER and one.train_steps == 9
    refused(lambda: one.replace(train_steps=3), "must be smaller than")
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.train_steps = 3


def test_loops_end_where_something_is_due():
    options = RunOptions(
        model_dir="m", train_steps=23, iterations=5, save_steps=8, eval_every=6
    )
    ends, step = [], 0
    while step < 23:
        step += options.steps_until_due(step)
        ends.append(step)
    assert ends == [5, 6, 8, 10, 12, 15, 16, 18, 20, 23]
