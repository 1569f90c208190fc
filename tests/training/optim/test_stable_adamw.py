"""StableAdamW against torch-optimi's numbers; the trapezoid's rates."""

import json

import numpy as np
import pytest
import tensorflow as tf

from common.errors import UserError
from training.optim.optimizer import build_optimizer
from training.optim.schedules import Schedule
from training.optim.variable_groups import Group
from training.run_options import OptimizerOptions


def _cases(arrays):
    return sorted(k.split("/")[0] for k in arrays if k.endswith("/config"))


def test_the_golden_steps(golden):
    path = golden / "encoders" / "stable_adamw.npz"
    with np.load(path, allow_pickle=False) as f:
        arrays = {key: f[key] for key in f.files}
    names = [
        key.split("/")[-1]
        for key in arrays
        if key.startswith("in/") and key.count("/") == 1 and key != "in/lr"
    ]
    cases = _cases(arrays)
    assert cases and names
    for case in cases:
        settings = json.loads(str(arrays[f"{case}/config"]))
        peak = settings.get("max_lr", float(arrays["in/lr"].max()))
        options = OptimizerOptions(
            optimizer="stable_adamw",
            learning_rate=peak,
            beta1=settings["betas"][0],
            beta2=settings["betas"][1],
            adam_epsilon=settings["eps"],
            weight_decay=settings["weight_decay"],
            decouple_lr=settings.get("decouple_lr", False),
            clip=0.0,
        )
        variables = {n: tf.Variable(arrays[f"in/{n}"]) for n in names}
        groups = {n: Group(n, True, 0) for n in names}
        rates = tf.constant(arrays["in/lr"], tf.float32)

        class Given:
            def __init__(self, peak):
                self.peak = peak

            def __call__(self, step, rates=rates):
                return tf.gather(rates, step)

        optimizer = build_optimizer(options, Given(peak), variables, groups)
        for step in range(len(arrays["in/lr"])):
            gradients = [
                tf.constant(arrays[f"in/grad/{n}"][step]) for n in names
            ]
            optimizer.apply(gradients, tf.constant(step, tf.int64))
            for n in names:
                wanted = arrays[f"{case}/param/{step}/{n}"]
                np.testing.assert_allclose(
                    variables[n], wanted, rtol=2e-5, atol=2e-6
                )
        for n in names:
            for kind, slots in (("m", optimizer.m), ("v", optimizer.v)):
                wanted = arrays[f"{case}/{kind}/{n}"]
                np.testing.assert_allclose(
                    slots[n], wanted, rtol=2e-5, atol=1e-7
                )


def _rates(**changes):
    options = OptimizerOptions(learning_rate=2.0, decay_method="wsd", **changes)
    schedule = Schedule(options, 10)
    return [round(float(schedule(tf.constant(s))), 6) for s in range(11)]


def test_the_trapezoid():
    assert _rates(warmup_steps=2, decay_steps=4) == [
        *(0.0, 1.0, 2.0, 2.0, 2.0, 2.0, 2.0),
        *(1.5, 1.0, 0.5, 0.0),
    ]
    root = _rates(warmup_steps=2, decay_steps=4, decay_shape="1-sqrt")
    assert root[:7] == [0.0, 1.0, 2.0, 2.0, 2.0, 2.0, 2.0]
    assert root[7:] == [1.0, pytest.approx(0.585786), 0.267949, 0.0]
    assert _rates(warmup_steps=2)[2:] == [2.0] * 9  # the decay comes later
    ends = _rates(decay_steps=5, min_lr_ratio=0.25)
    assert ends[-1] == 0.5 and ends[0] == 2.0


def test_settings_that_do_not_fit_are_one_line():
    with pytest.raises(UserError, match="--decay_method=wsd"):
        OptimizerOptions(decay_steps=3)
    with pytest.raises(UserError, match="stable_adamw"):
        OptimizerOptions(decouple_lr=True)
