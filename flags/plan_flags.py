"""Flags of `benchmarks.tpu.plan`."""

import dataclasses

from absl import flags

from common.errors import UserError
from common.settings import check, setting
from flags import flag_values
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
    """A pretraining job around the step."""

    save_steps: int = setting(10_000, "Steps between saves.", bounds="> 0")
    disk_gb_per_second: float = setting(
        1.0, "One host writes so fast.", bounds="> 0"
    )
    copy_gb_per_second: float = setting(
        5.0, "From a host's chips to its memory.", bounds="> 0"
    )
    host_memory_gb: float = setting(
        0.0, "Memory of a host; 0 = the topology's."
    )

    def __post_init__(self):
        check(self)


@dataclasses.dataclass(frozen=True)
class PlanOptions:
    """What to compile, for which chip, and what to extrapolate."""

    config: EncoderConfig
    task: str = setting("pretrain", "Which training step.", choices=TASKS)
    rows: int = setting(
        2, "Rows of ONE core.", bounds=">= 1", flag="train_batch_size"
    )
    seq_len: int = setting(512, "Tokens per segment, T.", bounds=">= 1")
    mem_len: int = setting(384, "Memory slots, M; no fine-tuning.")
    num_predict: int = setting(85, "Targets per segment, P.", bounds=">= 1")
    precision: str = setting(
        "float32", "Of the matrix products.", choices=PRECISIONS
    )
    recompute_layers: bool = setting(
        False, "Run layers again in the backward pass."
    )
    topology: str = setting("v3", "Kind of TPU.", choices=TOPOLOGIES)
    search_batch: bool = setting(
        False,
        "Find the largest number of rows that fits; several compilations.",
    )
    full_step: bool = setting(
        True, "Compile the optimizer and memory update, too."
    )
    pod_cores: int = setting(
        8, "Cores of the pod whose days are estimated.", bounds=">= 1"
    )
    train_steps: int = setting(500_000, "Steps whose days are estimated.")
    json_output: str | None = setting(None, "Also write the report here.")
    length_buckets: str = setting(
        "", "Compile a fine-tuning step with these lengths as branches."
    )
    # two numbers, at least 2. () = all layers.
    layers: tuple[int, ...] = setting(
        (),
        "Compile the step with two numbers of layers only (2,4) and draw "
        "a line through them: a fraction of the compiler's memory and time.",
    )
    cache_dir: str | None = setting(
        None, "Keep what the compiler said here, by program."
    )
    # what a whole job would need besides; pretraining only
    job: JobOptions | None = None
    step_seconds: float | None = setting(
        None,
        "Seconds of a step, measured or planned before: nothing is compiled, "
        "and the plan is of the job around it alone.",
    )

    def __post_init__(self):
        check(self)
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
        "Sizes, lengths, batch (over --pod_cores) and steps of a recipe; flags "
        "that are given override it.",
    )
    flag_values.define(PlanOptions)
    flag_values.define(JobOptions)


def from_flags() -> PlanOptions:
    """The parsed flags; UserError where values do not fit each other."""
    path, known = FLAGS.model_config_path, {}
    if bool(path) == bool(FLAGS.recipe):
        raise UserError("give --model_config_path or --recipe, one of them")
    if FLAGS.recipe:
        config, known = _per_core(FLAGS.recipe, FLAGS.pod_cores)
    elif path in ("large", "base"):
        config = getattr(XLNetConfig, path)(vocab_size=VOCABULARY)
    else:
        config = read_config(path)
    causal = config.model_type == TransformerXLConfig.model_type
    task = known.get("task", FLAGS.task)
    if causal != (task == "language_model"):
        raise UserError(
            f"--task={task} does not fit a {config.model_type} "
            "model: --task=language_model is for those of run_lm.py, which "
            "have no other"
        )
    job = flag_values.build(JobOptions) if task == "pretrain" else None
    return flag_values.build(PlanOptions, config=config, job=job, **known)


def _per_core(name: str, cores: int) -> tuple[EncoderConfig, dict]:
    """The architecture of a recipe, and its numbers with the rows of a core.

    Without those that flags give. Raises UserError: its rows do not divide.
    """
    config, known = of_recipe(name)
    batch = known["train_batch_size"]
    known = {k: v for k, v in known.items() if not FLAGS[k].present}
    if known.pop("train_batch_size", None) is None:
        return config, known
    if batch % cores:
        raise UserError(
            f"--recipe={name} has {batch} rows, which do not divide by "
            f"--pod_cores={cores}; give --train_batch_size, rows of one core"
        )
    return config, known | {"rows": batch // cores}


def of_recipe(name: str) -> tuple[EncoderConfig, dict]:
    """The architecture of a recipe, and what a plan takes of it."""
    causal = name in causal_lm_recipes.RECIPES
    kind, recipes = XLNetConfig, pretrain_recipes
    if causal:
        kind, recipes = TransformerXLConfig, causal_lm_recipes
    recipe = recipes.RECIPES[name]
    known = recipe.flags | recipe.assumed
    planned = ("train_batch_size", "seq_len", "mem_len", "train_steps")
    taken = {k: known[k] for k in planned}
    taken["task"] = "language_model" if causal else "pretrain"
    fields = {field.name for field in dataclasses.fields(kind)}
    sizes = {k: v for k, v in known.items() if k in fields - {"mem_len"}}
    size = VOCABULARIES[name.split("_")[1]] if causal else VOCABULARY
    return kind(vocab_size=size, **sizes), taken
