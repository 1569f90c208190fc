"""Toy runs of every command in two checkouts, and where their results differ.

    python -m tests.helpers.runs.same_runs --before=CHECKOUT --output_dir=OUT

Each command of `COMMANDS` runs with the same arguments in the same folder, in
CHECKOUT and in this tree. Printed answers, records, losses, tables, weights and
the answers of exports must be equal, checkpoints by every value. Times and
places are left out. The first tree's files lie in OUT/before, this one's in
OUT/after; what is there is not run again. The exit status is 1 where anything
differs. Not a test: CONTRIBUTING.md says when it is run.
"""

import json
import pathlib
import re
import shutil
import subprocess
import sys
from collections.abc import Callable

import numpy as np
from absl import flags

from common.errors import UserError
from flags import app
from tests.conftest import ROOT
from tests.helpers import released_commands, released_folders
from tests.helpers.runs import builds
from tests.helpers.tree_commands import INTERNAL, commands_of_the_tree

FLAGS = flags.FLAGS
_KIND = "xlnet spiece"
# Numbers of these names, and lines with these words, are of the machine.
_OF_THE_RUN = re.compile(
    r"second|time|hour|_per_|host|revision|version|memory|bytes|bound|cpu|path"
    r"|__key__"
)
# Names of caches end with a key, of the options' new fields, too.
_HASH = re.compile(r"-[0-9a-f]{24}(?=\.)")
# Exports are asked (predict, serve); the others hold times.
_OTHERS = re.compile(
    r"\.(png|svg)$|\.data-|^events\.|\.pb$|\.tfevents|^tf_serving_warmup"
)
_SKIPPED = ("stderr", "checkpoint", "command")
_BOOKKEEPING = (
    "_CHECKPOINTABLE_OBJECT_GRAPH",
    "save_counter/.ATTRIBUTES/VARIABLE_VALUE",
)
_ANSWERS = ("embed", "fill", "score", "generate", "explain", "inspect")
_ANSWERS += ("score lm", "generate lm", "dependencies", "compare")


def _text(*words: str) -> Callable:
    """A command on the corpus of its place."""

    def arguments(folder, place, before):
        builds.write_corpus(place / "corpus.txt")
        values = {"place": place, "folder": folder}
        return [word.format(**values) for word in words]

    return arguments


def _after(*words: str) -> Callable:
    """A command on what another one left."""
    return lambda folder, place, before: [
        word.format(place=place, before=before, folder=folder) for word in words
    ]


def _newsqa(folder, place, before):
    question = {"q": "What?", "consensus": {"s": 4, "e": 9}}
    story = {"storyId": "1", "text": "the tower stands", "type": "train"}
    story["questions"] = [question, {"q": "?", "consensus": {"noAnswer": True}}]
    (place / "newsqa.json").write_text(json.dumps({"data": [story]}))
    return [
        *("-m", "data.convert_newsqa", f"--input={place}/newsqa.json"),
        *(f"--output={place}/squad.json", "--split=train"),
    ]


def _served(folder, place, before):
    """By its path: other checkouts may not have it."""
    words = released_commands.COMMANDS["serve"](folder, place, before)
    return [str(ROOT / "tests" / "helpers" / "served_once.py"), *words[2:]]


