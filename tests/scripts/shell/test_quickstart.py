"""The shrunk default, end to end, and what a second run and a typo do."""

import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

import numpy as np
import pytest

from tests.helpers import commands

ROOT = pathlib.Path(__file__).resolve().parents[3]
pytestmark = pytest.mark.slow


def quickstart(folder, venv) -> subprocess.CompletedProcess:
    environment = os.environ | {
        "VENV": str(venv),
        "PRETRAIN_STEPS": "60",
        "FINETUNE_STEPS": "12",
    }
    return subprocess.run(
        ["bash", "scripts/quickstart.sh", str(folder)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=1500,
    )


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("quickstart") / "out"
    # As a user starts it, each command a process of its own.
    done = quickstart(folder, pathlib.Path(sys.executable).parents[1])
    assert done.returncode == 0, done.stderr[-4000:]
    return folder, done


def test_the_path_ends_with_numbers_and_a_prediction(finished):
    folder, done = finished
    report = json.loads((folder / "report.json").read_text())
    p = report["pretraining"]
    assert p["steps"] == 60
    assert p["loss_end"] < p["loss_start"] - 0.5
    assert p["held_out_after"] < p["held_out_before"] / 2
    assert 0 < report["classification"]["accuracy"] < 1
    few = report["few_labels"]
    assert few["labels"] == 200
    for start in ("pretrained", "random"):
        assert len(few[start]) == 3 and 0 < min(few[start])
    probabilities = report["prediction"]["probabilities"]
    assert len(probabilities) == 6
    assert abs(sum(probabilities.values()) - 1) < 1e-4
    assert (pathlib.Path(report["saved_model"]) / "saved_model.pb").exists()
    last = done.stdout.strip().splitlines()[-7:]
    assert last[0].startswith("pretraining loss")
    assert last[-2].startswith("prediction")
    assert "with 200 labels accuracy differs by" in last[-1]


# Of C++ (glog and TensorFlow's own), of Python's logging and warnings.
LIBRARY = re.compile(
    r"[IWEF]\d{4} |WARNING|INFO:|\d{4}-\d\d-\d\d \d\d:\d\d|.*\w+Warning\b"
    r"|.*\.(cc|h|py)[:(]\d+"
)


def test_no_line_is_a_librarys(finished):
    """Vocabulary, records, pretraining, fine-tuning, export, prediction."""
    _, done = finished
    lines = f"{done.stdout}\n{done.stderr}".replace("\r", "\n").splitlines()
    assert len(lines) > 40
    assert [line for line in lines if LIBRARY.match(line)] == []


def test_saved_model_memory_and_ids_path_agree(finished):
    """Raw text in the graph = ids of the offline tokenizer = our own model."""
    import tensorflow as tf
    import tensorflow_text  # noqa: F401 (the signature's operations)

    from common.contract.task_spec import TaskSpec
    from data.finetuning.features.pair_features import join_segments
    from data.text.tokenizer import Tokenizer
    from modeling.checkpoints import restore as checkpoints
    from tests.helpers.runs.rows import pad_left
    from training.objectives import build as heads

    folder, _ = finished
    model_dir = str(folder / "classifier")
    report = json.loads((folder / "report.json").read_text())
    saved = tf.saved_model.load(report["saved_model"])
    spec = TaskSpec.read(model_dir)
    tokenizer = Tokenizer(f"{model_dir}/spiece.model", spec.text)
    texts = [
        line.split("\t")[0]
        for line in (folder / "corpus/classification/dev.tsv")
        .read_text()
        .splitlines()[1:41]
    ]
    raw = saved.signatures["serving_default"](text=tf.constant(texts))
    objective = heads.build_objective(
        spec.head, checkpoints.find_config(model_dir), **spec.head_options
    )
    model = objective.build_model()
    checkpoints.restore(model, model_dir)
    length = spec.max_seq_length
    rows = [
        pad_left(
            join_segments([tokenizer.encode(t)], length, tokenizer.symbols),
            length,
        )
        for t in texts
    ]
    names = ("input_ids", "segment_ids", "input_mask")
    batch = {
        name: tf.constant(np.stack(arrays))
        for name, arrays in zip(names, zip(*rows, strict=True), strict=True)
    }
    in_memory = model(**batch)
    by_ids = saved.signatures["ids"](**batch)
    np.testing.assert_allclose(raw["logits"], in_memory, atol=2e-5)
    np.testing.assert_allclose(by_ids["logits"], in_memory, atol=2e-5)


def test_a_second_run_reuses_everything(finished):
    folder, first = finished
    kept = {
        path: path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.suffix in (".tfrecord", ".model", ".index", ".txt")
    }
    done = quickstart(folder, commands.environment())
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.count("nothing to do") >= 2
    assert {path: path.read_bytes() for path in kept} == kept
    assert done.stdout.splitlines()[-7:] == first.stdout.splitlines()[-7:]


def test_the_page_of_the_first_model_goes_on_from_there(finished, tmp_path):
    """Its commands, with its own flags, on the folder of the quickstart."""
    folder, _ = finished
    text = (ROOT / "docs/tutorials/first_model.md").read_text()
    blocks = re.findall(r"```bash\n(.*?)```", text, re.DOTALL)
    ask, train = (
        next(b for b in blocks if name in b)
        for name in ("serving.predict", "run_classifier.py")
    )
    rows = "text,label\n" + "sort an array,a\nopen a socket,b\n" * 8
    for split in ("train", "dev"):
        (tmp_path / f"{split}.csv").write_text(rows)
    names = {
        "quickstart_output": str(folder),
        "MY_DATA": str(tmp_path),
        "MY_MODEL": str(tmp_path / "model"),
        "--train_steps=300": "--train_steps=6",
    }
    printed = []
    for block in (ask, train):
        lines = block.replace("\\\n", " ").splitlines()
        line = next(line for line in lines if line.startswith("python "))
        for name, value in names.items():
            line = line.replace(name, value)
        done = commands.run(*shlex.split(line)[1:])
        assert done.returncode == 0, done.stderr[-3000:]
        printed.append(done)
    assert {"label", "probabilities"} <= set(json.loads(printed[0].stdout))
    assert printed[0].stderr.startswith("weights ")
    assert (tmp_path / "model" / "export" / "1" / "saved_model.pb").exists()
