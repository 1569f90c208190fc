"""Flags of the optimizer and its schedule."""

import dataclasses

from absl import flags

from flags import flag_values
from training.options import (
    DECAY_METHODS,
    DECAY_SHAPES,
    LAYER_DECAY_STYLES,
    OPTIMIZERS,
    OptimizerOptions,
)

FLAGS = flags.FLAGS


def define(**defaults) -> None:
    """Registers the flags.

    Args:
      **defaults: values that differ from `OptimizerOptions`, by flag name;
        others are ignored.
    """
    get = {
        f.name: f.default for f in dataclasses.fields(OptimizerOptions)
    } | defaults
    _define_schedule(get)
    _define_update(get)


def _define_schedule(get: dict) -> None:
    flags.DEFINE_float(
        "learning_rate", get["learning_rate"], "Largest learning rate."
    )
    flags.DEFINE_integer(
        "warmup_steps",
        get["warmup_steps"],
        "Steps in which the learning rate rises from 0.",
    )
    flags.DEFINE_enum(
        "decay_method",
        get["decay_method"],
        DECAY_METHODS,
        "How the rate falls after the warm-up: poly is a straight line; wsd "
        "stays at the peak until the last --decay_steps.",
    )
    flags.DEFINE_integer(
        "decay_steps",
        get["decay_steps"],
        "With --decay_method=wsd: steps in which the rate falls at the end.",
    )
    flags.DEFINE_enum(
        "decay_shape",
        get["decay_shape"],
        DECAY_SHAPES,
        "With --decay_method=wsd: a straight line, or 1 - sqrt of what is "
        "done.",
    )
    flags.DEFINE_float(
        "min_lr_ratio",
        get["min_lr_ratio"],
        "Last learning rate over the largest one.",
    )


def _define_update(get: dict) -> None:
    flags.DEFINE_enum(
        "optimizer",
        get["optimizer"],
        OPTIMIZERS,
        "stable_adamw clips each tensor's update by its own size: give "
        "--clip=0 with it.",
    )
    flags.DEFINE_bool(
        "decouple_lr",
        get["decouple_lr"],
        "stable_adamw: weight decay is a share per step at the peak rate, not "
        "times the rate.",
    )
    flags.DEFINE_float(
        "weight_decay",
        get["weight_decay"],
        "Decoupled decay; 0 selects the original's bias-corrected Adam.",
    )
    flags.DEFINE_float("adam_beta1", get["beta1"], "Decay of the first moment.")
    flags.DEFINE_float(
        "adam_beta2", get["beta2"], "Decay of the second moment."
    )
    flags.DEFINE_float(
        "adam_epsilon",
        get["adam_epsilon"],
        "Added to the root of the second moment.",
    )
    flags.DEFINE_float(
        "clip",
        get["clip"],
        "Largest norm of the whole gradient, after aggregation; 0 = off.",
    )
    flags.DEFINE_float(
        "lr_layer_decay_rate",
        get["lr_layer_decay_rate"],
        "a: layer m of L learns with a^(L-m) of the rate, embeddings a^L.",
    )
    flags.DEFINE_enum(
        "lr_layer_decay_style",
        get["lr_layer_decay_style"],
        LAYER_DECAY_STYLES,
        "What the layer-wise factor scales; gradient is the original's, which "
        "Adam nearly cancels.",
    )
    _define_averages(get)
    flags.DEFINE_integer(
        "freeze_layers",
        get["freeze_layers"],
        "The embeddings and so many lower layers are not trained.",
    )


def _define_averages(get: dict) -> None:
    flags.DEFINE_float(
        "ema_decay",
        get["ema_decay"],
        "Decay of a moving average of the weights that evaluations use; "
        "0 = off.",
    )
    flags.DEFINE_integer(
        "average_last",
        get["average_last"],
        "Evaluations use the mean of the weights after each of the last so "
        "many updates; 0 = off.",
    )
    flags.DEFINE_integer(
        "average_trigger",
        get["average_trigger"],
        "NT-ASGD: evaluations use the mean of the weights from the evaluation "
        "on whose loss is above the best of those more than so many "
        "evaluations old; needs --eval_every; 0 = off.",
    )


def from_flags(**changes) -> OptimizerOptions:
    """The parsed flags as options.

    Args:
      **changes: fields that the command sets itself.

    Raises:
      UserError: a value is out of range.
    """
    given = {"beta1": FLAGS.adam_beta1, "beta2": FLAGS.adam_beta2} | changes
    return flag_values.build(OptimizerOptions, **given)
