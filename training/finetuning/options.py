"""What the fine-tuning commands do, beyond `RunOptions`."""

import dataclasses
import os

from common.checks import distinct_folders, weights
from common.errors import UserError
from common.heads import SUMMARY_POOLINGS, SUMMARY_TYPES
from common.settings import CONFIG, FOLDER, HEAD, Kept, check, setting
from training.run_options import EXPORT_PRECISIONS, MOST_SEEDS, RunOptions

# Metrics of which a smaller value is better.
LOWER_IS_BETTER = ("loss", "mse")
BALANCED = "balanced"


@dataclasses.dataclass(frozen=True)
class FinetuneOptions:
    """One run of a fine-tuning command.

    Attributes:
      config_changes: fields of the architecture's file to replace (dropout).
      recompute_layers: run layers again in the backward pass.
    """

    run: RunOptions
    do_train: bool = setting(False, "Train on the train split.", often=True)
    do_eval: bool = setting(
        False, "Evaluate on the labelled dev split.", often=True
    )
    do_predict: bool = setting(
        False, "Write predictions of the test (or dev) split.", often=True
    )
    do_export: bool = setting(False, "Write a SavedModel.", often=True)
    model_config_path: str = setting(
        "",
        "Architecture (xlnet_config.json); default: the one beside the "
        "checkpoint.",
        released=CONFIG,
    )
    config_changes: dict = dataclasses.field(default_factory=dict)
    summary_type: str | None = setting(
        "last",
        "How hidden states become one vector; default: CLS, which is the "
        "last real token of XLNet's rows and the first of others'.",
        choices=SUMMARY_TYPES,
        kept=Kept(HEAD, True, "last"),
    )
    use_summ_proj: bool = setting(
        True,
        "Project that vector through tanh.",
        kept=Kept(HEAD, True, True, "use_proj"),
    )
    pooling: str = setting(
        "masked",
        "What mean, first and last look at: masked = real tokens, original "
        "= padding, too, as in a checkpoint that the original fine-tuned.",
        choices=SUMMARY_POOLINGS,
        kept=Kept(HEAD, True, "masked"),
    )
    recompute_layers: bool = False
    pack: bool = setting(
        False,
        "Short texts share a row and see themselves only: the same results "
        "in less time, for bert, albert, modernbert and xlnet.",
    )
    predict_dir: str = setting(
        "", "Where predictions go; default MODEL_DIR/predictions."
    )
    predict_ckpt: str = setting(
        "",
        "Checkpoint to evaluate, predict and export with; default: what "
        "--checkpoint_choice says.",
        released=FOLDER,
    )
    predict_batch_size: int = setting(
        0, "Rows per prediction step; 0 = --eval_batch_size.", bounds=">= 0"
    )
    eval_all_ckpt: bool = setting(
        False,
        "Evaluate every checkpoint of --model_dir and continue with the best.",
    )
    export_dir: str = setting(
        "", "SavedModel folder; default MODEL_DIR/export."
    )
    export_precision: str = setting(
        "float32",
        "Of the SavedModel; mixed_bfloat16 has half the size.",
        choices=EXPORT_PRECISIONS,
    )
    train_epochs: float = setting(
        0.0,
        "Passes over the training examples, instead of --train_steps.",
        bounds=">= 0",
        often=True,
    )
    best_metric: str = setting(
        "",
        "Dev metric that picks the best checkpoint, such as macro_f1; "
        "default: the task's first one.",
    )
    class_weights: tuple[float | str, ...] = setting(
        (),
        "Weights of the classes in the training loss, in the order of the "
        'labels, or "balanced".',
    )
    label_smoothing: float = setting(
        0.0,
        "Share of the training target that goes to all classes alike.",
        bounds="[0, 1)",
    )
    init_head: str = setting(
        "",
        "Begin with the head of this task (mnli for rte) of the model "
        "in --init_checkpoint; labels of the same name begin as those.",
    )
    dry_run: bool = setting(
        False,
        "Check data, checkpoints, folders and disk, compute one step and "
        "one batch of every split, write nothing.",
        often=True,
    )
    num_seeds: int = setting(
        1,
        "Number of runs, from --seed on, each in a folder seed_N of "
        "--model_dir; median, mean and deviation of their metrics.",
        bounds=">= 1",
    )
    ensemble: tuple[str, ...] = setting(
        (),
        "Folders of trained models that answer together; --model_dir gets "
        "their common metrics and predictions.",
    )
    ensemble_weights: tuple[float, ...] = setting(
        (), "A positive number for each of --ensemble; default: all alike."
    )
    greedy: bool = setting(
        False,
        "Of --ensemble take only the models that make the dev metric "
        "better, the best one first.",
    )
    train_examples: int = setting(
        0,
        "Train on this many of the training examples, drawn with --seed; 0 = "
        "all. Those of a smaller number are among those of a larger one.",
        bounds=">= 0",
    )
    slice_by_length: bool = setting(
        False,
        "Evaluate the quartiles of the passages' lengths, too: "
        "eval_<split>_by_length.json in --model_dir.",
    )

    def __post_init__(self) -> None:
        check(self)
        self._check_training()
        self._check_ensemble()
        if not (
            self.do_train or self.do_eval or self.do_predict or self.do_export
        ):
            raise UserError(
                "nothing to do: give --do_train, --do_eval, --do_predict or "
                "--do_export"
            )
        if self.run.eval_steps != -1:
            # F1, correlations and n-best lists need every example's answer.
            raise UserError(
                f"--eval_steps={self.run.eval_steps}: wanted -1, the metrics of "
                "fine-tuning are of whole sets; leave it out (--eval_every=N "
                "says how often)"
            )
        if self.pack and self.pooling == "original":
            raise UserError(
                "--pooling=original counts padding, which --pack leaves out: "
                "give one of them"
            )
        for name in ("eval_all_ckpt", "slice_by_length"):
            if getattr(self, name) and not self.do_eval:
                raise UserError(f"--{name} needs --do_eval")

    @property
    def predict_run(self) -> RunOptions:
        """`run` with the batches of predictions."""
        rows = self.predict_batch_size or self.run.eval_batch_size
        return self.run.replace(eval_batch_size=rows)

    def _check_training(self) -> None:
        if self.class_weights != (BALANCED,) and any(
            isinstance(w, str) or not 0 < w < float("inf")
            for w in self.class_weights
        ):
            raise UserError(
                f"--class_weights: wanted positive numbers or {BALANCED!r}, "
                f"received {','.join(map(str, self.class_weights))}"
            )
        if self.run.patience and not self.run.eval_every:
            raise UserError("--patience needs --eval_every")
        picks = self.run.eval_every or self.eval_all_ckpt
        if self.do_train and self.best_metric and not picks:
            raise UserError(
                f"--best_metric={self.best_metric} picks one of several "
                "checkpoints that were evaluated: give --eval_every, or "
                "--eval_all_ckpt"
            )
        if self.num_seeds > 1 and (self.predict_ckpt or not self.do_eval):
            raise UserError(
                "--num_seeds compares metrics: it needs --do_eval and no "
                "--predict_ckpt"
            )
        last = self.run.strategy.seed + self.num_seeds - 1
        if last >= MOST_SEEDS:
            raise UserError(
                f"--num_seeds={self.num_seeds} from --seed="
                f"{self.run.strategy.seed} ends with {last}: wanted seeds below "
                f"{MOST_SEEDS}; give a smaller --seed"
            )

    def _check_ensemble(self) -> None:
        if not self.ensemble:
            if self.ensemble_weights or self.greedy:
                raise UserError(
                    "--ensemble_weights and --greedy need --ensemble"
                )
            return
        distinct_folders(self, "ensemble")
        weights(self, "ensemble_weights", len(self.ensemble), "folder")
        other = self.do_train or self.do_export or self.dry_run
        if other or self.num_seeds > 1:
            raise UserError(
                "--ensemble is for --do_eval and --do_predict: leave out "
                "--do_train, --do_export, --dry_run and --num_seeds"
            )
        if self.predict_ckpt or self.eval_all_ckpt:
            raise UserError(
                "--ensemble reads the best checkpoint of each folder: leave "
                "out --predict_ckpt and --eval_all_ckpt"
            )
        if self.greedy and (self.ensemble_weights or not self.do_eval):
            raise UserError(
                "--greedy chooses on the dev split: it needs --do_eval and "
                "no --ensemble_weights"
            )


