"""Builds data on a Dask cluster, kills a worker meanwhile, compares bytes.

    python -m tools.soak.beam_workers --input_glob='text/*.txt' \\
        --spiece_model_file=spiece.model --output_dir=OUT --workers=2,4

For every number of workers a scheduler and so many single-threaded worker
processes are started on this machine; the build runs on Beam's DaskRunner, and
once blocks are finished one worker is killed with SIGKILL. Files and manifest
must be those of a local build. With `--direct` the DirectRunner's mode of
several processes builds the same. Needs requirements-dask.txt.
"""

import argparse
import contextlib
import filecmp
import glob
import json
import os
import shutil
import signal
import subprocess
import sys
import time

from tools.soak import killing

DASK = "apache_beam.runners.dask.dask_runner.DaskRunner"


@contextlib.contextmanager
def cluster(count: int, folder: str):
    """(address, worker processes) of a new cluster on this machine."""
    (port,) = killing.free_ports(1)
    address = f"tcp://127.0.0.1:{port}"
    command = [sys.executable, "-m", "distributed.cli.dask_scheduler"]
    command += ["--host", "127.0.0.1", f"--port={port}", "--no-dashboard"]
    processes = [_start(command, os.path.join(folder, "scheduler.log"))]
    for number in range(count):
        command = [sys.executable, "-m", "distributed.cli.dask_worker", address]
        command += ["--nthreads=1", "--nworkers=1", "--no-dashboard"]
        command += ["--no-nanny", f"--local-directory={folder}/dask"]
        log = os.path.join(folder, f"worker{number}.log")
        processes.append(_start(command, log))
    try:
        yield address, processes[1:]
    finally:
        for process in reversed(processes):
            process.kill()
            process.wait()


def _start(command: list[str], log: str) -> subprocess.Popen:
    with open(log, "w", encoding="utf-8") as f:
        return subprocess.Popen(command, cwd=killing.ROOT, stdout=f, stderr=f)


def build(
    command: list[str], folder: str, beam: str, workers: int = 1, kill=None
) -> dict:
    """Runs a build; what it took.

    Args:
      command: module and flags.
      folder: output.
      beam: Beam's options; "" = a local build.
      workers: that build.
      kill: a worker's process, killed when blocks are finished.
    """
    shutil.rmtree(folder, ignore_errors=True)
    words = [sys.executable, "-m", *command, f"--output_dir={folder}"]
    if beam:
        words += ["--runner=beam", f"--beam_options={beam}"]
    began = time.monotonic()
    first = None
    process = _start(words, folder + ".log")
    while process.poll() is None:
        blocks = len(glob.glob(os.path.join(folder, "block-*.json")))
        if blocks and first is None:
            first = time.monotonic() - began
        if kill and blocks >= 2:
            kill.send_signal(signal.SIGKILL)
            kill = None
        time.sleep(0.005)
    if process.returncode:
        raise RuntimeError(f"the build failed: see {folder}.log")
    if kill:
        raise RuntimeError("it ended before a worker could be killed")
    seconds = time.monotonic() - began
    with open(os.path.join(folder, "manifest.json"), encoding="utf-8") as f:
        manifest = json.load(f)
    counts = manifest["counts"]
    tokens = counts.get("train_tokens") or counts["train"]["tokens"]
    first = first or seconds
    return {
        "seconds": round(seconds, 1),
        "first_block_after": round(first, 1),
        "blocks": len(manifest["text_sha256"]),
        # A worker that was killed counts as one that worked to the end.
        "tokens_per_second_each": round(tokens / (seconds - first) / workers),
    }


def peak_megabytes(processes: list[subprocess.Popen]) -> list[int]:
    """The largest resident memory of those that still run."""
    megabytes = []
    for process in processes:
        with open(f"/proc/{process.pid}/status", encoding="ascii") as f:
            values = dict(line.split(":", 1) for line in f)
        if "VmHWM" in values:  # not of one that was killed
            megabytes.append(int(values["VmHWM"].split()[0]) // 1000)
    return megabytes


def same_bytes(a: str, b: str) -> bool:
    """Whether two builds have the same files with the same bytes."""
    names = sorted(os.listdir(a))
    if names != sorted(os.listdir(b)):
        return False
    return filecmp.cmpfiles(a, b, names, shallow=False)[0] == names


def commands(a) -> dict[str, list[str]]:
    """Of both kinds of records."""
    own = [f"--block_megabytes={a.block_megabytes}"]
    return {
        "pretraining": ["data.create_pretraining_data", *own]
        + [f"--input_glob={a.input_glob}", "--seq_len=128", "--bi_data"]
        + [f"--spiece_model_file={a.spiece_model_file}", "--reuse_len=64"],
        "streams": ["data.create_lm_data", *own]
        + [f"--train_glob={a.input_glob}"]
        + [f"--vocab_file={a.spiece_model_file}"],
    }


def main() -> None:
    """Prints what every build took; exit status 1 when bytes differ."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--input_glob", required=True)
    parser.add_argument("--spiece_model_file", required=True)
    parser.add_argument("--output_dir", required=True)
    parser.add_argument("--workers", default="2,4")
    parser.add_argument("--block_megabytes", type=float, default=0.25)
    parser.add_argument("--direct", type=int, default=0, help="processes")
    a = parser.parse_args()
    os.makedirs(a.output_dir, exist_ok=True)
    good = True
    for name, command in commands(a).items():
        local = os.path.join(a.output_dir, f"{name}-local")
        print(name, "local", build(command, local, ""), flush=True)
        out = os.path.join(a.output_dir, f"{name}-beam")
        for count in map(int, a.workers.split(",")):
            with cluster(count, a.output_dir) as (address, processes):
                beam = f"--runner={DASK} --dask_client_address={address} "
                beam += "--dask_partition_size=1"
                report = build(command, out, beam, count, processes[-1])
                report["worker_megabytes"] = peak_megabytes(processes)
            equal = same_bytes(local, out)
            good &= equal
            print(name, f"dask {count}", report, f"same bytes: {equal}")
        if a.direct:
            beam = "--runner=DirectRunner --direct_running_mode="
            beam += f"multi_processing --direct_num_workers={a.direct}"
            report = build(command, out, beam, a.direct)
            equal = same_bytes(local, out)
            good &= equal
            print(name, f"direct {a.direct}", report, f"same bytes: {equal}")
    if not good:
        sys.exit(1)


if __name__ == "__main__":
    main()
