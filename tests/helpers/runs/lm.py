"""A toy language model: its data, sizes and command."""

import sys

import pytest

from data.language_modeling import build
from data.language_modeling.options import LMDataOptions
from modeling.encoders.transformer_xl.config import TransformerXLConfig
from tests.helpers import commands

TEXT = "".join(
    f"the {animal} {verb} {place} .\n"
    for verb in ("sat", "slept", "ran")
    for animal in ("cat", "dog", "cow", "hen")
    for place in ("here", "there", "on the mat", "under a tree")
)
# A model with an adaptive softmax.
ADAPTIVE = TransformerXLConfig(
    vocab_size=29,
    d_model=8,
    n_layer=2,
    n_head=2,
    d_head=4,
    d_inner=12,
    cutoffs=(5, 13),
    div_val=2,
    mem_len=6,
    dropout=0.0,
    dropatt=0.0,
)
SIZES = (
    "--n_layer=2",
    "--d_model=16",
    "--n_head=2",
    "--d_head=8",
    "--d_inner=24",
    "--seq_len=8",
    "--train_batch_size=4",
    "--train_steps=12",
    "--save_steps=4",
    "--iterations=4",
    "--learning_rate=0.02",
    "--eval_batch_size=2",
    "--progress=lines",
)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Words and bytes of the same text."""
    folder = tmp_path_factory.mktemp("lm")
    (folder / "train.txt").write_text(TEXT * 3)
    (folder / "valid.txt").write_text(TEXT[:600] + "a zebra sat .\n")
    for unit in ("word", "byte"):
        build.build(
            LMDataOptions(
                output_dir=str(folder / unit),
                train_glob=str(folder / "train.txt"),
                valid_glob=str(folder / "valid.txt"),
                unit=unit,
                vocab_file=_words(folder) if unit == "word" else "",
            ),
            log=lambda line: None,
        )
    return folder


def _words(folder):
    """A plain list with `<unk>`; its order is the ids'."""
    words = sorted({*TEXT.split(), "zoo"})
    path = folder / "words.txt"
    path.write_text("\n".join(["<eos>", "<unk>", *words]) + "\n")
    return str(path)


def command(*arguments, module=None):
    start = ["-m", module] if module else ["run_lm.py"]
    return [sys.executable, *start, *map(str, arguments)]


def run(*arguments, module=None, status=0):
    done = commands.run(*command(*arguments, module=module)[1:])
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout if status == 0 else done.stderr


def evaluation(data, folder, *more):
    out = run(
        f"--data_dir={data / 'word'}",
        f"--model_dir={folder}",
        "--mode=eval",
        *more,
    )
    lines = dict(
        line.removeprefix("valid: ").rsplit(" ", 1)
        for line in out.splitlines()
        if line.startswith("valid: ") and "predicted" not in line
    )
    counts = [x for x in out.split() if x.isdigit()]
    return {k: float(v) for k, v in lines.items()}, list(map(int, counts))
