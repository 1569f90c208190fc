"""Training runs that are killed and started again, and what to compare."""

import dataclasses
import glob
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time

import numpy as np

from tools.soak import starting
from tools.soak.starting import ROOT


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What the killed run came to.

    Attributes:
      kills: how often it was killed.
      during_save: so many of them while a checkpoint was being written.
      starts: how often the command was started.
      same_log: loss logs are equal byte for byte.
      same_weights: all tensors and the memory of the last checkpoints are
        equal.
    """

    kills: int
    during_save: int
    starts: int
    same_log: bool
    same_weights: bool


def make_data(folder: str) -> str:
    """Small records with two directions; returns the data directory."""
    records = os.path.join(folder, "records")
    if os.path.exists(os.path.join(records, "manifest.json")):
        return records
    os.makedirs(folder, exist_ok=True)
    text = os.path.join(folder, "text.txt")
    write_text(text, documents=60)
    prefix = os.path.join(folder, "spiece")
    _call(
        ["-m", "data.train_sentencepiece", f"--input_glob={text}"]
        + [f"--model_prefix={prefix}", "--vocab_size=200"],
        folder,
    )
    _call(
        ["-m", "data.create_pretraining_data", f"--input_glob={text}"]
        + [f"--spiece_model_file={prefix}.model", f"--output_dir={records}"]
        # No save falls on the beginning of lanes, where memory is emptied.
        + ["--seq_len=24", "--reuse_len=12", "--bi_data"]
        + ["--segments_per_lane=16"],
        folder,
    )
    return records


def write_text(path: str, documents: int) -> None:
    """Documents of random words, one sentence a line."""
    rng = random.Random(7)
    words = [
        "".join(rng.choices("abcdefgh", k=rng.randint(2, 7)))
        for _ in range(300)
    ]
    with open(path, "w", encoding="utf-8") as f:
        for _ in range(documents):
            for _ in range(rng.randint(5, 20)):
                count = rng.randint(4, 14)
                f.write(" ".join(rng.choices(words, k=count)) + ".\n")
            f.write("\n")


def training_command(
    data_dir: str, model_dir: str, steps: int, *more: str
) -> list[str]:
    """A short run with memory and dropout that saves often."""
    return [
        sys.executable,
        os.path.join(ROOT, "run_pretrain.py"),
        f"--data_dir={data_dir}",
        f"--model_dir={model_dir}",
        "--n_layer=2",
        "--d_model=16",
        "--n_head=2",
        "--d_head=8",
        "--d_inner=32",
        "--mem_len=12",
        "--train_batch_size=8",
        f"--train_steps={steps}",
        "--iterations=5",
        "--save_steps=10",
        "--learning_rate=1e-3",
        "--warmup_steps=10",
        "--weight_decay=0.01",
        "--mode=train",
        "--progress=lines",
        *more,
    ]


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now."""
    sockets = [socket.socket() for _ in range(count)]
    for s in sockets:
        s.bind(("localhost", 0))
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


def start(command: list[str]) -> subprocess.Popen | starting.Forked:
    """Starts a run without a GPU, its output in a file beside the model."""
    model_dir = next(
        a.split("=", 1)[1] for a in command if a.startswith("--model_dir")
    )
    return starting.start(command[1:], model_dir + ".log")


def _call(arguments: list[str], folder: str) -> None:
    log = os.path.join(folder, "data.log")
    if starting.start(arguments, log).wait():
        raise RuntimeError(f"{arguments[1]} failed: see {log}")


def kill_until_done(
    command: list[str], model_dir: str, steps: int, kills: int, seed: int
) -> tuple[int, int, int]:
    """Runs the command to its end; (kills, kills during a save, starts).

    Every kill has its share of the steps, so that none comes too late.
    """
    rng = random.Random(seed)
    done = during_save = starts = 0
    while True:
        process = start(command)
        starts += 1
        if done == kills:
            if process.wait() != 0:
                raise RuntimeError(f"the run failed: see {model_dir}.log")
            return done, during_save, starts
        aim_at_save = rng.random() < 0.5
        latest = steps * (done + 1) // (kills + 1)
        hit = wait_for_moment(process, model_dir, aim_at_save, rng, latest)
        if process.poll() is not None:
            if process.returncode != 0:
                raise RuntimeError(f"the run failed: see {model_dir}.log")
            return done, during_save, starts
        process.send_signal(signal.SIGKILL)
        process.wait()
        done += 1
        during_save += hit


