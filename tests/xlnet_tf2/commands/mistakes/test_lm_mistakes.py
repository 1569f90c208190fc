"""Wrong input of language models: the commands' line and their exit status.

The commands run one after another in two processes: loading TensorFlow would
take most of their time.
"""

import json
import pathlib
import re
import shutil

import pytest

from tests.helpers import commands

pytestmark = pytest.mark.slow
TEXT = "the cat sat on the mat .\nthe dog ran under a tree .\n" * 40
SIZES = (
    "--n_layer=1",
    "--d_model=8",
    "--n_head=2",
    "--d_head=4",
    "--d_inner=12",
    "--seq_len=6",
    "--train_batch_size=2",
    "--train_steps=2",
    "--save_steps=2",
    "--iterations=2",
    "--eval_batch_size=2",
    "--progress=lines",
)
# Prints [status, standard error] of every command of one module.
SCRIPT = """
import contextlib, io, json, runpy, sys
from absl import flags
module = sys.argv[1]
for case in json.loads(sys.argv[2]):
    sys.argv = [module, *case]
    for name in list(flags.FLAGS):
        if not flags.FLAGS.find_module_defining_flag(name).startswith("absl"):
            delattr(flags.FLAGS, name)
    flags.FLAGS.unparse_flags()
    for name in [n for n in sys.modules if n.startswith("flags")]:
        del sys.modules[name]
    said, status = io.StringIO(), 0
    with contextlib.redirect_stderr(said):
        with contextlib.redirect_stdout(io.StringIO()):
            try:
                runpy.run_module(module, run_name="__main__")
            except SystemExit as e:
                status = e.code
    print("case", json.dumps([status or 0, said.getvalue()]), flush=True)
"""


def run(module, cases):
    """[(exit status, standard error)] of the commands."""
    done = commands.run("-c", SCRIPT, module, json.dumps(cases))
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [x for x in done.stdout.splitlines() if x.startswith("case ")]
    assert len(lines) == len(cases), done.stdout + done.stderr
    return [json.loads(line.removeprefix("case ")) for line in lines]


def check(module, cases):
    """Each ends with status 1 and one line that has what is wanted."""
    for (case, wanted), (status, said) in zip(
        cases, run(module, [case for case, _ in cases]), strict=True
    ):
        lines = [x for x in said.splitlines() if x.startswith("error: ")]
        assert status == 1 and len(lines) == 1, (case, status, said)
        assert re.search(wanted, lines[0]), (case, lines)


def build(folder, output, *more):
    return [
        f"--train_glob={folder}/train.txt",
        f"--valid_glob={folder}/valid.txt",
        f"--output_dir={folder}/{output}",
        "--unit=word",
        *more,
    ]


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """Two vocabularies' streams of one text, a model of the first."""
    folder = tmp_path_factory.mktemp("world")
    (folder / "train.txt").write_text(TEXT)
    (folder / "valid.txt").write_text(TEXT[:400])
    (folder / "empty.txt").write_text("")
    words = sorted(set(TEXT.split()))
    (folder / "bare.txt").write_text("\n".join(["<eos>", *words[2:]]) + "\n")
    done = run(
        "data.create_lm_data",
        [
            build(folder, "good"),
            build(folder, "other", "--max_symbols=6"),
        ],
    )
    assert [status for status, _ in done] == [0, 0], done
    command = [f"--data_dir={folder}/good", f"--model_dir={folder}/model"]
    ((status, said),) = run("run_lm", [[*command, *SIZES]])
    assert status == 0, said
    return folder


def damaged(world, name, change):
    """A copy of the streams whose record file is changed."""
    folder = shutil.copytree(world / "good", world / name)
    for path in pathlib.Path(folder).iterdir():
        if path.name.startswith("train") or "train" in path.name:
            data = bytearray(path.read_bytes())
            change(data)
            path.write_bytes(data)
    return folder


def test_streams_are_refused(world):
    check(
        "data.create_lm_data",
        [
            (
                build(world, "x", f"--valid_glob={world}/empty.txt"),
                "the valid split is empty",
            ),
            (
                build(world, "x", "--vocab_file=/nowhere/words.txt"),
                "words.txt cannot be read: No such",
            ),
            (
                build(
                    world,
                    "x",
                    f"--vocab_file={world}/bare.txt",
                    "--unknown=error",
                ),
                "is not in the voc",
            ),
            (
                build(world, "x", f"--vocab_file={world}/bare.txt"),
                "<unk>",
            ),
        ],
    )


def test_training_and_evaluation_are_refused(world, tmp_path):
    def flip(data):
        data[len(data) // 2] ^= 1

    flipped = damaged(world, "flipped", flip)
    cut = damaged(world, "cut", lambda data: data.__delitem__(slice(-7, None)))
    unknown = shutil.copytree(world / "good", world / "unknown")
    (unknown / "vocabulary.json").unlink()
    broken = shutil.copytree(world / "model", tmp_path / "broken")
    for path in broken.glob("model.ckpt-*.data-*"):
        path.write_bytes(path.read_bytes()[:-50])
    good, model = f"--data_dir={world}/good", f"--model_dir={world}/model"
    new = [f"--model_dir={tmp_path}/new", *SIZES]
    check(
        "run_lm",
        [
            ([f"--data_dir={unknown}", *new], "vocabulary"),
            (
                [f"--data_dir={world}/other", model, "--mode=eval"],
                "vocabulary",
            ),
            ([f"--data_dir={flipped}", *new], "wrong checksum"),
            ([f"--data_dir={cut}", *new], "wanted .* bytes"),
            ([good, *new, "--seq_len=9999"], "is too long"),
            (
                [good, *SIZES, f"--model_dir={tmp_path}/x", "--cutoffs=9,4"],
                "must rise and lie below",
            ),
            ([good, f"--model_dir={broken}", "--mode=eval"], "model.ckpt-2"),
            ([good, model, *SIZES, "--d_inner=13"], "d_inner"),
        ],
    )
