"""What a run lacks at its end is said before its first step."""

import json
import shutil
import sys
import types

import pytest

from common.errors import UserError
from modeling import ClassificationModel, XLNetConfig
from tests.helpers import commands
from tests.helpers.runs.classifier import (
    CONFIG,
    make_job,
    make_options,
    run,
    write_task,
)
from training.finetuning import preflight


def job(**splits):
    splits = {"train": None, "evals": {}, "predicts": {}} | splits
    return types.SimpleNamespace(**splits)


def test_every_action_has_a_split(tmp_path):
    for actions, splits, message in (
        ({"do_train": True}, {}, "--do_train: there is no training data"),
        ({"do_eval": True}, {}, "--do_eval: .* --dev_fraction=0.1"),
        ({"do_predict": True}, {}, "--do_predict: there is no split"),
        (
            {"do_train": True, "run": {"eval_every": 2}},
            {"train": print},
            "--eval_every: there is no labelled split",
        ),
    ):
        options = make_options(tmp_path, **actions)
        with pytest.raises(UserError, match=message):
            preflight.check_splits(job(**splits), options)


def test_folders_and_checkpoints(tmp_path):
    (tmp_path / "file").write_text("x")
    for change, message in (
        (
            {"run": {"model_dir": str(tmp_path / "file/a")}},
            "file is not a folder",
        ),
        ({"run": {"model_dir": "/proc/a"}}, "--model_dir=/proc/a cannot be wr"),
        ({"do_predict": True, "predict_dir": "/proc/b"}, "--predict_dir=/proc"),
        ({"do_eval": True, "predict_dir": "/proc/b"}, "--predict_dir=/proc"),
        ({"do_export": True, "export_dir": "/proc/c"}, "--export_dir=/proc"),
        ({"run": {"init_checkpoint": str(tmp_path / "gone")}}, "gone"),
        ({"predict_ckpt": str(tmp_path / "lost")}, "lost"),
    ):
        options = make_options(tmp_path, **({"do_train": True} | change))
        with pytest.raises(UserError, match=message):
            preflight.check_places(options)
    # Of an ensemble the folder is written, those of its members are read.
    votes = {"do_predict": True, "ensemble": ("a",)}
    votes["run"] = {"model_dir": str(tmp_path / "file")}
    options = make_options(tmp_path, **votes, predict_dir=str(tmp_path))
    with pytest.raises(UserError, match="--model_dir=.*file is not a folder"):
        preflight.check_outputs(options)
    with pytest.raises(UserError, match="file holds no checkpoint"):
        preflight.check_places(options)
    preflight.check_places(make_options(tmp_path, do_train=True))
    later = str(tmp_path / "model/model.ckpt-3")  # this run will save it
    preflight.check_places(
        make_options(tmp_path, do_train=True, predict_ckpt=later)
    )
    with pytest.raises(UserError, match="holds no checkpoint"):
        preflight.check_places(make_options(tmp_path, do_eval=True))
    assert not (tmp_path / "model").exists()


def test_batches_of_all_that_is_done_divide(tmp_path, monkeypatch):
    """Those of evaluations and predictions did not after a whole training."""
    three = types.SimpleNamespace(num_replicas_in_sync=3)
    monkeypatch.setattr(preflight.strategy, "setup", lambda options: three)
    objective = types.SimpleNamespace(row_groups=1)

    def check(eval_batch_size=6, **actions):
        run = {"train_batch_size": 6, "eval_batch_size": eval_batch_size}
        options = make_options(tmp_path, run=run, **actions)
        preflight.check_batches(options, objective)

    check(do_train=True, do_eval=True, do_predict=True)
    check(4, do_train=True)  # nothing is evaluated
    check(4, do_predict=True, predict_batch_size=9)
    for message, how in (
        ("^--eval_batch_size=4 .* take 3", {"do_train": True, "do_eval": True}),
        ("^--eval_batch_size=4 .* take 3", {"do_predict": True}),
    ):
        with pytest.raises(UserError, match=message):
            check(4, **how)
    with pytest.raises(UserError, match="^--predict_batch_size=7 .* take 6"):
        check(do_train=True, do_predict=True, predict_batch_size=7)


