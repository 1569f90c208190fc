"""The files of official data sets, and where their splits are."""

import dataclasses
import os
from collections.abc import Sequence

from common import checks, files
from common.errors import UserError
from data.corpus import corpus_plan
from data.corpus import documents as corpus
from data.corpus.documents import Block
from data.language_modeling.options import ONE_FILE, SPLITS, LMDataOptions

# Names of a split's file, the first that is there is taken.
_NAMES = {
    "wikitext-103": ("wiki.{}.tokens", "{}.txt", "wiki.{}.raw"),
    "wikitext-2": ("wiki.{}.tokens", "{}.txt", "wiki.{}.raw"),
    "ptb": ("ptb.{}.txt", "{}.txt"),
}
_LM1B = "1-billion-word-language-modeling-benchmark-r13output"
_LM1B_TRAIN = "training-monolingual.tokenized.shuffled/news.en-*-of-00100"
_LM1B_HELD_OUT = (
    "heldout-monolingual.tokenized.shuffled/news.en.heldout-00000-of-00050"
)
LM1B_VOCABULARY = "1b_word_vocab.txt"


@dataclasses.dataclass(frozen=True)
class Sources:
    """The text of every split."""

    paths: dict[str, list[str]]  # split -> files, in the order of the stream
    # split -> bytes [start, end) of the one file; empty = whole files
    ranges: dict[str, tuple[int, int]] = dataclasses.field(default_factory=dict)

    def plan(self, size: int) -> list[tuple[str, tuple[Block, ...]]]:
        """(split, parts) of all blocks of about `size` bytes.

        Raises UserError: a split has no text.
        """
        blocks = []
        for split, paths in self.paths.items():
            if split in self.ranges:
                file_blocks = _cut(paths[0], *self.ranges[split], size)
            else:
                file_blocks = corpus_plan.plan_corpus(paths, size, longest=1)
            if not file_blocks:
                raise UserError(
                    f"the {split} split is empty: {paths[0]} holds no text"
                )
            blocks += [(split, parts) for parts in file_blocks]
        return blocks


def _cut(path: str, start: int, end: int, size: int) -> list[tuple[Block]]:
    """Blocks of a range, at any byte."""
    places = [*range(start, end, size), end]
    return [
        (Block(path, a, b),) for a, b in zip(places, places[1:], strict=False)
    ]


def find(options: LMDataOptions) -> Sources:
    """The files of a data set; UserError: missing, or of a wrong length."""
    if options.dataset == "text":
        globs = {s: getattr(options, f"{s}_glob") for s in SPLITS}
        return Sources(
            {s: _list(s, pattern) for s, pattern in globs.items() if pattern}
        )
    if options.dataset in ONE_FILE:
        return _one_file(options)
    if options.dataset == "lm1b":
        return _lm1b(options)
    return _folder(options)


def _list(split: str, pattern: str) -> list[str]:
    try:
        return corpus.list_files(pattern)
    except UserError as e:
        raise UserError(
            str(e).replace("--input_glob", f"--{split}_glob")
        ) from e


def _folder(options: LMDataOptions) -> Sources:
    paths = {}
    for split in SPLITS:
        names = [n.format(split) for n in _NAMES[options.dataset]]
        names += [n + ".gz" for n in names]
        for name in names:
            path = os.path.join(options.data_path, name)
            if files.exists(path):
                paths[split] = [path]
                break
    if "train" not in paths:
        wanted = " or ".join(n.format("train") for n in _NAMES[options.dataset])
        raise UserError(
            f"--data_path={options.data_path}: wanted {wanted} of "
            f"{options.dataset}, found neither; unpack the official archive "
            "there"
        )
    return Sources(paths)


def _one_file(options: LMDataOptions) -> Sources:
    path = options.data_path
    inside = os.path.join(path, options.dataset)
    if files.exists(inside):
        path = inside
    if path.lower().endswith(checks.PACKED):
        raise UserError(
            f"--data_path={path}: wanted {options.dataset} itself, which is "
            "cut by its bytes, found a packed file; unpack it"
        )
    try:
        if files.is_folder(path):
            raise FileNotFoundError(path)
        size = files.size(path)
    except OSError as e:
        raise UserError(
            f"--data_path={options.data_path}: there is no {options.dataset}; "
            "give the file or its folder"
        ) from e
    held = options.held_out_size
    if size <= 2 * held:
        raise UserError(
            f"{path}: wanted a file of more than 2 x --held_out_size={held} "
            f"bytes ({options.dataset} has 100000000), found {size}"
        )
    first, second = size - 2 * held, size - held
    ranges = {
        "train": (0, first),
        "valid": (first, second),
        "test": (second, size),
    }
    if options.dataset == "text8":
        ranges = {k: _stripped(path, *bounds) for k, bounds in ranges.items()}
    return Sources({split: [path] for split in SPLITS}, ranges)


def _stripped(path: str, start: int, end: int) -> tuple[int, int]:
    """A range without the white space at its ends, as text8 is prepared."""
    with files.open_binary(path) as f:
        while start < end:
            f.seek(start)
            if not f.read(1).isspace():
                break
            start += 1
        while start < end:
            f.seek(end - 1)
            if not f.read(1).isspace():
                break
            end -= 1
    return start, end


def _lm1b(options: LMDataOptions) -> Sources:
    """Held-out shard 0 is valid and test, as in the original."""
    folder = os.path.join(options.data_path, _LM1B)
    if not files.exists(folder):
        folder = options.data_path
    held_out = os.path.join(folder, _LM1B_HELD_OUT)
    if not files.exists(held_out):
        raise UserError(
            f"--data_path={options.data_path}: {held_out} does not exist; "
            "unpack the official archive there"
        )
    train = _list("train", os.path.join(folder, _LM1B_TRAIN))
    return Sources({"train": train, "valid": [held_out], "test": [held_out]})


def vocabulary_file(options: LMDataOptions) -> str:
    """The given vocabulary, or lm1b's own (UserError: missing); "" = none."""
    if (
        options.vocab_file
        or options.dataset != "lm1b"
        or options.unit != "word"
    ):
        return options.vocab_file
    path: Sequence[str] | str = os.path.join(options.data_path, LM1B_VOCABULARY)
    if not files.exists(path):
        raise UserError(
            f"{path} does not exist: the vocabulary of --dataset=lm1b; put it "
            "there or give --vocab_file"
        )
    return path
