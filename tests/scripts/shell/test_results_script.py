"""scripts/results.sh on small sets that the test makes, twice."""

import json
import lzma
import os
import random
import subprocess
import tarfile

import pytest

from tests.conftest import ROOT
from tests.helpers import commands

pytestmark = pytest.mark.slow

OPTIONS = """
kind = "gains"
reference = "random"
finetune_seeds = 2
speed_steps = 0
start = "{start}"
random_init_std = 0.03
rows = [
  { name = "pretrained", start = "weights" },
  { name = "random", start = "random" },
]
columns = [{ name = "trec", of = "trec", file = "eval_dev.json", metric = "accuracy" }]
[all]
do_train = true
do_eval = true
train_batch_size = 8
learning_rate = 1e-3
warmup_steps = 1
save_steps = 0
train_steps = 3
[tasks.trec]
command = "run_classifier.py"
task_name = "trec"
data_dir = "{data}/trec"
max_seq_length = 16
labels = [20]
"""


def make_sets(folder):
    """A folder of sets in their layouts; what no task reads is empty."""
    source = random.Random(3)
    words = [
        "".join(source.choices("abcdefghijklmnop", k=source.randint(3, 9)))
        for _ in range(20_000)
    ]

    def lines(n):
        return "".join(
            " ".join(source.choices(words, k=20)) + " .\n" for _ in range(n)
        )

    (folder / "lm" / "wikitext-2").mkdir(parents=True)
    wiki = " \n = Title = \n \n" + lines(1500)
    with lzma.open(folder / "lm" / "wikitext-2" / "train.txt.xz", "wt") as f:
        f.write(wiki)
    inside = {
        "lm/english_novels": {"one.txt": lines(1500), "two.txt": lines(1500)},
        "imdb/aclImdb": {"README": "nothing"},
        "race/RACE": {"README": "nothing"},
    }
    for path, found in inside.items():
        home = folder / path
        home.mkdir(parents=True)
        for name, text in found.items():
            (home / name).write_text(text)
        with tarfile.open(f"{home}.tar.xz", "w:xz") as f:
            f.add(home, home.name)
    for name in ("glue", "ag_news_csv", "squad", "trec"):
        (folder / name).mkdir()
    for name, rows in (("train.tsv", 40), ("dev.tsv", 12)):
        (folder / "trec" / name).write_text(
            "sentence\tlabel\n"
            + "".join(
                f"{' '.join(source.choices(words, k=6))}\t{i % 6}\n"
                for i in range(rows)
            )
        )


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    home = tmp_path_factory.mktemp("results")
    sets, out = home / "sets", home / "out"
    make_sets(sets)
    (home / "more.txt").write_text("A document of its own.\n\n" * 40)
    (home / "tasks.toml").write_text(OPTIONS)
    return sets, out, home / "tasks.toml"


def results(folders):
    """Runs it; what it says."""
    sets, out, options = folders
    more = "--train_steps=4 --warmup_steps=1 --n_layer=1 --d_model=16 "
    more += "--n_head=2 --d_head=8 --d_inner=24 --eval_steps=1 --save_steps=0 "
    more += "--decay_steps=2"
    where = {"DATA": sets, "OUT": out, "OPTIONS": options}
    text = {"MORE_TEXT": f"more={out.parent}/more.txt"}
    text |= {"SOURCE_WEIGHTS": "more=2", "RECIPE": "small_night"}
    done = subprocess.run(
        ["bash", "scripts/results.sh"],
        cwd=ROOT,
        env=os.environ
        | {name: str(path) for name, path in where.items()}
        | {"PYTHON": commands.python(), "PRETRAIN_FLAGS": more, "WORKERS": "1"}
        | {"TASK_TEXTS": "trec", "CONTINUED_TEXTS": "trec"}
        | {
            "CONTINUED_FLAGS": "--train_steps=2 --decay_steps=1 --warmup_steps=1"
        }
        | text,
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_text_to_table_and_again(folders):
    _, out, _ = folders
    assert "4 jobs, 0 done" in results(folders)
    (cell,) = json.loads((out / "table" / "results.json").read_text())
    assert (cell["task"], cell["labels"], cell["errors"]) == ("trec", 20, {})
    for start in ("pretrained", "random"):
        assert sorted(cell["values"][start]) == ["0", "1"]
    assert (out / "text" / "trec.txt").read_text().count("\n\n") == 40
    config = json.loads((out / "pretrain" / "xlnet_config.json").read_text())
    assert (config["n_layer"], config["init_std"]) == (1, 0.04)
    built = json.loads((out / "records" / "manifest.json").read_text())
    assert built["sources"]["more"]["weight"] == 2
    assert built["counts"]["documents"] > 40
    continued = json.loads(
        (out / "continued_records/manifest.json").read_text()
    )
    assert continued["counts"]["documents"] == 40  # TREC's alone
    (job,) = (out / "table").rglob("pretrained-0/attempt.json")
    (words,) = json.loads(job.read_text())["commands"]
    assert f"--init_checkpoint={out / 'continued'}" in words
    first = (out / "table" / "table.md").read_text()
    weights = sorted((out / "pretrain").glob("*.index"))
    weights += sorted((out / "continued").glob("*.index"))
    times = [path.stat().st_mtime_ns for path in weights]
    assert weights
    assert "4 jobs, 4 done" in results(folders)
    assert (out / "table" / "table.md").read_text() == first
    assert [path.stat().st_mtime_ns for path in weights] == times
