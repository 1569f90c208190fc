"""Everything that a run can be told, as frozen and validated dataclasses (L0).

`RunOptions` holds the three others. The values that the original leaves at
its defaults are its defaults; where this project adds something, off is the
default.
"""

import dataclasses

from common.checks import one_of, require, within
from common.weights_line import AUTO, CHECKPOINT_CHOICES

PRECISIONS = ("float32", "mixed_bfloat16", "mixed_float16")
# Of the weights and products of a SavedModel; see `modeling.half_precision`.
EXPORT_PRECISIONS = PRECISIONS[:2]
STRATEGIES = ("one_device", "mirrored", "multi_worker_mirrored", "tpu")
DECAY_METHODS = ("poly", "cos", "constant", "wsd")
DECAY_SHAPES = ("linear", "1-sqrt")
OPTIMIZERS = ("adamw", "stable_adamw")
MEMORY_CHECKPOINTS = ("exact", "recompute", "none")
LAYER_DECAY_STYLES = ("learning_rate", "gradient")


@dataclasses.dataclass(frozen=True)
class OptimizerOptions:
    """AdamW (or plain Adam) and its schedule.

    Attributes:
      learning_rate: peak rate.
      warmup_steps: steps of linear warm-up; the first update has rate 0.
      decay_method: "poly" (linear), "cos" or "constant" after the warm-up;
        "wsd" (warm-up, stable, decay) stays at the peak and falls in the last
        `decay_steps` only.
      decay_steps: of "wsd"; 0 = it never falls.
      decay_shape: of "wsd": "linear", or "1-sqrt" of the share that is done.
      optimizer: "adamw" or "stable_adamw" (ModernBERT's).
      decouple_lr: of "stable_adamw": decay in units of the peak rate.
      min_lr_ratio: the rate at the last step over the peak rate.
      weight_decay: decoupled; 0 selects the original's bias-corrected Adam.
      beta1: decay of the first moment.
      beta2: decay of the second moment.
      adam_epsilon: added to the root of the second moment.
      clip: largest global norm of the gradient, after aggregation; 0 = off.
      lr_layer_decay_rate: a; layer m of L learns with a^(L-m) of the rate.
      lr_layer_decay_style: "learning_rate" scales the update and the decay;
        "gradient" scales the clipped gradients, as the original does.
      ema_decay: of an exponential moving average of the weights; 0 = off.
      average_last: keep the mean of the weights after each of the last so many
        updates; 0 = off.
      average_trigger: keep the mean of the weights from the evaluation on
        whose loss is above the best of those more than so many evaluations
        old (NT-ASGD); 0 = off.
      freeze_layers: the embeddings and so many lower layers stay as they are.
    """

    learning_rate: float = 1e-5
    warmup_steps: int = 0
    decay_method: str = "poly"
    decay_steps: int = 0
    decay_shape: str = "linear"
    optimizer: str = "adamw"
    decouple_lr: bool = False
    min_lr_ratio: float = 0.0
    weight_decay: float = 0.0
    beta1: float = 0.9
    beta2: float = 0.999
    adam_epsilon: float = 1e-8
    clip: float = 1.0
    lr_layer_decay_rate: float = 1.0
    lr_layer_decay_style: str = "learning_rate"
    ema_decay: float = 0.0
    average_last: int = 0
    average_trigger: int = 0
    freeze_layers: int = 0

    def __post_init__(self):
        within(self, "> 0", "learning_rate", "adam_epsilon")
        within(
            self,
            ">= 0",
            "warmup_steps",
            "decay_steps",
            "weight_decay",
            "clip",
            "freeze_layers",
            "average_last",
            "average_trigger",
        )
        within(self, "[0, 1)", "beta1", "beta2", "ema_decay")
        within(self, "[0, 1]", "min_lr_ratio")
        within(self, "(0, 1]", "lr_layer_decay_rate")
        kinds = ("ema_decay", "average_last", "average_trigger")
        given = [name for name in kinds if getattr(self, name)]
        require(
            len(given) < 2,
            f"one average of the weights at a time, received {given}",
        )
        one_of(
            self,
            decay_method=DECAY_METHODS,
            decay_shape=DECAY_SHAPES,
            optimizer=OPTIMIZERS,
            lr_layer_decay_style=LAYER_DECAY_STYLES,
        )
        require(
            self.decay_method == "wsd" or not self.decay_steps,
            "--decay_steps is for decay_method='wsd', received "
            f"{self.decay_method!r}",
        )
        require(
            self.optimizer == "stable_adamw" or not self.decouple_lr,
            "--decouple_lr is for optimizer='stable_adamw', received "
            f"{self.optimizer!r}",
        )

    @property
    def averages(self) -> bool:
        """Evaluations use an average of the weights."""
        return bool(self.ema_decay or self.average_last or self.average_trigger)


