"""What saving and reading cost, by number of processes; prints a table.

    python -m benchmarks.saves --suite=memory
    python -m benchmarks.saves --suite=reading --data_dir=RECORDS
    python -m benchmarks.saves --suite=share --data_dir=RECORDS --output_dir=OUT

memory: peak host memory of the chief during a save, beyond what it had before,
for 1, 2 and 4 processes and three batch sizes. reading: bytes that a process
reads per step. share: how long training waits for saves, with and without
--async_save, in alternation, for the quickstart's model and one of 200 MB.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import types

from common import files
from common.errors import UserError
from common.process import heap
from tools.soak import killing, starting

LAYERS, SLOTS, WIDTH = 6, 96, 256
PROCESSES = (1, 2, 4)
BATCHES = (64, 128, 256)
MB = 1e6
_PEAK = "peak.json"
_TIMEOUT = 300.0
# Name -> the architecture's flags, steps, steps between saves.
MODELS = {
    # Of scripts/quickstart.sh, which saves every 300 steps.
    "quickstart": (
        ["--n_layer=4", "--d_model=192", "--n_head=4", "--d_head=48"]
        + ["--d_inner=768", "--mem_len=64", "--train_batch_size=16"],
        60,
        20,
    ),
    # 50 million weights.
    "200 MB": (
        ["--n_layer=7", "--d_model=768", "--n_head=12", "--d_head=64"]
        + ["--d_inner=3072", "--mem_len=64", "--train_batch_size=2"],
        12,
        4,
    ),
}


def _peak_beyond(work) -> float:
    """Bytes of resident memory that `work` took at its highest, about."""

    def read(name: str) -> int:
        with open("/proc/self/status", encoding="ascii") as f:
            values = dict(line.split(":", 1) for line in f)
        return 1024 * int(values[name].split()[0])

    heap.trim()  # or what was freed before is used again, unseen
    with open("/proc/self/clear_refs", "w", encoding="ascii") as f:
        f.write("5")  # the highest use begins anew
    before = read("VmRSS")
    work()
    return float(read("VmHWM") - before)


def save_once(index: int, hosts: str, batch: int, folder: str) -> None:
    """One process of a group that saves its rows; the chief notes the peak."""
    import tensorflow as tf

    from training import strategy as strategy_lib
    from training.checkpointing.checkpoints import RunCheckpoints
    from training.recurrent.memory_state import RecurrentMemory
    from training.run_options import StrategyOptions
    from training.step.batch_split import BatchSplit

    several = "," in hosts
    strategy = strategy_lib.setup(
        StrategyOptions(
            distribution_strategy="multi_worker_mirrored"
            if several
            else "one_device",
            worker_hosts=hosts if several else None,
            task_index=index if several else -1,
        )
    )
    config = types.SimpleNamespace(d_model=WIDTH, n_layer=LAYERS)
    memory = RecurrentMemory(
        types.SimpleNamespace(memory_len=SLOTS, config=config),
        types.SimpleNamespace(compute_dtype="float32"),
        strategy,
        BatchSplit(batch, strategy.num_replicas_in_sync),
    )
    memory.from_host(memory.to_host())  # traced, and every page touched
    meeting = strategy_lib.meeting_of(strategy)
    checkpoints = RunCheckpoints(
        folder,
        {"model": tf.Module()},
        2,
        strategy_lib.is_chief(strategy),
        memory,
        meeting,
    )
    if meeting:
        # The chief first removes what it finds there: no rows of this save.
        meeting.total(0.0)
    try:
        peak = _peak_beyond(lambda: checkpoints.save(1))
    finally:
        # Or, when another process is gone, this one waits for its rows.
        checkpoints.close()
    if index == 0:
        files.write_json(os.path.join(folder, _PEAK), {"bytes": peak})


def _group(count: int, batch: int) -> float:
    """Peak of the chief of a group; none is left when one fails."""
    hosts = ",".join(f"localhost:{port}" for port in killing.free_ports(count))
    with tempfile.TemporaryDirectory() as folder, starting.Group() as group:
        for i in range(count):
            group.start(
                ["-m", "benchmarks.saves", "--suite=worker"]
                + [f"--task_index={i}", f"--hosts={hosts}"]
                + [f"--batch={batch}", f"--output_dir={folder}"],
                os.path.join(folder, f"worker{i}.log"),
            )
        group.finish(_TIMEOUT)
        peak = files.read_json_object(os.path.join(folder, _PEAK), "")
    return float(peak["bytes"])


def memory_suite() -> None:
    """Peak host memory of the chief during a save."""
    row = LAYERS * SLOTS * WIDTH * 4
    print(f"| processes | {' | '.join(f'{b} rows' for b in BATCHES)} |")
    for count in PROCESSES:
        cells = []
        for batch in BATCHES:
            own_rows_mb = row * batch // count / MB
            peak = _group(count, batch) / MB
            cells.append(f"{peak:.0f} MB (own rows {own_rows_mb:.0f} MB)")
        print(f"| {count} | {' | '.join(cells)} |", flush=True)


def reading_suite(data_dir: str, rows: int, steps: int) -> None:
    """Bytes that each process reads."""
    import numpy as np

    from data.pretraining.lanes import LaneReader
    from data.pretraining.manifest import PretrainingManifest
    from data.pretraining.options import ReaderOptions

    manifest = PretrainingManifest.load(data_dir)
    for count in PROCESSES:
        read_bytes = []
        for process in range(count):
            mine = np.arange(rows).reshape(2, count, -1)[:, process]
            options = ReaderOptions(rows, rows=tuple(mine.reshape(-1).tolist()))
            reader = LaneReader(manifest, options)
            before = _bytes_read()
            done = 0
            for chunk in reader.chunks():
                done += len(chunk["reset_memory"])
                if done >= steps:
                    break
            read_bytes.append((_bytes_read() - before) / done)
        cells = ", ".join(f"{n:,.0f}" for n in read_bytes)
        print(f"{count} process(es): {cells} bytes per step each", flush=True)


def _bytes_read() -> int:
    with open("/proc/self/io", encoding="ascii") as f:
        return int(f.readline().split()[1])


def share_suite(
    data_dir: str, folder: str, rounds: int, names: list[str]
) -> None:
    """How long training waits for saves."""
    for name in names:
        sizes, steps, every = MODELS[name]
        for number in range(rounds):
            for flag in ("--noasync_save", "--async_save"):
                model_dir = os.path.join(folder, "share")
                shutil.rmtree(model_dir, ignore_errors=True)
                done = subprocess.run(
                    [sys.executable, "run_pretrain.py", *sizes, flag]
                    + [f"--data_dir={data_dir}", f"--model_dir={model_dir}"]
                    + ["--mode=train", "--progress=lines"]
                    + [f"--train_steps={steps}", f"--save_steps={every}"]
                    + [f"--iterations={every}", "--max_save=2"],
                    cwd=killing.ROOT,
                    capture_output=True,
                    text=True,
                    check=True,
                )
                line = re.search(r"saves: (.*)", done.stdout)[1]
                print(f"{name}, round {number}, {flag}: {line}", flush=True)


def _count(text: str) -> int:
    """A number from 1 on; argparse's error of another text."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(
            f"wanted a number from 1 on, found {text!r}"
        )
    return int(text)