def test_a_small_disk(tmp_path, monkeypatch):
    config = XLNetConfig.base(n_layer=1)
    options = make_options(
        tmp_path, steps=10, do_train=True, do_export=True, run={"save_steps": 2}
    )
    preflight.check_disk(options, config)
    # 5 saves, of which 3 stay and the next is written first; one export.
    weights = 4 * preflight.encoder_weights(config)
    wanted = (4 * 3 + 1) * weights
    usage = types.SimpleNamespace(free=wanted - 1)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    message = f"wanted about {wanted / 2**20:.0f} MiB"
    with pytest.raises(UserError, match=message):
        preflight.check_disk(options, config)
    usage.free += 1
    preflight.check_disk(options, config)
    usage.free = 0
    preflight.check_disk(make_options(tmp_path, do_eval=True), config)


@pytest.mark.long
@pytest.mark.parametrize("untie_r", [True, False])
def test_the_size_is_the_model_s(untie_r):
    config = XLNetConfig.from_dict(CONFIG | {"untie_r": untie_r})
    model = ClassificationModel(config, 2)
    count = sum(int(v.shape.num_elements()) for v in model.encoder.variables)
    assert preflight.encoder_weights(config) == count


@pytest.mark.shared
def test_a_missing_dev_file_is_said_before_training(tmp_path, spiece_model):
    write_task(tmp_path)
    (tmp_path / "dev.tsv").unlink()
    options = make_options(tmp_path, do_train=True, do_eval=True)
    with pytest.raises(UserError, match="--do_eval: there is no labelled"):
        run(tmp_path, spiece_model, options)
    assert not (tmp_path / "model").exists()
    # A share of the training rows takes its place.
    found = make_job(tmp_path, spiece_model, options, dev_fraction=0.3)
    assert list(found.evals) == ["dev"]
    assert found.spec().data_options["dev_fraction"] == 0.3


@pytest.mark.shared
def test_an_unknown_dev_label_is_said_before_training(tmp_path, spiece_model):
    write_task(tmp_path)
    with open(tmp_path / "dev.tsv", "a") as f:
        f.write("red tower\tmaybe\n")
    options = make_options(tmp_path, do_train=True, do_eval=True)
    with pytest.raises(UserError, match="dev.tsv:13: unknown label 'maybe'"):
        run(tmp_path, spiece_model, options)
    assert not (tmp_path / "model").exists()


@pytest.mark.slow
@pytest.mark.shared
def test_evaluation_alone_takes_the_settings_of_the_folder(
    tmp_path, spiece_model
):
    """Trained with --summary_type=mean, evaluated by the documented command."""
    write_task(tmp_path)
    command = [
        *(sys.executable, "run_classifier.py", "--task_name=tsv"),
        f"--data_dir={tmp_path}",
        f"--model_dir={tmp_path}/model",
        "--progress=none",
    ]
    training = [
        f"--spiece_model_file={spiece_model}",
        f"--model_config_path={tmp_path}/config.json",
        *("--summary_type=mean", "--max_seq_length=8", "--do_train"),
        *("--train_steps=3", "--train_batch_size=6", "--learning_rate=3e-3"),
    ]

    def call(*flags):
        done = commands.run(*command[1:], *flags)
        path = tmp_path / "model" / "eval_dev.json"
        return done, json.loads(path.read_text()) if path.exists() else None

    done, trained = call(*training, "--do_eval")
    assert done.returncode == 0, done.stderr[-2000:]
    done, alone = call("--do_eval")
    assert done.returncode == 0, done.stderr[-2000:]
    assert alone == pytest.approx(trained, abs=1e-6)
    done, _ = call("--do_eval", "--summary_type=last")
    assert done.returncode == 1
    assert "--summary_type: wanted mean" in done.stderr
    done, longer = call("--do_eval", "--max_seq_length=16")
    assert done.returncode == 0, done.stderr[-2000:]
    assert "note: --max_seq_length=16" in done.stdout
    assert longer["loss"] != alone["loss"]