@dataclasses.dataclass(frozen=True)
class StrategyOptions:
    """Where and in which precision the steps run.

    Attributes:
      distribution_strategy: a name of `STRATEGIES`.
      num_gpus: GPUs used by "one_device" and "mirrored"; -1 = all there are.
      all_reduce_alg: "nccl", "hierarchical_copy", "ring" or None.
      num_virtual_replicas: > 1 splits the CPU into so many replicas of
        "mirrored"; for tests, it is not faster.
      tpu: name or address of the TPU; "local" on a TPU VM.
      tpu_zone: zone of a named TPU.
      gcp_project: project of a named TPU.
      num_hosts: hosts that must be there; None = any number.
      num_core_per_host: replicas per host that must be there; None = any.
      worker_hosts: "host:port" of every worker, comma-separated; None reads
        TF_CONFIG.
      task_index: which of `worker_hosts` this process is.
      precision: a name of `PRECISIONS`.
      jit_compile: compile the step with XLA (always so on TPU).
      deterministic: TensorFlow's deterministic ops; exact resume needs them.
      intra_op_threads: threads of one op; 0 leaves it to TensorFlow.
      inter_op_threads: ops at a time; 0 leaves it to TensorFlow.
      seed: of weights, dropout and data order.
    """

    distribution_strategy: str = "one_device"
    num_gpus: int = -1
    all_reduce_alg: str | None = None
    num_virtual_replicas: int = 0
    tpu: str | None = None
    tpu_zone: str | None = None
    gcp_project: str | None = None
    num_hosts: int | None = None
    num_core_per_host: int | None = None
    worker_hosts: str | None = None
    task_index: int = -1
    precision: str = "float32"
    jit_compile: bool = False
    deterministic: bool = True
    intra_op_threads: int = 0
    inter_op_threads: int = 0
    seed: int = 0

    def __post_init__(self):
        one_of(self, distribution_strategy=STRATEGIES, precision=PRECISIONS)
        require(
            self.num_virtual_replicas <= 1
            or self.distribution_strategy == "mirrored",
            "--num_virtual_replicas needs --distribution_strategy=mirrored, "
            f"received {self.distribution_strategy!r}",
        )
        within(self, "[0, 2147483648)", "seed")


