"""Options of `run_lm.py` beside those of every run (L0)."""

import dataclasses

from common.checks import one_of, within
from common.errors import UserError

MODES = ("train", "eval", "score", "train_and_eval")
PROTOCOLS = ("lanes", "anchor")
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
      eval_changes: fields of the configuration that mode=eval and mode=score
        change: `mem_len`, `clamp_len`, `same_length`, `memory_start`.
      protocol: "lanes" predicts every token of the split but the first once;
        "anchor" is the original's: B rows side by side, the rest is dropped
        and the first token of every row is not predicted.
      order: "ordered" reads the stream as it is; "shuffled" draws an order of
        its sentences each epoch (One Billion Word).
      vary_length: training segments of random lengths around T.
      count_mark_pairs: False leaves the nearly free `<S>` after `<S>` of One
        Billion Word out of evaluations.
      half_loss: train on the later half of every segment only.
      loss_chunk_size: rows of logits alive at a time; None = all.
      input_file: mode=score: one text per line.
      output_file: mode=score: JSONL; "" = standard output.

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
    order: str = "ordered"
    vary_length: bool = False
    count_mark_pairs: bool = True
    half_loss: bool = False
    loss_chunk_size: int | None = None
    input_file: str = ""
    output_file: str = ""

    def __post_init__(self):
        one_of(self, mode=MODES, protocol=PROTOCOLS, order=ORDERS)
        within(self, ">= 1", "seq_len", "eval_seq_len", "loss_chunk_size")
        if self.eval_changes.get("mem_len", 0) < 0:
            raise UserError(
                "`eval_mem_len` must be >= 0, received "
                f"{self.eval_changes['mem_len']}"
            )
        if self.mode == "score" and not self.input_file:
            raise UserError(
                "--mode=score needs --input_file, one text per line"
            )
        if self.input_file and self.mode != "score":
            raise UserError("--input_file is for --mode=score")
