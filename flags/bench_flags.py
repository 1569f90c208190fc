"""Flags of `benchmarks.compare` and `benchmarks.all`."""

import dataclasses
import os

from absl import flags

from common.errors import UserError
from flags import flag_values

FLAGS = flags.FLAGS
SUITES = (
    "pretrain",
    "finetune",
    "inference",
    "lengths",
    "ranking",
    "packing",
    "encoders",
    "long_rows",
    "scaling",
    "language_model",
    "startup",
    "generation",
    "lm_generation",
    "parity",
)


@dataclasses.dataclass(frozen=True)
class BenchOptions:
    """What to measure and how long.

    Attributes:
      suites: names of `SUITES`.
      rounds: steps per system.
      layers: L of the compared models.
      quick: fewer rounds and sizes.
      torch_python: interpreter of an environment with
        requirements-bench.txt; None = no PyTorch rows.
      json_output: file for JSON lines, or None.
      data_dir: holds `glue/SST-2` and `aclImdb` for the suite "lengths"; None
        = assumed lengths.
      spiece_model_file: tokenizer of those texts.
      systems: names of the systems that take part; empty = all.
      checkout: folder of another version of this project, whose rows appear
        beside ours as "... at checkout".
    """

    suites: tuple[str, ...] = SUITES
    rounds: int = 9
    layers: int = 3
    quick: bool = False
    torch_python: str | None = None
    json_output: str | None = None
    data_dir: str | None = None
    spiece_model_file: str | None = None
    systems: tuple[str, ...] = ()
    checkout: str | None = None

    def __post_init__(self):
        for suite in self.suites:
            if suite not in SUITES:
                raise UserError(
                    f"--suites must be some of {', '.join(SUITES)}, found "
                    f"{suite!r}"
                )
        if self.rounds < 1 or self.layers < 1:
            raise UserError(
                "--rounds and --layers must be at least 1, found "
                f"{self.rounds} and {self.layers}"
            )
        if self.data_dir and not self.spiece_model_file:
            raise UserError("--data_dir needs --spiece_model_file")
        python = self.torch_python
        if python and not os.access(python, os.X_OK):
            raise UserError(
                f"--torch_python must be a Python interpreter, found {python!r}"
            )
        child = os.path.join(self.checkout or ".", "benchmarks", "child.py")
        if self.checkout and not os.path.isfile(child):
            raise UserError(
                "--checkout must be a folder of this project with benchmarks/"
                f"child.py (`git worktree add`), found {self.checkout!r}"
            )


def define() -> None:
    """Registers the flags."""
    flags.DEFINE_list(
        "suites", list(SUITES), f"What to measure: some of {', '.join(SUITES)}."
    )
    flags.DEFINE_integer(
        "rounds", None, "Steps per system; default 9, with --quick 5."
    )
    flags.DEFINE_integer("layers", 3, "Layers of the compared models.")
    flags.DEFINE_bool("quick", False, "Fewer rounds, sizes and systems.")
    flags.DEFINE_string(
        "torch_python",
        None,
        "Python of an environment with requirements-bench.txt, for the rows "
        "of PyTorch under torch.compile.",
    )
    flags.DEFINE_string("json_output", None, "Also write JSON lines here.")
    flags.DEFINE_string(
        "data_dir",
        None,
        "Folder with glue/SST-2 and aclImdb, whose lengths the suite 'lengths' "
        "then has; left out = assumed lengths.",
    )
    flags.DEFINE_string(
        "spiece_model_file", None, "Tokenizer of the texts in --data_dir."
    )
    flags.DEFINE_list(
        "systems",
        [],
        "Only these systems, by their names in the tables: large models of "
        "many systems may not fit this machine's memory side by side.",
    )
    flags.DEFINE_string(
        "checkout",
        None,
        "Folder of another version of this project: its rows stand beside "
        "ours, step by step in turn.",
    )


def from_flags() -> BenchOptions:
    """The parsed flags as options."""
    rounds = FLAGS.rounds
    if rounds is None:
        rounds = 5 if FLAGS.quick else 9
    return flag_values.build(BenchOptions, rounds=rounds)
