"""Options of `run_pretrain.py` beside those of every run (L0)."""

import dataclasses

from common.checks import one_of, within
from common.errors import UserError

MODES = ("train", "eval", "train_and_eval")
OBJECTIVES = ("permutation_lm", "mlm")
# Flags of one objective -> the value that says nothing.
_PERMUTATION = {"target_order": "random"}
_MASKED = {
    "mask_rate": 0.0,
    "sentence_order": False,
    "pack": False,
    "mlm_stream": "content",
}
# What a resumed run cannot change: the objective, and how records are read.
_KEPT = (
    "target_order",
    "mlm_stream",
    "reset_memory_at_document",
    "resample_permutation",
    "resample_targets",
)


@dataclasses.dataclass(frozen=True)
class PretrainOptions:
    """What is read, and what is trained on it.

    Attributes:
      data_dir: with the `manifest.json` of the training data.
      eval_data_dir: held-out data; None = the dev split of `data_dir`, if it
        has one.
      mode: "train_and_eval" evaluates when there are held-out data; "eval"
        only evaluates.
      follow: with mode=eval: every new checkpoint of another job.
      wanted: manifest property -> value that the user gave; must be equal.
      spiece_model_file: must be the file of the data; None = not compared.
      loss_chunk_size: rows of LM logits alive at a time; None = all.
      next_sentence: train the ablation's head, too.
      reset_memory_at_document: empty a row's memory where a document starts.
      resample_permutation: a fresh order of the stored targets each epoch.
      resample_targets: fresh targets each epoch, too.
      objective: one of `OBJECTIVES`; None = permutation LM where the encoder
        has a query stream, else masked LM.
      mask_rate: masked LM: share of the tokens that are targets; 0 = the
        records' own targets.
      sentence_order: masked LM: the second head tells swapped halves.
      pack: masked LM: rows that are not full share one.
      mlm_stream: masked LM: predict from the "content" stream (BERT) or from
        the "query" stream, whose rows do not see their own token.
      target_order: permutation LM: one of
        `data.pretraining.options.TARGET_ORDERS`.
    """

    data_dir: str
    eval_data_dir: str | None = None
    mode: str = "train_and_eval"
    follow: bool = False
    wanted: dict = dataclasses.field(default_factory=dict)
    spiece_model_file: str | None = None
    loss_chunk_size: int | None = None
    next_sentence: bool = False
    reset_memory_at_document: bool = False
    resample_permutation: bool = False
    resample_targets: bool = False
    objective: str | None = None
    mask_rate: float = 0.0
    sentence_order: bool = False
    pack: bool = False
    mlm_stream: str = "content"
    target_order: str = "random"

    def __post_init__(self):
        one_of(self, mode=MODES, objective=OBJECTIVES)
        within(self, ">= 1", "loss_chunk_size")
        if self.next_sentence and self.sentence_order:
            raise UserError(
                "give one of --next_sentence and --sentence_order: there is "
                "one second head"
            )
        if self.objective:
            self.check_objective(self.objective)
        if self.follow and self.mode != "eval":
            raise UserError("--follow is for --mode=eval")

    def must_match(self) -> dict:
        """What a resumed run cannot change about what it learns."""
        return {name: getattr(self, name) for name in _KEPT}

    def check_objective(self, objective: str) -> None:
        """Raises UserError where a flag is given that is the other one's."""
        other, wanted = _PERMUTATION, "permutation_lm"
        if objective == "permutation_lm":
            other, wanted = _MASKED, "mlm"
        for name, default in other.items():
            if getattr(self, name) != default:
                raise UserError(f"--{name} is for --objective={wanted}")
