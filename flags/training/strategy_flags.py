"""Flags of devices, precision and determinism; the original's names work."""

from absl import flags

from common.errors import UserError
from flags import flag_values
from training.run_options import StrategyOptions

FLAGS = flags.FLAGS


def define() -> None:
    """Registers the flags."""
    flag_values.often |= {"use_tpu"}
    flag_values.define(
        StrategyOptions, distribution_strategy=None, precision=None
    )
    flags.DEFINE_bool(
        "use_bfloat16",
        False,
        "The original's name of --precision=mixed_bfloat16.",
    )
    flags.DEFINE_bool(
        "recompute_layers",
        False,
        "Run each layer again in the backward pass instead of keeping its "
        "activations: less memory, about a third more time.",
    )
    flags.DEFINE_bool("use_tpu", False, "Run on the TPU that --tpu names.")
    flags.DEFINE_string(
        "master", None, "The original's name of an address for --tpu."
    )


def from_flags(**changes) -> StrategyOptions:
    """The parsed flags as options."""
    values = {
        "distribution_strategy": _strategy_name(),
        "tpu": tpu_address(),
        "precision": _precision(),
    }
    return flag_values.build(StrategyOptions, **(values | changes))


def on_tpu() -> bool:
    """All shapes must be known."""
    return _strategy_name() == "tpu"


def tpu_address() -> str | None:
    """The TPU's name or address; None and "local" are this machine's.

    Raises UserError: both flags of it are given, and differ.
    """
    if FLAGS.tpu and FLAGS.master and FLAGS.tpu != FLAGS.master:
        raise UserError(
            f"--tpu={FLAGS.tpu} and --master={FLAGS.master} contradict each "
            "other: give one of them"
        )
    return FLAGS.tpu or FLAGS.master


def recompute_layers() -> bool:
    """The flag of that name; objectives take it, not the strategy."""
    return FLAGS.recompute_layers


def _strategy_name() -> str:
    name = FLAGS.distribution_strategy
    if FLAGS.use_tpu:
        if name not in (None, "tpu"):
            raise UserError(
                f"--use_tpu and --distribution_strategy={name} contradict "
                "each other: give one of them"
            )
        return "tpu"
    if name is not None:
        return name
    if FLAGS.worker_hosts:
        return "multi_worker_mirrored"
    several = max(
        FLAGS.num_virtual_replicas,
        FLAGS.num_core_per_host or 0,
        FLAGS.num_gpus,
    )
    return "mirrored" if several > 1 else "one_device"


def _precision() -> str:
    if not FLAGS.use_bfloat16:
        return FLAGS.precision or "float32"
    if FLAGS.precision not in (None, "mixed_bfloat16"):
        raise UserError(
            f"--use_bfloat16 and --precision={FLAGS.precision} contradict each "
            "other: give one of them"
        )
    return "mixed_bfloat16"
