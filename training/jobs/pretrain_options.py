"""Options of `run_pretrain.py` beside those of every run."""

import dataclasses

from common.checks import follows
from common.errors import UserError
from common.settings import REQUIRED, VOCABULARY, check, setting

MODES = ("train", "eval", "train_and_eval")
OBJECTIVES = ("permutation_lm", "mlm")
# See `data.pretraining.sampling.masking`.
TARGET_ORDERS = ("random", "none", "forward")
# First weights, see `training.jobs.first_weights`.
FIRST_ATTENTION = ("random", "nearest")
FIRST_BIAS = ("zeros", "unigram")
# Flags of one objective -> the value that says nothing.
_PERMUTATION = {"target_order": "random", "resample_permutation": False}
_MASKED = {
    "mask_rate": 0.0,
    "sentence_order": False,
    "pack": False,
    "mlm_stream": "content",
}
# Draw of the reader -> the setting whose own takes its place.
_REPLACED = {
    "resample_permutation": "target_order",
    "resample_targets": "mask_rate",
}
# What a resumed run cannot change: the objective, and how records are read.
_KEPT = (
    "next_sentence",
    "target_order",
    "mlm_stream",
    "reset_memory_at_document",
    "resample_permutation",
    "resample_targets",
)


@dataclasses.dataclass(frozen=True)
class PretrainOptions:
    """What is read, and what is trained on it."""

    data_dir: str = setting(
        REQUIRED,
        "Output of data.create_pretraining_data: records and manifest.json.",
        often=True,
    )
    eval_data_dir: str | None = setting(
        None,
        "Held-out data of the same vocabulary; default: the dev split of "
        "--data_dir, if it has one.",
    )
    mode: str = setting(
        "train_and_eval",
        "train_and_eval evaluates where there are held-out data.",
        choices=MODES,
        often=True,
    )
    follow: bool = setting(
        False,
        "With --mode=eval: evaluate every new checkpoint of another job "
        "that writes --model_dir, up to --train_steps or that job's own.",
    )
    # manifest property -> value that the user gave; must be equal
    wanted: dict = dataclasses.field(default_factory=dict)
    spiece_model_file: str | None = setting(
        None,
        "SentencePiece file, to check that the data were made with it.",
        released=VOCABULARY,
    )
    loss_chunk_size: int | None = setting(
        None,
        "Make LM logits for this many targets at a time: less memory.",
        bounds=">= 1",
    )
    next_sentence: bool = setting(
        False, "Also train next-sentence prediction (Table 6)."
    )
    reset_memory_at_document: bool = setting(
        False,
        "Empty a row's memory where a document starts, not at lanes only.",
    )
    resample_permutation: bool = setting(
        False,
        "Draw a fresh factorization order of the stored targets each epoch.",
    )
    resample_targets: bool = setting(
        False, "Draw fresh targets each epoch, too."
    )
    objective: str | None = setting(
        None,
        "permutation_lm, or mlm: masked language modelling of the same "
        "records (with XLNet: the denoising row of Table 6). Default: "
        "permutation_lm for XLNet, mlm for encoders without a query stream.",
        choices=OBJECTIVES,
        often=True,
    )
    mask_rate: float = setting(
        0.0,
        "mlm: this share of a row's tokens, drawn again in every step; 0 = "
        "the targets of the records.",
    )
    sentence_order: bool = setting(
        False, "mlm: also train sentence-order prediction (ALBERT)."
    )
    pack: bool = setting(
        False,
        "mlm: rows that are not full share one; bert, albert, modernbert.",
    )
    mlm_stream: str = setting(
        "content",
        "mlm: predict from the content stream, as BERT does, or (XLNet) "
        "from the query stream, whose rows do not see their own token.",
        choices=("content", "query"),
    )
    target_order: str = setting(
        "random",
        "permutation_lm: the records' orders; none = targets see the "
        "context and not each other; forward = left to right.",
        choices=TARGET_ORDERS,
    )
    init_attention: str = setting(
        "random",
        "First weights of attention, without --init_checkpoint; nearest = half of "
        "the heads begin with one of the nearest tokens: xlnet, bert, albert.",
        choices=FIRST_ATTENTION,
    )
    init_output_bias: str = setting(
        "zeros",
        "First bias of the vocabulary's logits, without --init_checkpoint; "
        "unigram = the logarithm of the targets' frequencies in the records.",
        choices=FIRST_BIAS,
    )

    def __post_init__(self):
        check(self)
        if self.next_sentence and self.sentence_order:
            raise UserError(
                "give one of --next_sentence and --sentence_order: there is "
                "one second head"
            )
        if self.objective:
            self.check_objective(self.objective)
        self._check_draws()
        follows(self.follow, "follow", "mode", ("eval",), self.mode)

    def _check_draws(self) -> None:
        """Raises UserError: what the reader draws would be drawn over."""
        defaults = {f.name: f.default for f in dataclasses.fields(self)}
        for draw, other in _REPLACED.items():
            value = getattr(self, other)
            if getattr(self, draw) and value != defaults[other]:
                raise UserError(
                    f"--{draw} has no effect beside --{other}={value}, which "
                    "replaces what it draws: give one of them"
                )

    def must_match(self) -> dict:
        """What a resumed run cannot change about what it learns."""
        return {name: getattr(self, name) for name in _KEPT}

    def evaluates(self, eval_every: int, held_out: bool) -> list[str]:
        """Lines about flags of evaluations in a run that makes none.

        Raises UserError: evaluations are asked for, and there are no data.
        """
        if self.mode == "train":
            given = {
                "eval_every": eval_every,
                "eval_data_dir": self.eval_data_dir,
            }
            return [
                f"note: --{name}={value}: of --mode=train_and_eval; "
                "--mode=train evaluates nothing"
                for name, value in given.items()
                if value
            ]
        if not eval_every or self.mode == "eval":
            return []
        if not held_out:
            raise UserError(
                f"--eval_every={eval_every}: {self.data_dir} has no dev split "
                "to evaluate: build it with --dev_fraction=0.01, give "
                "--eval_data_dir, or --mode=train"
            )
        return []

    def check_objective(self, objective: str) -> None:
        """Raises UserError where a flag is given that is the other one's."""
        other, wanted = _PERMUTATION, "permutation_lm"
        if objective == "permutation_lm":
            other, wanted = _MASKED, "mlm"
        for name, default in other.items():
            given = getattr(self, name) != default
            follows(given, name, "objective", (wanted,), objective)
