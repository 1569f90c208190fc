"""Everything that a run can be told, as frozen and validated dataclasses.

`RunOptions` holds the others. Defaults are the original's; what this project
adds is off.
"""

import dataclasses

from common.checks import follows, one_of, require
from common.settings import FOLDER, REQUIRED, check, setting
from common.weights.weights_line import choice_setting, part_setting

PRECISIONS = ("float32", "mixed_bfloat16", "mixed_float16")
# Of the weights and products of a SavedModel; see `modeling.models.half_precision`.
EXPORT_PRECISIONS = PRECISIONS[:2]
STRATEGIES = ("one_device", "mirrored", "multi_worker_mirrored", "tpu")
DECAY_METHODS = ("poly", "cos", "constant", "wsd")
DECAY_SHAPES = ("linear", "1-sqrt")
# Name -> its class, "module:class".
OPTIMIZERS = {
    "adamw": "training.optim.optimizer:AdamW",
    "stable_adamw": "training.optim.stable_adamw:StableAdamW",
}
MEMORY_CHECKPOINTS = ("exact", "recompute", "none")
MOST_SEEDS = 2**31
# Setting -> strategies that follow it, and what else to give.
_OF_STRATEGY = {
    **dict.fromkeys(
        ("tpu", "tpu_zone", "gcp_project"), (("tpu",), "give --use_tpu, or ")
    ),
    **dict.fromkeys(
        ("worker_hosts", "task_index"), (("multi_worker_mirrored",), "")
    ),
    "all_reduce_alg": (("mirrored", "multi_worker_mirrored"), ""),
}
LAYER_DECAY_STYLES = ("learning_rate", "gradient")


@dataclasses.dataclass(frozen=True)
class OptimizerOptions:
    """AdamW (or plain Adam) and its schedule."""

    learning_rate: float = setting(
        1e-05, "Largest learning rate.", bounds="> 0", often=True
    )
    warmup_steps: int = setting(
        0, "Steps in which the learning rate rises from 0.", bounds=">= 0"
    )
    decay_method: str = setting(
        "poly",
        "How the rate falls after the warm-up: poly is a straight line; wsd"
        " stays at the peak until the last --decay_steps.",
        choices=DECAY_METHODS,
    )
    decay_steps: int = setting(
        0,
        "With --decay_method=wsd: steps in which the rate falls at the end.",
        bounds=">= 0",
    )
    decay_shape: str = setting(
        "linear",
        "With --decay_method=wsd: a straight line, or 1 - sqrt of what is "
        "done.",
        choices=DECAY_SHAPES,
    )
    optimizer: str = setting(
        "adamw",
        "stable_adamw clips each tensor's update by its own size: give "
        "--clip=0 with it.",
        choices=OPTIMIZERS,
    )
    decouple_lr: bool = setting(
        False,
        "stable_adamw: weight decay is a share per step at the peak rate, "
        "not times the rate.",
    )
    min_lr_ratio: float = setting(
        0.0, "Last learning rate over the largest one.", bounds="[0, 1]"
    )
    weight_decay: float = setting(
        0.0,
        "Decoupled decay; 0 selects the original's bias-corrected Adam.",
        bounds=">= 0",
    )
    beta1: float = setting(
        0.9, "Decay of the first moment.", bounds="[0, 1)", flag="adam_beta1"
    )
    beta2: float = setting(
        0.999, "Decay of the second moment.", bounds="[0, 1)", flag="adam_beta2"
    )
    adam_epsilon: float = setting(
        1e-08, "Added to the root of the second moment.", bounds="> 0"
    )
    clip: float = setting(
        1.0,
        "Largest norm of the whole gradient, after aggregation; 0 = off.",
        bounds=">= 0",
    )
    lr_layer_decay_rate: float = setting(
        1.0,
        "a: layer m of L learns with a^(L-m) of the rate, embeddings a^L.",
        bounds="(0, 1]",
    )
    lr_layer_decay_style: str = setting(
        "learning_rate",
        "What the layer-wise factor scales; gradient is the original's, "
        "which Adam nearly cancels.",
        choices=LAYER_DECAY_STYLES,
    )
    ema_decay: float = setting(
        0.0,
        "Decay of a moving average of the weights that evaluations use; 0 ="
        " off.",
        bounds="[0, 1)",
    )
    average_last: int = setting(
        0,
        "N: evaluations use the mean of the weights after each of the last N "
        "updates; 0 = off.",
        bounds=">= 0",
    )
    average_trigger: int = setting(
        0,
        "NT-ASGD: the mean of the weights begins with the evaluation whose "
        "loss is above the best loss of those more than this many evaluations "
        "old; needs --eval_every; 0 = off.",
        bounds=">= 0",
    )
    freeze_layers: int = setting(
        0,
        "The embeddings and this many lower layers are not trained.",
        bounds=">= 0",
    )

    def __post_init__(self):
        check(self)
        kinds = ("ema_decay", "average_last", "average_trigger")
        averages = [name for name in kinds if getattr(self, name)]
        require(
            len(averages) < 2,
            f"one average of the weights at a time, received {averages}",
        )
        method, optimizer = self.decay_method, self.optimizer
        follows(
            self.decay_steps, "decay_steps", "decay_method", ("wsd",), method
        )
        follows(
            self.decouple_lr,
            *("decouple_lr", "optimizer", ("stable_adamw",), optimizer),
        )

    @property
    def averages(self) -> bool:
        """Evaluations use an average of the weights."""
        return bool(self.ema_decay or self.average_last or self.average_trigger)


