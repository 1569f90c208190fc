"""What the fine-tuning commands do, beyond `RunOptions` (L0)."""

import dataclasses

from common.errors import UserError
from training.options import RunOptions

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
      predict_dir: where predictions go; empty = `<model_dir>/predictions`.
      predict_ckpt: checkpoint to evaluate and predict with; empty = the best
        one or the newest.
      predict_batch_size: rows per prediction step; 0 = `eval_batch_size`.
      eval_all_ckpt: evaluate every checkpoint of `model_dir` and keep the one
        with the best dev metric.
      export_dir: SavedModel folder; empty = `<model_dir>/export`.
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
    predict_dir: str = ""
    predict_ckpt: str = ""
    predict_batch_size: int = 0
    eval_all_ckpt: bool = False
    export_dir: str = ""

    def __post_init__(self) -> None:
        if not (
            self.do_train or self.do_eval or self.do_predict or self.do_export
        ):
            raise UserError(
                "nothing to do: give --do_train, --do_eval, --do_predict or "
                "--do_export"
            )
        if self.summary_type not in (None, *SUMMARY_TYPES):
            raise UserError(
                f"--summary_type must be one of {', '.join(SUMMARY_TYPES)}, "
                f"received {self.summary_type!r}"
            )
        if self.pooling not in POOLINGS:
            raise UserError(
                f"--pooling must be one of {', '.join(POOLINGS)}, received "
                f"{self.pooling!r}"
            )
        if self.eval_all_ckpt and not self.do_eval:
            raise UserError("--eval_all_ckpt needs --do_eval")