def wait_for_moment(process, model_dir, aim_at_save, rng, latest) -> bool:
    """Waits until the run trains, then a random time; True = in a save.

    Not longer than until step `latest`, however fast the run and slow we are. A
    run that is past it already may end.
    """
    log = os.path.join(model_dir, "losses.tsv")
    before, bounded = _size(log), _last_step(log) < latest
    while process.poll() is None and _size(log) == before:
        time.sleep(0.005)
    # A killed run must make some progress, or it would never end.
    deadline = time.monotonic() + rng.uniform(0.0, 1.0)
    while process.poll() is None:
        if bounded and _last_step(log) >= latest:
            break
        if aim_at_save and unfinished_save(model_dir):
            return True
        if not aim_at_save and time.monotonic() > deadline:
            break
        time.sleep(0.001)
    return unfinished_save(model_dir)


def _last_step(log: str) -> int:
    """Of a loss log that is being written; 0 without a whole line of one."""
    try:
        with open(log, encoding="utf-8") as f:
            whole = f.read().rpartition("\n")[0]
    except FileNotFoundError:
        return 0
    step = whole.rpartition("\n")[2].partition("\t")[0]
    return int(step) if step.isdigit() else 0


def unfinished_save(model_dir: str) -> bool:
    """Files of a checkpoint that `checkpoint` does not name yet."""
    if glob.glob(os.path.join(model_dir, "*_temp")):
        return True
    try:
        with open(os.path.join(model_dir, "checkpoint")) as f:
            known = f.read()
    except FileNotFoundError:
        known = ""
    names = {
        os.path.basename(path).rpartition(kind)[0]
        for kind in (".data-", ".memory")
        for path in glob.glob(os.path.join(model_dir, f"model.ckpt-*{kind}*"))
    }
    return any(f'"{name}"' not in known for name in names)


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError:
        return 0


def same_checkpoints(a: str, b: str) -> bool:
    """Tensors and memory of the newest checkpoints are equal bit for bit."""
    import tensorflow as tf

    readers = [tf.train.load_checkpoint(folder) for folder in (a, b)]
    names = [set(r.get_variable_to_shape_map()) for r in readers]
    if names[0] != names[1]:
        return False
    for name in names[0] - {"_CHECKPOINTABLE_OBJECT_GRAPH"}:
        x, y = (np.asarray(r.get_tensor(name)) for r in readers)
        if x.tobytes() != y.tobytes():
            return False
    return memory_bytes(a) == memory_bytes(b)


def memory_bytes(folder: str) -> list[bytes]:
    """The recurrent memory of the newest checkpoint, whole, in order."""
    import tensorflow as tf

    from training.checkpointing import memory_files

    saved = memory_files.open_memory(tf.train.latest_checkpoint(folder))
    if saved is None:
        return []
    rows = saved.read(np.arange(saved.rows))
    return [x.tobytes() for x in (*rows.layers, rows.length)]


def same_logs(a: str, b: str) -> bool:
    """`losses.tsv` of both folders, byte for byte."""
    texts = []
    for folder in (a, b):
        with open(os.path.join(folder, "losses.tsv"), "rb") as f:
            texts.append(f.read())
    return texts[0] == texts[1]


def soak(folder: str, kills: int, steps: int, seed: int) -> Outcome:
    """An undisturbed run and a killed one, compared."""
    data_dir = make_data(folder)
    undisturbed = os.path.join(folder, "undisturbed")
    killed = os.path.join(folder, "killed")
    shutil.rmtree(killed, ignore_errors=True)
    if start(training_command(data_dir, undisturbed, steps)).wait() != 0:
        raise RuntimeError(f"the run failed: see {undisturbed}.log")
    counts = kill_until_done(
        training_command(data_dir, killed, steps),
        killed,
        steps,
        kills,
        seed,
    )
    return Outcome(
        *counts,
        same_logs(undisturbed, killed),
        starting.in_fork(same_checkpoints, undisturbed, killed),
    )
