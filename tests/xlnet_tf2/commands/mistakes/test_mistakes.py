"""What a user gets wrong: one clear line, status not 0, nothing half-written."""

import pathlib
import random
import subprocess

import pytest

from tests.helpers import commands

ROOT = pathlib.Path(__file__).resolve().parents[4]
pytestmark = pytest.mark.slow


def run(*command) -> subprocess.CompletedProcess:
    return commands.run(*command)


def make_text(path, seed, documents=40):
    rng = random.Random(seed)
    words = ["".join(rng.choices("abcdeilmnorstu", k=4)) for _ in range(300)]
    lines = []
    for _ in range(documents):
        for _ in range(12):
            lines.append(" ".join(rng.choices(words, k=11)) + ".")
        lines.append("")
    path.write_text("\n".join(lines))


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """Text, two vocabularies and records of the first."""
    folder = tmp_path_factory.mktemp("world")
    for seed, name in ((1, "a"), (2, "b")):
        make_text(folder / f"{name}.txt", seed)
        done = run(
            *("-m", "data.train_sentencepiece", "--vocab_size=120"),
            f"--input_glob={folder}/{name}.txt",
            f"--model_prefix={folder}/{name}",
        )
        assert done.returncode == 0, done.stderr
    done = run(*build(folder), f"--output_dir={folder}/records")
    assert done.returncode == 0, done.stderr
    return folder


def build(folder, **changes):
    values = {
        "input_glob": f"{folder}/a.txt",
        "spiece_model_file": f"{folder}/a.model",
        "seq_len": 32,
        "reuse_len": 16,
    } | changes
    return (
        "-m",
        "data.create_pretraining_data",
        *(f"--{k}={v}" for k, v in values.items()),
    )


def pretrain(folder, model_dir, **changes):
    values = {
        "data_dir": f"{folder}/records",
        "model_dir": model_dir,
        "n_layer": 1,
        "d_model": 8,
        "n_head": 2,
        "d_head": 4,
        "d_inner": 16,
        "mem_len": 16,
        "train_batch_size": 4,
        "train_steps": 2,
    } | changes
    return ("run_pretrain.py", *(f"--{k}={v}" for k, v in values.items()))


def check(done, target, *parts):
    """One line that says it, status 1, and no output folder."""
    lines = [
        line for line in done.stderr.splitlines() if line.startswith("error:")
    ]
    assert done.returncode == 1, done.stderr
    assert len(lines) == 1, done.stderr
    for part in parts:
        assert part in lines[0], lines[0]
    assert "Traceback" not in done.stderr
    left = list(target.rglob("*")) if target.exists() else []
    assert not [p for p in left if p.is_file() and p.stat().st_size], left


BUILD_MISTAKES = [
    ({"input_glob": "nothing/*.txt"}, ("nothing/*.txt",)),
    ({"input_glob": "{folder}/empty.txt"}, ("empty.txt",)),
    ({"spiece_model_file": "{folder}/none.model"}, ("none.model",)),
    ({"spiece_model_file": "{folder}/a.txt"}, ("a.txt", "SentencePiece")),
    ({"reuse_len": 31}, ("reuse_len", "31")),
    ({"num_predict": 64}, ("num_predict", "64")),
    ({"perm_size": -1}, ("perm_size", "-1")),
    ({"sequence_len": 32}, ("sequence_len",)),
]


@pytest.mark.parametrize("changes, parts", BUILD_MISTAKES, ids=str)
def test_builder(world, tmp_path, changes, parts):
    (world / "empty.txt").write_text("\n\n")
    changes = {
        k: v.format(folder=world) if isinstance(v, str) else v
        for k, v in changes.items()
    }
    target = tmp_path / "records"
    done = run(*build(world, **changes), f"--output_dir={target}")
    check(done, target, *parts)


def test_other_parameters_on_finished_records(world):
    before = {p: p.read_bytes() for p in (world / "records").iterdir()}
    done = run(*build(world), f"--output_dir={world}/records")
    assert done.returncode == 0, done.stderr
    done = run(*build(world, seed=9), f"--output_dir={world}/records")
    assert done.returncode == 1
    assert "seed" in done.stderr and "Traceback" not in done.stderr
    after = {p: p.read_bytes() for p in (world / "records").iterdir()}
    assert after == before


PRETRAIN_MISTAKES = [
    ({"data_dir": "{folder}/none"}, ("none",)),
    ({"spiece_model_file": "{folder}/b.model"}, ("spiece_sha256",)),
    ({"train_batch_size": 3}, ("3",)),
    ({"seq_len": 64}, ("seq_len", "64", "32")),
    ({"reuse_len": 64}, ("reuse_len", "64")),
    ({"mem_len": -3}, ("mem_len", "-3")),
    ({"num_predict": 99}, ("num_predict", "99")),
    ({"trian_steps": 9}, ("trian_steps", "train_steps")),
    ({"init_checkpoint": "{folder}/none.ckpt"}, ("none.ckpt",)),
]


@pytest.mark.parametrize("changes, parts", PRETRAIN_MISTAKES, ids=str)
def test_pretraining(world, tmp_path, changes, parts):
    changes = {
        k: v.format(folder=world) if isinstance(v, str) else v
        for k, v in changes.items()
    }
    target = tmp_path / "model"
    check(run(*pretrain(world, target, **changes)), target, *parts)


def test_fine_tuning_without_data_or_checkpoint(world, tmp_path):
    target = tmp_path / "model"
    (tmp_path / "task").mkdir()
    common = (
        *("run_classifier.py", "--task_name=tsv", "--do_train"),
        f"--model_dir={target}",
        f"--spiece_model_file={world}/a.model",
        "--train_steps=2",
    )
    done = run(*common, f"--data_dir={tmp_path}/task")
    check(done, target, "task")
    (tmp_path / "task/train.tsv").write_text("text\tlabel\na b\tx\nc d\ty\n")
    done = run(
        *common,
        f"--data_dir={tmp_path}/task",
        f"--init_checkpoint={tmp_path}/gone",
    )
    check(done, target, "gone")


def test_prediction_without_a_saved_model(tmp_path):
    done = run(
        *("-m", "serving.predict", "--text=a"),
        f"--saved_model_dir={tmp_path}/gone",
    )
    check(done, tmp_path / "gone", "gone")