def main() -> None:
    """Runs one suite."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    suites = ("memory", "reading", "share", "worker")
    parser.add_argument("--suite", required=True, choices=suites)
    parser.add_argument("--data_dir")
    parser.add_argument("--output_dir")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--rounds", type=_count, default=2)
    parser.add_argument("--rows", type=_count, default=32)
    parser.add_argument("--steps", type=_count, default=64)
    parser.add_argument("--batch", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--hosts", help=argparse.SUPPRESS)
    parser.add_argument("--task_index", type=int, help=argparse.SUPPRESS)
    a = parser.parse_args()
    names = a.models.split(",")
    needed = {"reading": ("data_dir",), "share": ("data_dir", "output_dir")}
    for name in needed.get(a.suite, ()):
        if not getattr(a, name):
            parser.error(f"--suite={a.suite} needs --{name}")
    if unknown := sorted(set(names) - set(MODELS)):
        parser.error(f"--models: wanted {', '.join(MODELS)}, found {unknown}")
    try:
        _run(a, names)
    except UserError as e:
        parser.error(str(e))


def _run(a: argparse.Namespace, names: list[str]) -> None:
    """The suite that is asked for."""
    if a.suite == "worker":
        save_once(a.task_index, a.hosts, a.batch, a.output_dir)
    elif a.suite == "memory":
        memory_suite()
    elif a.suite == "reading":
        reading_suite(a.data_dir, a.rows, a.steps)
    else:
        share_suite(a.data_dir, a.output_dir, a.rounds, names)


if __name__ == "__main__":
    main()
