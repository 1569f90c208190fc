"""Flags of `benchmarks.compare` and `benchmarks.all`."""

import dataclasses
import os

from absl import flags

from common.errors import UserError
from common.settings import check, setting
from flags import flag_values

FLAGS = flags.FLAGS
SUITES = (
    "pretrain",
    "vocabulary",
    "finetune",
    "inference",
    "lengths",
    "ranking",
    "packing",
    "encoders",
    "small",
    "onnxruntime",
    "long_rows",
    "scaling",
    "language_model",
    "startup",
    "generation",
    "lm_generation",
    "parity",
    "sentences",
)


@dataclasses.dataclass(frozen=True)
class BenchOptions:
    """What to measure and how long."""

    suites: tuple[str, ...] = setting(
        SUITES, f"What to measure: some of {', '.join(SUITES)}.", choices=SUITES
    )
    rounds: int = setting(
        9, "Steps per system; default 9, with --quick 5.", bounds=">= 1"
    )
    layers: int = setting(3, "Layers of the compared models.", bounds=">= 1")
    quick: bool = setting(False, "Fewer rounds, sizes and systems.")
    profile: bool = setting(
        False,
        "Also trace a step of each system in TensorFlow: thread time by kind "
        "of operation.",
    )
    torch_python: str | None = setting(
        None,
        "Python of an environment with requirements-bench.txt, for the rows "
        "of PyTorch under torch.compile.",
    )
    json_output: str | None = setting(None, "Also write JSON lines here.")
    data_dir: str | None = setting(
        None,
        "Folder with glue/SST-2 and aclImdb, whose lengths the suite 'lengths' "
        "then has; left out = assumed lengths.",
    )
    spiece_model_file: str | None = setting(
        None, "Tokenizer of the texts in --data_dir."
    )
    systems: tuple[str, ...] = setting(
        (),
        "Only these systems, by their names in the tables: large models of "
        "many systems may not fit this machine's memory side by side.",
    )
    checkout: str | None = setting(
        None,
        "Folder of another version of this project: its rows stand beside "
        "ours, step by step in turn.",
    )

    def __post_init__(self):
        check(self)
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
    flag_values.define(BenchOptions, rounds=None)


def from_flags() -> BenchOptions:
    """The parsed flags as options."""
    rounds = FLAGS.rounds
    if rounds is None:
        rounds = 5 if FLAGS.quick else 9
    return flag_values.build(BenchOptions, rounds=rounds)
