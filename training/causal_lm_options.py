"""Options of `run_lm.py` beside those of every run (L0)."""

import dataclasses
from collections.abc import Callable

from common.checks import one_of, within
from common.errors import UserError

MODES = ("train", "eval", "sweep", "score", "train_and_eval")
PROTOCOLS = ("lanes", "anchor", "sliding")
ORDERS = ("ordered", "shuffled")


@dataclasses.dataclass(frozen=True)
class CausalLMOptions:
    """What is read, and what is trained or evaluated on it.

    Attributes:
      data_dir: output of `data.create_lm_data`.
      mode: a name of `MODES`.
      seq_len: T of training; None = as the model was trained.
      eval_split: split that is evaluated.
      eval_seq_len: T of evaluations; None = `seq_len`.
      eval_changes: fields of the configuration that mode=eval, mode=sweep and
        mode=score change: `mem_len`, `clamp_len`, `same_length`, `memory_start`.
      protocol: "lanes" predicts every token of the split but the first once;
        "anchor" is the original's: B rows side by side, the rest is dropped
        and the first token of every row is not predicted; "sliding" predicts
        every token from the window before it, without memory.
      eval_stride: how far that window moves.
      sweep_step: mode=sweep: what the memory grows by; None = T.
      sweep_max: mode=sweep: the longest memory.
      sweep_clamp_lens: mode=sweep: values of `clamp_len` that each memory is
        evaluated with; () = the model's.
      sweep_gain: mode=sweep: it ends where perplexity falls by a smaller
        share.
      sweep_dir: mode=sweep: takes the results.
      order: "ordered" reads the stream as it is; "shuffled" draws an order of
        its sentences each epoch (One Billion Word).
      vary_length: training segments of random lengths around T.
      count_mark_pairs: False leaves the nearly free `<S>` after `<S>` of One
        Billion Word out of evaluations.
      half_loss: train on the later half of every segment only.
      loss_chunk_size: rows of logits alive at a time; None = all.
      input_file: mode=score: one text per line.
      output_file: mode=score: JSONL; "" = standard output.
      score_line_end: mode=score: the end of a line is scored, too.

    Raises:
      UserError: a value is out of range or missing.
    """

    data_dir: str
    mode: str = "train_and_eval"
    seq_len: int | None = None
    eval_split: str = "valid"
    eval_seq_len: int | None = None
    eval_changes: dict = dataclasses.field(default_factory=dict)
    protocol: str = "lanes"
    eval_stride: int = 1
    sweep_step: int | None = None
    sweep_max: int = 4096
    sweep_clamp_lens: tuple[int, ...] = ()
    sweep_gain: float = 0.001
    sweep_dir: str = ""
    order: str = "ordered"
    vary_length: bool = False
    count_mark_pairs: bool = True
    half_loss: bool = False
    loss_chunk_size: int | None = None
    input_file: str = ""
    output_file: str = ""
    score_line_end: bool = True

    @property
    def only_evaluates(self) -> bool:
        """A finished training is evaluated."""
        return self.mode in ("eval", "sweep")

    def evaluates(
        self, config, eval_every: int, has: Callable[[str], bool]
    ) -> tuple[bool, list[str]]:
        """Whether a split is evaluated, and lines to say about it.

        Args:
          config: of the model.
          eval_every: of the run.
          has: whether the data have a split.

        Raises:
          UserError: it is asked for and cannot be.
        """
        if self.only_evaluates:
            return True, []
        if self.mode != "train_and_eval":
            return False, []
        if not has(self.eval_split):
            asked = self.eval_split != CausalLMOptions.eval_split
            if asked or eval_every:
                raise UserError(
                    f"{self.data_dir} has no {self.eval_split} split to "
                    f"evaluate: build it with --{self.eval_split}_glob, or "
                    "give --mode=train"
                )
            return False, [
                f"             no {self.eval_split} split: nothing is evaluated"
            ]
        has_start = config.mem_len and not config.ignores_empty_memory
        if self.protocol == "sliding" and has_start:
            raise UserError(
                "--protocol=sliding while training: windows would see the "
                "zeros of an empty memory, or one token alone; evaluate with "
                "--mode=eval --protocol=sliding, or with --protocol=lanes"
            )
        if self.eval_changes:
            names = ", ".join(f"--eval_{name}" for name in self.eval_changes)
            return True, [
                f"             {names}: of --mode=eval; not while training"
            ]
        return True, []

    def __post_init__(self):
        one_of(self, mode=MODES, protocol=PROTOCOLS, order=ORDERS)
        within(
            self,
            ">= 1",
            "seq_len",
            "eval_seq_len",
            "loss_chunk_size",
            "eval_stride",
            "sweep_step",
            "sweep_max",
        )
        within(self, "(0, 1)", "sweep_gain")
        if self.eval_changes.get("mem_len", 0) < 0:
            raise UserError(
                "`eval_mem_len` must be >= 0, received "
                f"{self.eval_changes['mem_len']}"
            )
        if self.sweep_step and self.sweep_step > self.sweep_max:
            raise UserError(
                f"--sweep_step={self.sweep_step} is more than "
                f"--sweep_max={self.sweep_max}: nothing would be evaluated"
            )
        if self.protocol == "sliding":
            if self.mode not in ("eval", "train_and_eval"):
                raise UserError("--protocol=sliding is for --mode=eval")
            if self.eval_changes.get("mem_len"):
                raise UserError(
                    "--protocol=sliding reads windows without memory: leave "
                    "--eval_mem_len out"
                )
            if self.eval_changes.get("same_length"):
                raise UserError(
                    "--protocol=sliding: without memory --eval_same_length "
                    "would leave every token only itself: leave it out"
                )
        elif self.eval_stride != 1:
            raise UserError("--eval_stride is for --protocol=sliding")
        if self.mode == "score" and not self.input_file:
            raise UserError(
                "--mode=score needs --input_file, one text per line"
            )
        if self.input_file and self.mode != "score":
            raise UserError("--input_file is for --mode=score")
        if not self.score_line_end and self.mode != "score":
            raise UserError("--noscore_line_end is for --mode=score")