_STEPS = (
    *("--train_steps=4", "--train_batch_size=2", "--warmup_steps=0"),
    *("--iterations=2", "--progress=none", "--seed=3"),
)
_SIZES = (
    *("--n_layer=2", "--d_model=12", "--n_head=2", "--d_head=6"),
    *("--d_inner=18", "--dropout=0.1", "--dropatt=0.1"),
)
# Those of released folders, and the commands that they do not reach.
_ADDED = {
    "corpus": _text(
        *("-m", "data.convert_corpus", "--layout=book"),
        *("--input_glob={place}/corpus.txt", "--output_file={place}/book.txt"),
    ),
    "newsqa": _newsqa,
    "task text": _text(
        *("-m", "data.convert_task", "--task_name=tsv", "--data_dir={place}"),
        "--output_file={place}/task.txt",
    ),
    "filter": _text(
        *("-m", "data.filter_corpus", "--input_glob={place}/corpus.txt"),
        *("--output_file={place}/clean.txt", "--min_characters=60"),
    ),
    "vocabulary": _text(
        *("-m", "data.train_sentencepiece"),
        *("--input_glob={place}/corpus.txt", "--model_prefix={place}/new"),
        "--vocab_size=70",
    ),
    "inspect": _after(
        *("-m", "data.inspect", "--data_dir={before}/records"),
        *("--mode=record", "--spiece_model_file={folder}/spiece.model"),
    ),
    "pretrain": _after(
        *("run_pretrain.py", "--data_dir={before}/records"),
        *("--model_dir={place}/model", *_STEPS, *_SIZES),
    ),
    "pretrain on": _after(
        *("run_pretrain.py", "--data_dir={before}/records"),
        *("--init_checkpoint={folder}", "--model_dir={place}/model", *_STEPS),
    ),
    "lm": _after(
        *("run_lm.py", "--data_dir={before}/streams", *_STEPS, *_SIZES),
        *("--model_dir={place}/model", "--seq_len=8", "--mem_len=8"),
    ),
    "score lm": _after(
        *("-m", "serving.score", "--checkpoint={before}/model"),
        "--text=the red river",
    ),
    "generate lm": _after(
        *("-m", "serving.generate", "--checkpoint={before}/model"),
        *("--prompt=the red", "--max_new_tokens=5", "--seed=1"),
    ),
    "dependencies": _after("-m", "modeling.explain_dependencies"),
    "compare": _after(
        *("-m", "training.compare", "--model_dirs={before}/model"),
        "--output_dir={place}/compare",
    ),
    "rank cross": _after(  # with room for documents in all versions
        *(
            "run_ranking.py",
            "--ranker=cross_encoder",
            "--init_checkpoint={folder}",
        ),
        *("--topics_file={place}/topics.tsv", "--qrels_file={place}/qrels"),
        *("--documents={place}/documents.jsonl", "--model_dir={place}/out"),
        *("--seeds=1", "--depth=6", "--folds=3", "--progress=none"),
        *("--train_steps=2", "--train_batch_size=4", "--warmup_steps=0"),
        *("--max_seq_length=24", "--max_query_length=8"),
    ),
    "serve": _served,
    "demo": _after("-m", "data.demo_corpus", "--output_dir={place}/demo"),
}


_LEFT_OUT = ("to tf1", "lm", "pretrain", "inspect", "export")
COMMANDS = {
    name: make
    for name, make in released_commands.COMMANDS.items()
    if name not in _LEFT_OUT
} | _ADDED
AFTER = released_commands.AFTER | {
    "inspect": "records",
    "pretrain": "records",
    "pretrain on": "records",
    "lm": "lm records",
    "score lm": "lm",
    "generate lm": "lm",
    "compare": "pretrain",
}