@dataclasses.dataclass(frozen=True)
class RunOptions:
    """One run of a `run_*.py` command.

    Attributes:
      model_dir: holds checkpoints, `checkpoint`, `xlnet_config.json`,
        `run.json`, `losses.tsv` and TensorBoard files.
      init_checkpoint: warm start when `model_dir` has no checkpoint yet.
      init_require: "encoder" (heads may be new) or "all".
      checkpoint_choice: of the checkpoints of a folder that is read: "best",
        "last", or "auto", see `modeling.checkpoints.weights`.
      train_steps: optimizer steps of the whole run.
      train_batch_size: rows per optimizer step over all replicas.
      eval_batch_size: rows per evaluation step over all replicas.
      grad_accumulation_steps: micro-batches that a batch goes through in.
      min_batch_size, batch_size_warmup_tokens: see
        `training.batch_warmup`; 0 = every step is whole.
      iterations: steps per host loop.
      save_steps: a checkpoint at every multiple; 0 = at the end only.
      max_save: checkpoints kept; 0 = all.
      eval_every: evaluate at every multiple of so many steps; 0 = at the end.
      eval_at_start: also evaluate before the first step.
      eval_steps: batches per evaluation; -1 = the whole set.
      best_metric: name of the metric that `best/` is kept by; None = off.
      best_higher: True when a higher value of it is better.
      patience: stop after so many evaluations without a better `best_metric`;
        0 = never.
      reset_memory: start with empty memory instead of the checkpoint's.
      memory_checkpoint: "exact" keeps the recurrent memory beside every
        checkpoint; after a restore "recompute" makes it again from the
        segments before, and "none" starts with an empty one.
      async_save: write checkpoints beside the next steps.
      max_hours: save and stop cleanly after so many hours; 0 = off.
      progress: "auto" (a bar on a terminal, lines elsewhere), "lines", "none".
      optimizer: see `OptimizerOptions`.
      strategy: see `StrategyOptions`.
    """

    model_dir: str
    init_checkpoint: str | None = None
    init_require: str = "encoder"
    checkpoint_choice: str = AUTO
    train_steps: int = 1000
    train_batch_size: int = 16
    eval_batch_size: int = 16
    grad_accumulation_steps: int = 1
    min_batch_size: int = 0
    batch_size_warmup_tokens: int = 0
    iterations: int = 100
    save_steps: int = 1000
    max_save: int = 3
    eval_every: int = 0
    eval_at_start: bool = False
    eval_steps: int = -1
    best_metric: str | None = None
    best_higher: bool = True
    patience: int = 0
    reset_memory: bool = False
    memory_checkpoint: str = "exact"
    async_save: bool = False
    max_hours: float = 0.0
    progress: str = "auto"
    optimizer: OptimizerOptions = OptimizerOptions()
    strategy: StrategyOptions = StrategyOptions()

    def __post_init__(self):
        require(self.model_dir, "--model_dir must be given")
        within(
            self,
            ">= 1",
            "train_steps",
            "train_batch_size",
            "eval_batch_size",
            "grad_accumulation_steps",
            "iterations",
        )
        within(
            self,
            ">= 0",
            "save_steps",
            "max_save",
            "eval_every",
            "max_hours",
            "patience",
            "min_batch_size",
            "batch_size_warmup_tokens",
        )
        require(
            self.eval_steps >= 1 or self.eval_steps == -1,
            f"--eval_steps must be >= 1 or -1 (all), got {self.eval_steps}",
        )
        require(
            self.optimizer.warmup_steps < self.train_steps
            or self.optimizer.warmup_steps == 0,
            f"--warmup_steps ({self.optimizer.warmup_steps}) must be smaller "
            f"than --train_steps ({self.train_steps})",
        )
        require(
            bool(self.min_batch_size) == bool(self.batch_size_warmup_tokens),
            "--min_batch_size and --batch_size_warmup_tokens go together, "
            f"received {self.min_batch_size} and "
            f"{self.batch_size_warmup_tokens}",
        )
        require(
            self.optimizer.average_last <= self.train_steps,
            f"--average_last ({self.optimizer.average_last}) must be at most "
            f"--train_steps ({self.train_steps})",
        )
        require(
            self.eval_every or not self.optimizer.average_trigger,
            "--average_trigger counts evaluations: give --eval_every",
        )
        one_of(
            self,
            init_require=("encoder", "all"),
            checkpoint_choice=CHECKPOINT_CHOICES,
            memory_checkpoint=MEMORY_CHECKPOINTS,
            progress=("auto", "lines", "none"),
        )

    def replace(self, **changes) -> "RunOptions":
        """A copy with some fields changed."""
        return dataclasses.replace(self, **changes)
