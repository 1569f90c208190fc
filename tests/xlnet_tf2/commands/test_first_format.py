"""Files written by the first version are read as they were then.

`tests/golden/first_format.tar.xz` holds what its commands wrote: records, a
pretraining run stopped at step 4 of 8 (weights, slots, recurrent memory), a
fine-tuned classifier and its export, and what they gave: losses of all eight
steps, dev predictions, answers of the export.
"""

import json
import os
import pathlib
import shutil
import tarfile

import numpy as np
import pytest

from tests.golden import FIRST_FORMAT
from tests.helpers import commands


@pytest.fixture(scope="module")
def first(tmp_path_factory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("first_format")
    with tarfile.open(FIRST_FORMAT) as archive:
        archive.extractall(folder, filter="data")
    return folder


@pytest.mark.long
def test_an_export_answers_as_it_did(first):
    import tensorflow as tf
    import tensorflow_text  # noqa: F401  (its operations are in the graph)

    saved = tf.saved_model.load(str(first / "classifier" / "export" / "1"))
    texts = (first / "task" / "texts.txt").read_text().splitlines()
    found = saved.signatures["serving_default"](text=tf.constant(texts))
    lines = (first / "predictions.jsonl").read_text().splitlines()
    wanted = [json.loads(line)["probabilities"] for line in lines]
    np.testing.assert_allclose(
        found["probabilities"], [[w["no"], w["yes"]] for w in wanted], atol=1e-5
    )


def attribute_paths(prefix) -> set[str]:
    """Names of a checkpoint's entries."""
    import tensorflow as tf

    return {name for name, _ in tf.train.list_variables(str(prefix))}


@pytest.mark.parametrize("folder", ["pretrain", "classifier"])
def test_weights_keep_their_attribute_paths(first, folder, tmp_path):
    """Old checkpoints restore whole; new ones use the same names."""
    import tensorflow as tf

    from modeling import ClassificationModel, PretrainingModel
    from modeling.checkpoints import restore as checkpoints

    path = str(first / folder)
    config = checkpoints.find_config(path)
    if folder == "pretrain":
        model = PretrainingModel(config)
    else:
        model = ClassificationModel(config, 2, summary_type="mean")
    report = checkpoints.restore(model, path, require="all")
    assert not report.fresh and not report.unused
    new = tf.train.Checkpoint(model=model).write(str(tmp_path / "new"))
    model_of = {n for n in attribute_paths(report.source.path) if "model" in n}
    kept = {n for n in model_of if not n.startswith(("optimizer", "memory"))}
    ours = {n for n in attribute_paths(new) if n.startswith("model/")}
    assert {n for n in kept if n.startswith("model/")} == ours


def test_a_fine_tuned_folder_predicts_as_it_did(first):
    from common.contract.task_spec import TaskSpec
    from data.text.tokenizer import Tokenizer
    from modeling import ClassificationModel
    from modeling.checkpoints import restore as checkpoints

    path = str(first / "classifier")
    spec = TaskSpec.read(path)
    assert (spec.head, spec.labels) == ("classification", ("no", "yes"))
    model = ClassificationModel(
        checkpoints.find_config(path), **spec.head_options
    )
    checkpoints.restore(model, path, require="all")
    tokenizer = Tokenizer(os.path.join(path, "spiece.model"))
    wanted = [
        json.loads(line)["probabilities"]["yes"]
        for line in (first / "predictions.jsonl").read_text().splitlines()
    ]
    texts = (first / "task" / "texts.txt").read_text().splitlines()
    for text, probability in zip(texts, wanted, strict=True):
        ids = tokenizer.encode(text)[: spec.max_seq_length - 2]
        ids += [tokenizer.symbols.sep, tokenizer.symbols.cls]
        segments = [0] * (len(ids) - 1) + [2]
        logits = model(np.asarray([ids]), segment_ids=np.asarray([segments]))
        odds = float(logits[0, 1] - logits[0, 0])
        assert 1 / (1 + np.exp(-odds)) == pytest.approx(probability, abs=1e-5)


# Columns of losses.tsv that the first version wrote when it went on from step 4
# without dropout (with it each version draws masks of its own).
WENT_ON = (
    (5, 4.8652525, 0.006666666, 1.9495314, 0.25914994, 0.0, 4.8652525),
    (6, 4.9362955, 0.005, 1.1365876, 0.19159622, 0.15, 4.9362955),
    (7, 4.898026, 0.003333333, 1.4822047, 0.13259508, 0.18181819, 4.898026),
    (8, 4.887317, 0.0016666662, 1.5539582, 0.06626017, 0.14285715, 4.887317),
)


@pytest.mark.slow
def test_a_stopped_run_goes_on(first, tmp_path):
    """Records, weights, slots, memory, step and order are all read.

    Its `checkpoint` file has no time stamps: a checkpoint that only such a
    file names was taken for a leftover once, and deleted.
    """
    folder = tmp_path / "pretrain"
    shutil.copytree(first / "pretrain", folder)
    command = next(
        c
        for c in _found(
            json.loads((folder / "run.json").read_text()), "command"
        )
        if c and c[0] == "run_pretrain.py"
    )
    changed = ("--data_dir=", "--model_dir=", "--dropout=", "--dropatt=")
    command = [a for a in command if not a.startswith(changed)]
    before = (folder / "losses.tsv").read_text().splitlines()
    done = commands.run(
        *(*command, f"--data_dir={first}/records"),
        *(f"--model_dir={folder}", "--dropout=0", "--dropatt=0"),
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "model.ckpt-4, step 4; to step 8" in done.stdout
    after = (folder / "losses.tsv").read_text().splitlines()
    assert after[:5] == before[:5]
    np.testing.assert_allclose(
        [[float(x) for x in line.split("\t")] for line in after[5:]],
        WENT_ON,
        rtol=1e-3,
        atol=1e-5,
    )


def _found(value, key):
    """Every value of `key` in nested dictionaries and lists."""
    if isinstance(value, dict):
        if key in value:
            yield value[key]
        value = value.values()
    if isinstance(value, list | tuple) or hasattr(value, "__iter__"):
        if not isinstance(value, str):
            for item in value:
                yield from _found(item, key)