@dataclasses.dataclass(frozen=True)
class StrategyOptions:
    """Where and in which precision the steps run."""

    distribution_strategy: str = setting(
        "one_device",
        "Default: tpu with --use_tpu, multi_worker_mirrored with "
        "--worker_hosts, mirrored with --num_gpus, --num_core_per_host or "
        "--num_virtual_replicas above 1, else one_device.",
        choices=STRATEGIES,
    )
    num_gpus: int = setting(
        -1, "GPUs of mirrored; -1 = all there are.", bounds=">= -1"
    )
    all_reduce_alg: str | None = setting(
        None,
        "How gradients are added up.",
        choices=("nccl", "hierarchical_copy", "ring"),
    )
    num_virtual_replicas: int = setting(
        0,
        "Split the CPU into this many replicas; for tests, it is not faster.",
        bounds=">= 0",
    )
    tpu: str | None = setting(
        None, 'Name or grpc:// address of the TPU; "local" on a TPU VM.'
    )
    tpu_zone: str | None = setting(None, "Zone of the TPU that --tpu names.")
    gcp_project: str | None = setting(None, "Project of the TPU.")
    num_hosts: int | None = setting(
        None,
        "Hosts that are expected; the run stops when there are others.",
        bounds=">= 1",
    )
    num_core_per_host: int | None = setting(
        None,
        "Replicas per host that are expected: TPU cores, or GPUs.",
        bounds=">= 1",
    )
    worker_hosts: str | None = setting(
        None,
        "host:port of every process of multi_worker_mirrored; default: "
        "TF_CONFIG.",
    )
    task_index: int = setting(-1, "Which of --worker_hosts this process is.")
    precision: str = setting(
        "float32",
        "Of matrix products; softmax, norms and losses are always float32. "
        "Default: float32, or what --use_bfloat16 says.",
        choices=PRECISIONS,
        often=True,
    )
    jit_compile: bool = setting(False, "Compile the step with XLA.")
    deterministic: bool = setting(
        True,
        "Deterministic operations; without them a resumed run is only close.",
    )
    intra_op_threads: int = setting(
        0,
        "Threads of one operation; 0 leaves it to TensorFlow.",
        bounds=">= 0",
    )
    inter_op_threads: int = setting(
        0, "Operations at a time; 0 leaves it to TensorFlow.", bounds=">= 0"
    )
    seed: int = setting(
        0,
        "Of weights, dropout and the order of the data.",
        bounds="[0, 2147483648)",
        often=True,
    )

    def __post_init__(self):
        check(self)
        follows(
            self.num_virtual_replicas > 1,
            *("num_virtual_replicas", "distribution_strategy", ("mirrored",)),
            self.distribution_strategy,
        )
        self._check_followed()

    def _check_followed(self) -> None:
        """Raises UserError: a setting is given that the strategy ignores."""
        for name, (strategies, instead) in _OF_STRATEGY.items():
            value = getattr(self, name)
            require(
                value in (None, "", -1)
                or self.distribution_strategy in strategies,
                f"--{name}={value} needs --distribution_strategy="
                f"{' or '.join(strategies)}, received "
                f"{self.distribution_strategy!r}: {instead}leave it out",
            )
        require(
            self.num_gpus <= 1 or self.distribution_strategy == "mirrored",
            f"--num_gpus={self.num_gpus} needs --distribution_strategy="
            f"mirrored, received {self.distribution_strategy!r}: leave it out; "
            "CUDA_VISIBLE_DEVICES says which a process sees",
        )
        require(
            not self.all_reduce_alg or self.num_virtual_replicas <= 1,
            f"--all_reduce_alg={self.all_reduce_alg} is for GPUs: leave it out "
            "with --num_virtual_replicas",
        )