def seed_folder(folder: str, seed: int) -> str:
    """Where --num_seeds keeps what it makes with a seed."""
    return os.path.join(folder, f"seed_{seed}")


PAPER = "paper"
TASKS = "tasks"  # of a run's folder: the single-task folders
TOGETHER = "joint"  # of a schedule's folder: the run on several tasks
# Section 3.5 of the XLNet paper: trained jointly, then the others from there.
JOINT = ("mnli", "sst-2", "qnli", "qqp")
OTHERS = ("cola", "sts-b", "mrpc", "rte", "wnli")


@dataclasses.dataclass(frozen=True)
class MultiTaskOptions:
    """Several tasks on one encoder.

    Attributes:
      lengths: T of each.
      task_steps: task -> optimizer steps of its own training (`PAPER`).
    """

    tasks: tuple[str, ...]
    lengths: tuple[int, ...]
    weights: tuple[float, ...]
    mixing: str = setting(
        "proportional",
        "How often a task has its turn: as its examples, their square root, "
        "all alike, or examples to the power of 1 / --mixing_temperature.",
        choices=("proportional", "sqrt", "uniform", "temperature"),
    )
    temperature: float = setting(
        1.0,
        "Of --mixing=temperature; 1 = proportional.",
        bounds="> 0",
        flag="mixing_temperature",
    )
    task_steps: dict[str, int] = dataclasses.field(default_factory=dict)
    schedule: str = setting(
        "",
        "paper: mnli, sst-2, qnli and qqp together, then cola, sts-b, mrpc, "
        "rte and wnli from these weights, the four large ones alone, and all "
        "test sets as one submission.",
        choices=("", PAPER),
    )

    def __post_init__(self) -> None:
        check(self)
        if not self.tasks:
            raise UserError("--task_name: wanted names of tasks")
        for name in self.tasks:
            if self.tasks.count(name) > 1:
                raise UserError(f"--task_name names {name} twice")
            if set(name) & set(":/"):
                raise UserError(f"--task_name={name} is for run_classifier.py")
        if any(not 0 < w < float("inf") for w in self.weights):
            raise UserError("--task_weights must be positive")
