"""Measurements that are no repeated steps: start-up, generation, parity."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator

from benchmarks import harness
from benchmarks.harness import System
from benchmarks.suites import GARDEN, OURS
from benchmarks.systems.workloads import Workload
from flags.bench_flags import BenchOptions

Rows = Iterator[tuple[str, str, list[dict]]]


def startup(options: BenchOptions) -> Rows:
    """Seconds from process start to the end of the first pretraining step."""
    workload = Workload("pretrain", layers=options.layers)
    systems = [
        System("ours", OURS, {"warm_up": 1}),
        System("Model Garden graph", GARDEN, {"warm_up": 1}),
    ]
    times: dict[str, list[dict]] = {s.name: [] for s in systems}
    for _ in range(1 if options.quick else 3):
        for system in systems:
            start = time.perf_counter()
            child = harness.Child(system, workload)
            child.wait_until_ready()
            total = time.perf_counter() - start
            ready = child.result.ready
            child.stop()
            if ready:
                times[system.name].append(ready | {"total_s": total})
    rows = [_startup_row(name, t, workload) for name, t in times.items() if t]
    lines = [
        f"{r['system']}: {r['total_s']:.1f} s to the first step's end "
        f"(import {r['import_s']:.1f}, build {r['build_s']:.1f}, trace and "
        f"first step {r['first_step_s']:.1f})"
        for r in rows
    ]
    if len(rows) == 2:
        share = rows[0]["total_s"] / rows[1]["total_s"]
        lines.append(f"ours / Model Garden: {share:.2f}")
    yield f"startup: L {options.layers}", "\n".join(lines), rows


def _startup_row(name: str, times: list[dict], workload: Workload) -> dict:
    best = min(times, key=lambda t: t["total_s"])
    return {
        "benchmark": "startup",
        "system": name,
        "workload": {"layers": workload.layers},
        "total_s": best["total_s"],
        "import_s": best["import_s"],
        "build_s": best["build_s"],
        "first_step_s": best["warm_up_s"][0],
    }


def generation(options: BenchOptions) -> Rows:
    """Tokens per second of the serving decoder, with and without memory."""
    tokens = 16 if options.quick else 64
    yield from _apart(
        "benchmarks.generation", [str(options.layers), str(tokens)]
    )


def lm_generation(options: BenchOptions) -> Rows:
    """Tokens per second of a left-to-right model at 512 tokens of memory."""
    tokens = 16 if options.quick else 64
    yield from _apart(
        "benchmarks.lm_generation", [str(options.layers), str(tokens)]
    )


def parity(options: BenchOptions) -> Rows:
    """The largest difference to a peer's outputs on the same weights."""
    if options.torch_python:
        yield from _apart("benchmarks.parity", [options.torch_python])
    else:
        text = "needs --torch_python: weights are shared with Hugging Face"
        yield "parity", text, []


def _apart(module: str, arguments: list[str]) -> Rows:
    """Runs a command that prints one JSON line; a failure is a row, too."""
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    name = module.split(".")[-1]
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        last = (done.stderr.splitlines() or ["no message"])[-1]
        yield name, f"failed: {last}", [{"benchmark": name, "error": last}]
        return
    row = {"benchmark": name} | json.loads(lines[-1])
    text = "\n".join(f"{k}: {v}" for k, v in row.items() if k != "benchmark")
    yield name, text, [row]


SUITES = {
    "startup": startup,
    "generation": generation,
    "lm_generation": lm_generation,
    "parity": parity,
}