class Tree:
    """Runs commands in one checkout.

    Args:
      root: the checkout.
      folder: of the released folder and of all places.
      name: of the folder that keeps what the commands leave.
    """

    def __init__(self, root: pathlib.Path, folder: pathlib.Path, name: str):
        self._root, self._work = root, folder / "work"
        self.kept = folder / name
        self._released = folder / "released"
        self.kept.mkdir(parents=True, exist_ok=True)
        if not self._released.exists():
            self._released.mkdir()
            released_folders.write(_KIND, self._released)

    def run(self, names: list[str]) -> None:
        """Runs what is not kept yet."""
        self.kept.rename(self._work)
        try:
            for name in names:
                self._run(name)
        finally:
            self._work.rename(self.kept)

    def _run(self, name: str) -> pathlib.Path:
        place = self._work / name.replace(" ", "_")
        if (place / "status").exists():
            return place
        before = self._run(AFTER[name]) if name in AFTER else None
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        released_folders.write_data(place)
        folder = self._released / "model"
        words = COMMANDS[name](folder, place, before)
        print(f"{self.kept.name}: {' '.join(map(str, words))}", flush=True)
        done = subprocess.run(
            [sys.executable, *map(str, words)],
            cwd=self._root,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        (place / "command").write_text("\n".join(map(str, words)))
        (place / "stdout").write_text(done.stdout)
        (place / "stderr").write_text(done.stderr)
        (place / "status").write_text(str(done.returncode))
        return place


def _flat(value, path="") -> dict[str, object]:
    """Leaves of a JSON value by their path, without those of the run."""
    if isinstance(value, list):
        value = {str(i): v for i, v in enumerate(value)}
    if not isinstance(value, dict):
        return {path: value}
    leaves = {}
    for name, child in value.items():
        if not _OF_THE_RUN.search(name):
            leaves |= _flat(child, f"{path}/{name}")
    return leaves


def _tensors(path: pathlib.Path) -> dict[str, bytes]:
    """Every value of a checkpoint or an archive, by name."""
    if path.suffix == ".npz":
        with np.load(path) as archive:
            names = [n for n in archive if not _OF_THE_RUN.search(n)]
            return {name: archive[name].tobytes() for name in names}
    import tensorflow as tf

    reader = tf.train.load_checkpoint(str(path.with_suffix("")))
    shapes = reader.get_variable_to_shape_map()
    return {
        name: np.asarray(reader.get_tensor(name)).tobytes()
        for name in shapes
        if name not in _BOOKKEEPING
    }


def _read(path: pathlib.Path) -> dict[str, object]:
    """What is compared of a file, by name; {} = nothing."""
    name = path.name
    if name.endswith((".index", ".npz")):
        return _tensors(path)
    if name in _SKIPPED or _OTHERS.search(name):
        return {}
    if name == "stdout" and path.parent.name.replace("_", " ") not in _ANSWERS:
        return {}
    lines = path.read_bytes().splitlines()
    if name.endswith(".json"):
        return _flat(json.loads(b"\n".join(lines)))
    if name.endswith(".jsonl") or name == "stdout":
        try:
            return _flat([json.loads(line) for line in lines])
        except json.JSONDecodeError:
            pass
    return {f"line {i + 1}": line for i, line in enumerate(lines)}


def _shown(where: str, names: list[str]) -> list[str]:
    """A line for what is listed of a file, the first of it."""
    few = ", ".join(names[:3]) + (
        f" and {len(names) - 3} more" * (len(names) > 3)
    )
    return [f"{where}: {few}"] if names else []


def compare(before: pathlib.Path, after: pathlib.Path) -> tuple[list, list]:
    """(what differs, what this tree has and the other has not), lines.

    Where one of both commands failed in the other tree alone, all of it is new.
    """
    differs, new = [], []
    for place in sorted(after.iterdir()):
        states = [
            (t / place.name / "status").read_text() for t in (before, after)
        ]
        if states == ["1", "0"]:
            new.append(f"{place.name}: failed before")
            continue
        if states != ["0", "0"]:
            differs.append(f"{place.name}: exit status {' and '.join(states)}")
        trees = [
            {
                _HASH.sub("", str(p.relative_to(t / place.name))): p
                for p in (t / place.name).rglob("*")
                if p.is_file() and not _OTHERS.search(p.name)
            }
            for t in (before, after)
        ]
        for name in sorted(trees[0].keys() | trees[1].keys()):
            where = f"{place.name}/{name}"
            if name not in trees[1]:
                differs.append(f"{where}: is gone")
            elif name not in trees[0]:
                new.append(f"{where}: is new")
            else:
                old, now = (_read(tree[name]) for tree in trees)
                wrong = [k for k in old if k not in now or old[k] != now[k]]
                differs += _shown(where, wrong)
                new += _shown(where, [k for k in now if k not in old])
    return differs, new


def not_run(folder: pathlib.Path) -> list[str]:
    """Commands of the product that no place of a folder has started."""
    started = set()
    for path in folder.glob("*/command"):
        words = path.read_text().split("\n")
        started.add(words[1] if words[0] == "-m" else words[0][:-3])
    started |= {"serving.serve"} if (folder / "serve").exists() else set()
    started |= {f"{name}.__main__" for name in started}
    return sorted(commands_of_the_tree() - started - {*INTERNAL})


def main() -> None:
    """The command."""
    folder = pathlib.Path(FLAGS.output_dir).resolve()
    names = FLAGS.only or list(COMMANDS)
    if unknown := sorted(set(names) - COMMANDS.keys()):
        raise UserError(
            f"--only={unknown[0]}: wanted one of {', '.join(COMMANDS)}"
        )
    trees = [
        Tree(pathlib.Path(FLAGS.before).resolve(), folder, "before"),
        Tree(ROOT, folder, "after"),
    ]
    for tree in trees:
        tree.run(names)
    lines, new = compare(trees[0].kept, trees[1].kept)
    if not FLAGS.only:
        lines += [f"{name}: was not run" for name in not_run(trees[1].kept)]
    print(
        "\n".join(["new here:", *new, "", "differs:", *(lines or ["nothing"])])
    )
    sys.exit(bool(lines))


def define() -> None:
    """Registers the flags."""
    flags.DEFINE_string("before", None, "Another checkout.", required=True)
    flags.DEFINE_string(
        "output_dir", None, "What both trees leave.", required=True
    )
    flags.DEFINE_list("only", [], "Of `COMMANDS`; default: all.")


if __name__ == "__main__":
    define()
    app.run(main)
