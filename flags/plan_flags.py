"""Flags of `benchmarks.tpu_plan`."""

import dataclasses

from absl import flags

from common.errors import UserError
from modeling.encoders.contract import EncoderConfig
from modeling.encoders.registry import read_config
from modeling.encoders.xlnet.config import XLNetConfig
from training.options import PRECISIONS

FLAGS = flags.FLAGS
TASKS = ("pretrain", "classification", "span", "multiple_choice")
TOPOLOGIES = ("v3", "v4", "v5e", "v6e")


@dataclasses.dataclass(frozen=True)
class PlanOptions:
    """What to compile, for which chip, and what to extrapolate.

    Attributes:
      config: the architecture.
      task: which step, a name of `TASKS`.
      rows: rows of one core.
      seq_len: T.
      mem_len: M; pretraining only.
      num_predict: P; pretraining only.
      precision: a name of `PRECISIONS`.
      recompute_layers: run layers again in the backward pass.
      topology: a name of `TOPOLOGIES`.
      search_batch: also find the largest number of rows that fits.
      full_step: also compile the whole step, for its memory.
      pod_cores: cores of the pod for the days.
      train_steps: steps for the days.
      json_output: file for the report, or None.
      length_buckets: of a fine-tuning step, as in the commands.
    """

    config: EncoderConfig
    task: str
    rows: int
    seq_len: int
    mem_len: int
    num_predict: int
    precision: str
    recompute_layers: bool
    topology: str
    search_batch: bool
    full_step: bool
    pod_cores: int
    train_steps: int
    json_output: str | None
    length_buckets: str = ""

    def __post_init__(self):
        for name in ("rows", "seq_len", "num_predict", "pod_cores"):
            if getattr(self, name) < 1:
                raise UserError(
                    f"{name} must be at least 1, found {getattr(self, name)}"
                )
        if self.task == "pretrain" and self.rows % 2:
            raise UserError(
                "--train_batch_size (rows of one core) must be even for "
                f"pretraining, whose rows are half forward and half backward; "
                f"found {self.rows}"
            )

    def replace(self, **changes) -> "PlanOptions":
        """A copy with some fields changed."""
        return dataclasses.replace(self, **changes)


def define() -> None:
    """Registers the flags."""
    flags.DEFINE_string(
        "model_config_path",
        None,
        "xlnet_config.json of the model, or the word large or base.",
        required=True,
    )
    flags.DEFINE_enum("task", "pretrain", TASKS, "Which training step.")
    flags.DEFINE_integer("train_batch_size", 2, "Rows of ONE core.")
    flags.DEFINE_integer("seq_len", 512, "Tokens per segment, T.")
    flags.DEFINE_integer("mem_len", 384, "Memory slots, M; pretraining only.")
    flags.DEFINE_integer("num_predict", 85, "Targets per segment, P.")
    flags.DEFINE_enum(
        "precision", "float32", PRECISIONS, "Of the matrix products."
    )
    flags.DEFINE_bool(
        "recompute_layers", False, "Run layers again in the backward pass."
    )
    flags.DEFINE_enum("topology", "v3", TOPOLOGIES, "Kind of TPU.")
    flags.DEFINE_string(
        "length_buckets",
        "",
        "Compile a fine-tuning step with these lengths as branches.",
    )
    flags.DEFINE_bool(
        "search_batch",
        False,
        "Find the largest number of rows that fits; several compilations.",
    )
    flags.DEFINE_bool(
        "full_step", True, "Compile the optimizer and memory update, too."
    )
    flags.DEFINE_integer(
        "pod_cores", 8, "Cores of the pod whose days are estimated."
    )
    flags.DEFINE_integer(
        "train_steps", 500_000, "Steps whose days are estimated."
    )
    flags.DEFINE_string("json_output", None, "Also write the report here.")


def from_flags() -> PlanOptions:
    """The parsed flags as options."""
    path = FLAGS.model_config_path
    if path in ("large", "base"):
        config = getattr(XLNetConfig, path)(vocab_size=32000)
    else:
        config = read_config(path)
    return PlanOptions(
        config=config,
        task=FLAGS.task,
        rows=FLAGS.train_batch_size,
        seq_len=FLAGS.seq_len,
        mem_len=FLAGS.mem_len,
        num_predict=FLAGS.num_predict,
        precision=FLAGS.precision,
        recompute_layers=FLAGS.recompute_layers,
        topology=FLAGS.topology,
        search_batch=FLAGS.search_batch,
        length_buckets=FLAGS.length_buckets,
        full_step=FLAGS.full_step,
        pod_cores=FLAGS.pod_cores,
        train_steps=FLAGS.train_steps,
        json_output=FLAGS.json_output,
    )
