"""Flags of `benchmarks.tpu.plan`."""

import dataclasses

from absl import flags

from common.errors import UserError
from flags.recipes import causal_lm_recipes, pretrain_recipes
from modeling.encoders.contract import EncoderConfig
from modeling.encoders.registry import read_config
from modeling.encoders.transformer_xl.config import TransformerXLConfig
from modeling.encoders.xlnet.config import XLNetConfig
from training.run_options import PRECISIONS

FLAGS = flags.FLAGS
TASKS = (
    "pretrain",
    "language_model",
    "classification",
    "span",
    "multiple_choice",
)
GB = 1e9
VOCABULARY = 32000
# V of the official sets, by the part of a recipe's name.
VOCABULARIES = {
    "wt103": 267_735,
    "enwik8": 204,
    "text8": 27,
    "lm1b": 793_471,
    "ptb": 10_000,
}
RECIPES = (
    "pretrain_large_v1",
    "pretrain_large_v2",
    "pretrain_base",
    *causal_lm_recipes.RECIPES,
)
TOPOLOGIES = ("v3", "v4", "v5e", "v6e")


@dataclasses.dataclass(frozen=True)
class JobOptions:
    """A pretraining job around the step.

    Attributes:
      save_steps: steps between saves.
      disk_bytes: per second that one host writes.
      copy_bytes: per second from a host's chips to its memory.
      host_bytes: memory of a host; 0 = that of the topology.
    """

    save_steps: int = 10_000
    disk_bytes: float = 1e9
    copy_bytes: float = 5e9
    host_bytes: float = 0.0

    def __post_init__(self):
        for name, flag in (
            ("save_steps", "save_steps"),
            ("disk_bytes", "disk_gb_per_second"),
            ("copy_bytes", "copy_gb_per_second"),
        ):
            if getattr(self, name) <= 0:
                raise UserError(
                    f"--{flag} must be above 0, found {getattr(self, name)}"
                )


@dataclasses.dataclass(frozen=True)
class PlanOptions:
    """What to compile, for which chip, and what to extrapolate.

    Attributes:
      config: the architecture.
      task: which step, a name of `TASKS`.
      rows: rows of one core.
      seq_len: T.
      mem_len: M; pretraining and language models.
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
      layers: two numbers of layers to compile, at least 2; the rest is a line
        through them. () = all layers.
      cache_dir: keeps what the compiler said of a program.
      job: what a whole job would need besides; pretraining only.
      step_seconds: of a step, known: nothing is compiled.
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
    layers: tuple[int, ...] = ()
    cache_dir: str | None = None
    job: JobOptions | None = None
    step_seconds: float | None = None

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
        known = self.step_seconds
        if known is not None and (known <= 0 or not self.job):
            raise UserError(
                "--step_seconds must be above 0 and is for pretraining, "
                f"found {known} for {self.task}"
            )
        n = self.config.n_layer
        if self.layers and not (
            len(self.layers) == 2 and 2 <= self.layers[0] < self.layers[1] <= n
        ):
            raise UserError(
                f"--layers must be two growing numbers from 2 to {n} (a single "
                "layer is not like the others), found "
                f"{','.join(map(str, self.layers))}"
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
    )
    flags.DEFINE_enum(
        "recipe",
        None,
        RECIPES,
        "Sizes, lengths, batch (over --pod_cores) and steps of a recipe.",
    )
    flags.DEFINE_enum("task", "pretrain", TASKS, "Which training step.")
    flags.DEFINE_integer("train_batch_size", 2, "Rows of ONE core.")
    flags.DEFINE_integer("seq_len", 512, "Tokens per segment, T.")
    flags.DEFINE_integer("mem_len", 384, "Memory slots, M; no fine-tuning.")
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
    flags.DEFINE_list(
        "layers",
        [],
        "Compile the step with so many and so many layers only (2,4) and draw "
        "a line through them: a fraction of the compiler's memory and time.",
    )
    flags.DEFINE_string(
        "cache_dir", None, "Keep what the compiler said here, by program."
    )
    flags.DEFINE_string("json_output", None, "Also write the report here.")
    _define_job()


def _define_job() -> None:
    job = JobOptions()
    flags.DEFINE_integer("save_steps", job.save_steps, "Steps between saves.")
    flags.DEFINE_float(
        "disk_gb_per_second", job.disk_bytes / GB, "One host writes so fast."
    )
    flags.DEFINE_float(
        "copy_gb_per_second",
        job.copy_bytes / GB,
        "From a host's chips to its memory.",
    )
    flags.DEFINE_float(
        "step_seconds",
        None,
        "Seconds of a step, measured or planned before: nothing is compiled, "
        "and the plan is of the job around it alone.",
    )
    flags.DEFINE_float(
        "host_memory_gb", 0.0, "Memory of a host; 0 = the topology's."
    )


def from_flags() -> PlanOptions:
    """The parsed flags as options.

    Raises:
      UserError: values that do not fit each other.
    """
    path, values = FLAGS.model_config_path, _values()
    if bool(path) == bool(FLAGS.recipe):
        raise UserError("give --model_config_path or --recipe, one of them")
    if FLAGS.recipe:
        config = _of_recipe(values)
    elif path in ("large", "base"):
        config = getattr(XLNetConfig, path)(vocab_size=VOCABULARY)
    else:
        config = read_config(path)
    causal = config.model_type == TransformerXLConfig.model_type
    if causal != (values["task"] == "language_model"):
        raise UserError(
            f"--task={values['task']} does not fit a {config.model_type} "
            "model: --task=language_model is for those of run_lm.py, which "
            "have no other"
        )
    return PlanOptions(config=config, **values)


def _values() -> dict:
    job = JobOptions(
        FLAGS.save_steps,
        FLAGS.disk_gb_per_second * GB,
        FLAGS.copy_gb_per_second * GB,
        FLAGS.host_memory_gb * GB,
    )
    try:
        layers = tuple(int(n) for n in FLAGS.layers)
    except ValueError as e:
        raise UserError(f"--layers must be numbers, found {e}") from e
    return dict(
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
        layers=layers,
        cache_dir=FLAGS.cache_dir,
        step_seconds=FLAGS.step_seconds,
        job=job if FLAGS.task == "pretrain" else None,
    )


def _of_recipe(values: dict) -> EncoderConfig:
    """Puts a recipe's numbers into `values`; the architecture."""
    config, known = of_recipe(FLAGS.recipe)
    batch, cores = known.pop("train_batch_size"), values["pod_cores"]
    if batch % cores:
        raise UserError(
            f"--recipe={FLAGS.recipe} has {batch} rows, which do not divide by "
            f"--pod_cores={cores}"
        )
    values |= known | {"rows": batch // cores}
    if known["task"] != "pretrain":
        values["job"] = None
    return config


def of_recipe(name: str) -> tuple[EncoderConfig, dict]:
    """The architecture of a recipe, and what a plan takes of it."""
    causal = name in causal_lm_recipes.RECIPES
    kind, recipes = XLNetConfig, pretrain_recipes
    if causal:
        kind, recipes = TransformerXLConfig, causal_lm_recipes
    recipe = recipes.find(name)
    known = recipe.flags | recipe.assumed
    planned = ("train_batch_size", "seq_len", "mem_len", "train_steps")
    taken = {k: known[k] for k in planned}
    taken["task"] = "language_model" if causal else "pretrain"
    fields = {field.name for field in dataclasses.fields(kind)}
    sizes = {k: v for k, v in known.items() if k in fields - {"mem_len"}}
    size = VOCABULARIES[name.split("_")[1]] if causal else VOCABULARY
    return kind(vocab_size=size, **sizes), taken
