"""What the fine-tuning commands do, beyond `RunOptions` (L0)."""

import dataclasses

from common.checks import distinct, one_of, weights, within
from common.errors import UserError
from training.options import EXPORT_PRECISIONS, RunOptions

# Metrics of which a smaller value is better.
LOWER_IS_BETTER = ("loss", "mse")
BALANCED = "balanced"
SUMMARY_TYPES = ("last", "first", "mean", "attn")
POOLINGS = ("masked", "original")


@dataclasses.dataclass(frozen=True)
class FinetuneOptions:
    """One run of run_classifier.py, run_squad.py or run_race.py.

    Attributes:
      run: steps, batches, optimizer, strategy.
      do_train, do_eval, do_predict, do_export: what to do, in this order.
      model_config_path: architecture; empty = the one beside the checkpoint.
      config_changes: fields of the architecture's file to replace (dropout).
      summary_type, use_summ_proj: how a sequence becomes one vector; None:
        `training.finetuning.sources.settle` asks the encoder.
      pooling: whether padding counts there; see `modeling.heads.pooling`.
      recompute_layers: run layers again in the backward pass.
      pack: short rows share one; results are as without it.
      predict_dir: where predictions go; empty = `<model_dir>/predictions`.
      predict_ckpt: checkpoint to evaluate and predict with; empty = that of
        `run.checkpoint_choice`.
      predict_batch_size: rows per prediction step; 0 = `eval_batch_size`.
      eval_all_ckpt: evaluate every checkpoint of `model_dir` and keep the one
        with the best dev metric.
      export_dir: SavedModel folder; empty = `<model_dir>/export`.
      export_precision: of its weights and products.
      train_epochs: passes over the training examples instead of
        `run.train_steps`; 0 = the steps count.
      best_metric: of the dev split, keeps `best/` and ends by `run.patience`;
        empty = the task's first one.
      class_weights: of the classes in order, or (`BALANCED`,).
      label_smoothing: see `training.objectives.finetuning.ClassObjective`.
      init_head: task whose head the classifier begins with; empty = none.
      dry_run: check everything, compute one step, write nothing.
      num_seeds: so many runs from `run.strategy.seed` on, each in a folder
        `seed_N` of `model_dir`.
      ensemble: folders of trained models that answer together.
      ensemble_weights: of these; empty = all alike.
      greedy: take of these only what makes the dev metric better.
      train_examples: train on so many of the training examples, drawn with
        the run's seed; 0 = all.
      slice_by_length: evaluate the quartiles of the passages' lengths, too.
    """

    run: RunOptions
    do_train: bool = False
    do_eval: bool = False
    do_predict: bool = False
    do_export: bool = False
    model_config_path: str = ""
    config_changes: dict = dataclasses.field(default_factory=dict)
    summary_type: str | None = "last"
    use_summ_proj: bool = True
    pooling: str = "masked"
    recompute_layers: bool = False
    pack: bool = False
    predict_dir: str = ""
    predict_ckpt: str = ""
    predict_batch_size: int = 0
    eval_all_ckpt: bool = False
    export_dir: str = ""
    export_precision: str = "float32"
    train_epochs: float = 0.0
    best_metric: str = ""
    class_weights: tuple[float | str, ...] = ()
    label_smoothing: float = 0.0
    init_head: str = ""
    dry_run: bool = False
    num_seeds: int = 1
    ensemble: tuple[str, ...] = ()
    ensemble_weights: tuple[float, ...] = ()
    greedy: bool = False
    train_examples: int = 0
    slice_by_length: bool = False

    def __post_init__(self) -> None:
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
        one_of(self, pooling=POOLINGS, export_precision=EXPORT_PRECISIONS)
        if self.summary_type is not None:
            one_of(self, summary_type=SUMMARY_TYPES)
        if self.pack and self.pooling == "original":
            raise UserError(
                "--pooling=original counts padding, which --pack leaves out: "
                "give one of them"
            )
        for name in ("eval_all_ckpt", "slice_by_length"):
            if getattr(self, name) and not self.do_eval:
                raise UserError(f"--{name} needs --do_eval")

    def _check_training(self) -> None:
        """What changes a training."""
        within(self, ">= 0", "train_epochs", "train_examples")
        within(self, "[0, 1)", "label_smoothing")
        within(self, ">= 1", "num_seeds")
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
        if self.num_seeds > 1 and (self.predict_ckpt or not self.do_eval):
            raise UserError(
                "--num_seeds compares metrics: it needs --do_eval and no "
                "--predict_ckpt"
            )

    def _check_ensemble(self) -> None:
        """What several models are asked together."""
        if not self.ensemble:
            if self.ensemble_weights or self.greedy:
                raise UserError(
                    "--ensemble_weights and --greedy need --ensemble"
                )
            return
        distinct(self, "ensemble", "a folder")
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