@dataclasses.dataclass(frozen=True)
class RunOptions:
    """One run of a `run_*.py` command.

    Attributes:
      init_require: "encoder" (heads may be new) or "all".
      best_metric: name of the metric that `best/` is kept by; None = off.
      best_higher: True when a higher value of it is better.
    """

    model_dir: str = setting(
        REQUIRED,
        "Folder of the run: checkpoints, the model's configuration, run.json, "
        "losses.tsv, TensorBoard files. A run continues from what is there.",
        often=True,
    )
    init_checkpoint: str | None = setting(
        None,
        "Warm start: a checkpoint of ours, a TF1 one, a Hugging Face folder "
        "or hf://ORG/NAME; used when --model_dir has no checkpoint yet.",
        often=True,
        released=FOLDER,
    )
    init_require: str = "encoder"
    checkpoint_choice: str = choice_setting()
    init_part: str = part_setting()
    train_steps: int = setting(
        1000, "Optimizer steps of the whole run.", bounds=">= 1", often=True
    )
    train_batch_size: int = setting(
        16,
        "Rows per optimizer step, over all replicas and accumulation steps.",
        bounds=">= 1",
        often=True,
    )
    eval_batch_size: int = setting(
        16, "Rows per evaluation step over all replicas.", bounds=">= 1"
    )
    grad_accumulation_steps: int = setting(
        1,
        "The training batch goes through in this many equal parts.",
        bounds=">= 1",
    )
    min_batch_size: int = setting(
        0,
        "Rows of the first steps, whole micro-batches of "
        "--grad_accumulation_steps; 0 = always --train_batch_size.",
        bounds=">= 0",
    )
    batch_size_warmup_tokens: int = setting(
        0,
        "Positions over which the batch grows from --min_batch_size.",
        bounds=">= 0",
    )
    iterations: int = setting(
        100, "Steps per host loop and log line.", bounds=">= 1"
    )
    save_steps: int = setting(
        1000,
        "A checkpoint at every multiple of this many steps; 0 = at the end.",
        bounds=">= 0",
        often=True,
    )
    max_save: int = setting(
        3, "Checkpoints that are kept; 0 = all.", bounds=">= 0"
    )
    eval_every: int = setting(
        0,
        "Evaluate at every multiple of this many steps; 0 = at the end.",
        bounds=">= 0",
    )
    eval_at_start: bool = False
    eval_steps: int = setting(
        -1,
        "Batches per evaluation; -1 = the whole set, as fine-tuning does.",
    )
    best_metric: str | None = None
    best_higher: bool = True
    patience: int = setting(
        0,
        "Stop after this many evaluations (--eval_every) without a better "
        "--best_metric; 0 = never.",
        bounds=">= 0",
    )
    reset_memory: bool = setting(
        False,
        "Start with empty memory instead of the checkpoint's; needed when "
        "the batch size changes.",
    )
    memory_checkpoint: str = setting(
        "exact",
        "exact: checkpoints hold the recurrent memory. recompute: they do "
        "not; after a restart it is rebuilt from the segments before, "
        "not bit for bit. none: it starts empty.",
        choices=MEMORY_CHECKPOINTS,
    )
    async_save: bool = setting(
        False, "Copy what is saved and write it beside the next steps."
    )
    max_hours: float = setting(
        0.0,
        "Save and stop cleanly after this many hours of the command, all its "
        "trainings together; 0 = off.",
        bounds=">= 0",
    )
    progress: str = setting(
        "auto",
        "A bar on a terminal and lines elsewhere, always lines, or notes alone.",
        choices=("auto", "lines", "none"),
    )
    optimizer: OptimizerOptions = OptimizerOptions()
    strategy: StrategyOptions = StrategyOptions()

    def __post_init__(self):
        check(self)
        require(self.model_dir, "--model_dir must be given")
        require(
            self.eval_steps >= 1 or self.eval_steps == -1,
            f"--eval_steps must be >= 1 or -1 (all), got {self.eval_steps}",
        )
        o, steps = self.optimizer, f"--train_steps ({self.train_steps})"
        require(
            o.warmup_steps < self.train_steps or not o.warmup_steps,
            f"--warmup_steps ({o.warmup_steps}) must be smaller than {steps}",
        )
        require(
            o.warmup_steps + o.decay_steps <= self.train_steps,
            f"--warmup_steps ({o.warmup_steps}) and --decay_steps "
            f"({o.decay_steps}) must fit into {steps}",
        )
        require(
            bool(self.min_batch_size) == bool(self.batch_size_warmup_tokens),
            "--min_batch_size and --batch_size_warmup_tokens go together, "
            f"received {self.min_batch_size} and "
            f"{self.batch_size_warmup_tokens}",
        )
        require(
            o.average_last <= self.train_steps,
            f"--average_last ({o.average_last}) must be at most {steps}",
        )
        require(
            self.eval_every or not o.average_trigger,
            "--average_trigger counts evaluations: give --eval_every",
        )
        one_of(self, init_require=("encoder", "all"))

    def replace(self, **changes) -> "RunOptions":
        """A copy with some fields changed."""
        return dataclasses.replace(self, **changes)

    def steps_until_due(self, step: int) -> int:
        """Steps of the next host loop: it ends where something is due."""
        periods = (self.iterations, self.save_steps, self.eval_every)
        ends = [(step // p + 1) * p for p in periods if p]
        return min([*ends, self.train_steps]) - step
