"""Flags of devices, precision and determinism; the original's names work."""

from absl import flags

from common.errors import UserError
from flags import flag_values
from training.options import PRECISIONS, STRATEGIES, StrategyOptions

FLAGS = flags.FLAGS


def define() -> None:
    """Registers the flags."""
    default = StrategyOptions
    _define_devices(default)
    flags.DEFINE_enum(
        "precision",
        None,
        PRECISIONS,
        "Of matrix products; softmax, norms and losses are always float32. "
        "Default: float32, or what --use_bfloat16 says.",
    )
    flags.DEFINE_bool(
        "use_bfloat16",
        False,
        "The original's name of --precision=mixed_bfloat16.",
    )
    flags.DEFINE_bool(
        "jit_compile", default.jit_compile, "Compile the step with XLA."
    )
    flags.DEFINE_bool(
        "recompute_layers",
        False,
        "Run each layer again in the backward pass instead of keeping its "
        "activations: less memory, about a third more time.",
    )
    flags.DEFINE_bool(
        "deterministic",
        default.deterministic,
        "Deterministic operations; without them a resumed run is only close.",
    )
    flags.DEFINE_integer(
        "intra_op_threads",
        default.intra_op_threads,
        "Threads of one operation; 0 leaves it to TensorFlow.",
    )
    flags.DEFINE_integer(
        "inter_op_threads",
        default.inter_op_threads,
        "Operations at a time; 0 leaves it to TensorFlow.",
    )
    flags.DEFINE_integer(
        "seed", default.seed, "Of weights, dropout and the order of the data."
    )


def _define_devices(default) -> None:
    flags.DEFINE_enum(
        "distribution_strategy",
        None,
        STRATEGIES,
        "Default: tpu with --use_tpu, else mirrored with several GPUs or "
        "--num_core_per_host, else one_device.",
    )
    flags.DEFINE_integer(
        "num_gpus", default.num_gpus, "GPUs to use; -1 = all there are."
    )
    flags.DEFINE_enum(
        "all_reduce_alg",
        default.all_reduce_alg,
        ["nccl", "hierarchical_copy", "ring"],
        "How gradients are added up.",
    )
    flags.DEFINE_integer(
        "num_virtual_replicas",
        default.num_virtual_replicas,
        "Split the CPU into so many replicas; for tests, it is not faster.",
    )
    flags.DEFINE_bool("use_tpu", False, "Run on the TPU that --tpu names.")
    flags.DEFINE_string(
        "tpu",
        default.tpu,
        'Name or grpc:// address of the TPU; "local" on a TPU VM.',
    )
    flags.DEFINE_string(
        "tpu_zone", default.tpu_zone, "Zone of the TPU that --tpu names."
    )
    flags.DEFINE_string(
        "gcp_project", default.gcp_project, "Project of the TPU."
    )
    flags.DEFINE_string(
        "master", None, "The original's name of an address for --tpu."
    )
    flags.DEFINE_integer(
        "num_hosts",
        None,
        "Hosts that are expected; the run stops when there are others.",
    )
    flags.DEFINE_integer(
        "num_core_per_host",
        None,
        "Replicas per host that are expected: TPU cores, or GPUs.",
    )
    flags.DEFINE_string(
        "worker_hosts",
        default.worker_hosts,
        "host:port of every process of multi_worker_mirrored; default: "
        "TF_CONFIG.",
    )
    flags.DEFINE_integer(
        "task_index",
        default.task_index,
        "Which of --worker_hosts this process is.",
    )


def from_flags(**changes) -> StrategyOptions:
    """The parsed flags as options.

    Raises:
      UserError: flags that contradict each other.
    """
    given = {
        "distribution_strategy": _strategy_name(),
        "tpu": tpu_address(),
        "precision": _precision(),
    }
    return flag_values.build(StrategyOptions, **(given | changes))


def on_tpu() -> bool:
    """All shapes must be known."""
    return _strategy_name() == "tpu"


def tpu_address() -> str | None:
    """The TPU's name or address; None and "local" are this machine's."""
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
