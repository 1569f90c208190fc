"""Options of `run_lm.py` beside those of every run."""

import dataclasses
from collections.abc import Callable

from common.checks import follows, plain_name
from common.errors import UserError
from common.settings import REQUIRED, check, setting

MODES = ("train", "eval", "sweep", "score", "train_and_eval")
PROTOCOLS = ("lanes", "anchor", "sliding")
ORDERS = ("ordered", "shuffled")
# Mode -> settings that no other one follows.
_OF_MODE = {
    "score": ("input_file", "output_file", "score_line_end"),
    "sweep": (
        *("sweep_step", "sweep_max", "sweep_clamp_lens"),
        *("sweep_gain", "sweep_dir"),
    ),
}
# Settings of whole splits, which a score of lines has not.
_OF_SPLITS = ("eval_split", "protocol", "count_mark_pairs")
# What else is of evaluations, which a training alone has not.
_OF_EVALUATIONS = (*_OF_SPLITS, "eval_seq_len", "eval_stride")


@dataclasses.dataclass(frozen=True)
class CausalLMOptions:
    """What is read, and what is trained or evaluated on it.

    Attributes:
      eval_changes: fields of the configuration that mode=eval, mode=sweep and
        mode=score change: `mem_len`, `clamp_len`, `same_length`, `memory_start`.

    Raises:
      UserError: a value is out of range or missing.
    """

    data_dir: str = setting(
        REQUIRED,
        "Output of data.create_lm_data: streams, vocabulary, manifest.json.",
        often=True,
    )
    mode: str = setting(
        "train_and_eval",
        "train_and_eval also evaluates; sweep evaluates with more and more "
        "memory; score gives log-probabilities of the lines of "
        "--input_file.",
        choices=MODES,
        often=True,
    )
    seq_len: int | None = setting(
        None,
        "T, tokens of a training segment. Default: 150, or as the model was"
        " trained.",
        bounds=">= 1",
        often=True,
    )
    eval_split: str = setting("valid", "Split to evaluate.", often=True)
    eval_seq_len: int | None = setting(
        None, "T of evaluations. Default: --seq_len.", bounds=">= 1"
    )
    eval_changes: dict = dataclasses.field(default_factory=dict)
    protocol: str = setting(
        "lanes",
        "lanes predicts every token of the split but the first once; anchor"
        " drops the rest of the division into rows and the first of each "
        "row, as the original; sliding predicts each from the "
        "--eval_seq_len tokens before it, without memory.",
        choices=PROTOCOLS,
    )
    eval_stride: int = setting(
        1,
        "Of --protocol=sliding: tokens that a window predicts and moves by.",
        bounds=">= 1",
    )
    sweep_step: int | None = setting(
        None,
        "Of --mode=sweep: what the memory grows by. Default: --eval_seq_len.",
        bounds=">= 1",
    )
    sweep_max: int = setting(
        4096, "Of --mode=sweep: longest memory.", bounds=">= 1"
    )
    sweep_clamp_lens: tuple[int, ...] = setting(
        (),
        "Of --mode=sweep: each memory is evaluated with these --clamp_len; "
        "-1 = off. Default: the model's.",
    )
    sweep_gain: float = setting(
        0.001,
        "Of --mode=sweep: it ends where perplexity falls by a smaller share.",
        bounds="(0, 1)",
    )
    sweep_dir: str = setting(
        "",
        "Of --mode=sweep: takes table and figure. Default: sweep_SPLIT in "
        "--model_dir.",
    )
    order: str = setting(
        "ordered",
        "ordered reads the stream as it is; shuffled draws an order of its "
        "sentences each epoch.",
        choices=ORDERS,
    )
    vary_length: bool = setting(
        False,
        "Training segments of random lengths around --seq_len, T / 2 for "
        "one in twenty; CPU and GPU.",
    )
    count_mark_pairs: bool = setting(
        True,
        "False: the nearly free <S> after <S> of One Billion Word does not "
        "count in evaluations.",
    )
    half_loss: bool = setting(
        False, "Train on the later half of every segment only (Table 5)."
    )
    loss_chunk_size: int | None = setting(
        None,
        "Make logits for this many targets at a time: less memory.",
        bounds=">= 1",
    )
    input_file: str = setting(
        "", "With --mode=score: one text per line.", often=True
    )
    output_file: str = setting(
        "", "With --mode=score: JSONL, a new file; '' = standard output."
    )
    score_line_end: bool = setting(
        True, "With --mode=score: the end of a line is scored, too."
    )

    @property
    def only_evaluates(self) -> bool:
        """A finished training is evaluated."""
        return self.mode in ("eval", "sweep")

    def must_match(self) -> dict:
        """What a resumed run cannot change about what it learns."""
        return {"half_loss": self.half_loss, "order": self.order}

    def should_match(self, segment: int, eval_steps: int) -> dict:
        """What evaluations of a training are of, in segments of that length.

        `evaluations.jsonl` of a resumed run goes on with them.
        """
        names = ("eval_split", "protocol", "count_mark_pairs", "eval_stride")
        values = {name: getattr(self, name) for name in names}
        return values | {"eval_seq_len": segment, "eval_steps": eval_steps}

    def evaluates(
        self, config, eval_every: int, has: Callable[[str], bool]
    ) -> tuple[bool, list[str]]:
        """Whether a split is evaluated, and lines to say about it.

        Raises UserError: it is asked for and cannot be.
        """
        if self.only_evaluates:
            return True, []
        if self.mode != "train_and_eval":
            return False, self._unread(eval_every)
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
        check(self)
        plain_name(self.output_file)
        self._check_mode()
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
            modes = ("eval", "train_and_eval")
            follows(True, "protocol=sliding", "mode", modes, self.mode)
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
        given, protocol = self.eval_stride != 1, self.protocol
        follows(given, "eval_stride", "protocol", ("sliding",), protocol)
        if self.mode == "score" and not self.input_file:
            raise UserError(
                "--mode=score needs --input_file, one text per line"
            )

    def _check_mode(self) -> None:
        """Raises UserError: a setting is given that the mode ignores."""
        given = self._given()
        for mode, names in _OF_MODE.items():
            for name in names:
                flag = given.get(name, "")
                follows(flag, flag, "mode", (mode,), self.mode)
        for name in _OF_SPLITS if self.mode == "score" else ():
            if name in given:
                raise UserError(
                    f"--{given[name]} is of evaluations of a split, and "
                    "--mode=score reads the lines of --input_file: leave it out"
                )

    def _given(self) -> dict[str, str]:
        """Setting that has another value than its default -> as it was given."""
        return {
            field.name: "no" * (getattr(self, field.name) is False) + field.name
            for field in dataclasses.fields(self)
            if getattr(self, field.name) != field.default
        }

    def _unread(self, eval_every: int) -> list[str]:
        """The line about flags of evaluations in a run that makes none."""
        given = self._given()
        flags = [f"--eval_every={eval_every}"] * bool(eval_every)
        flags += [
            f"--{given[name]}" for name in _OF_EVALUATIONS if name in given
        ]
        flags += [f"--eval_{name}" for name in self.eval_changes]
        if not flags:
            return []
        return [
            f"             {', '.join(flags)}: of evaluations; "
            f"--mode={self.mode} makes none"
        ]
