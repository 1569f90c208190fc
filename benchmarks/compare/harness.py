"""Systems take turns, step by step, each in its own process.

Timings on a shared machine drift; ratios of neighbouring steps do not. The
parent asks one child at a time for one step, round after round, in an order
that is reversed every other round, and compares within rounds.

Protocol: JSON lines. The child says `{"event": "ready"}` when it has built,
compiled and warmed up; on "step" it answers `{"event": "step", "seconds": s,
"cpu_seconds": c, "loss": x}`, on "profile" `{"event": "profile", "operations":
{type: [calls, ms]}}`, on "stop" `{"event": "done", "peak_mb": m,
"private_mb": p}`.
"""

import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Sequence

import numpy as np

import common
from benchmarks.systems.workloads import Workload
from common.errors import UserError

BOOTSTRAP_SAMPLES = 2000


@dataclasses.dataclass(frozen=True)
class System:
    """One competitor.

    Attributes:
      name: shown in the table, unique within a comparison.
      module: in `benchmarks.systems`, with `build(workload, options)`.
      options: JSON-able, e.g. {"precision": "mixed_bfloat16"}.
      python: interpreter; None = this one.
      folder: checkout whose code it runs; None = this one.
      sizes: of the workload, where its task needs others than the others'.
    """

    name: str
    module: str
    options: dict = dataclasses.field(default_factory=dict)
    python: str | None = None
    folder: str | None = None
    sizes: dict = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Result:
    """What one system did in one comparison.

    Attributes:
      name: of the system.
      dtype: whose matmul peak is its limit.
      seconds: wall seconds of each step.
      cpu_seconds: CPU seconds of each step, all threads.
      losses: of each step.
      peak_mb: largest resident memory of the process (VmHWM), MB.
      private_mb: the same without the pages that map files. Those hold the code
        of libraries; processes share them and the system can drop them. 0 where
        the child does not give it.
      operations: type of operation -> [calls, ms] of a traced step.
      ready: what the child said about its start (seconds by phase).
      error: why it fell out, or None.
    """

    name: str
    dtype: str = "float32"
    seconds: list[float] = dataclasses.field(default_factory=list)
    cpu_seconds: list[float] = dataclasses.field(default_factory=list)
    losses: list[float] = dataclasses.field(default_factory=list)
    peak_mb: float = 0.0
    private_mb: float = 0.0
    operations: dict = dataclasses.field(default_factory=dict)
    ready: dict = dataclasses.field(default_factory=dict)
    error: str | None = None


def _changed(workload: Workload) -> dict:
    """The fields that are not as they are by default.

    An older version of the project (`--checkout`) does not know newer fields.
    """
    return {
        field.name: value
        for field in dataclasses.fields(workload)
        if (value := getattr(workload, field.name)) != field.default
    }


class Child:
    """A process that runs one system on one workload."""

    def __init__(self, system: System, workload: Workload):
        reduced = "bfloat16" in system.options.get("precision", "")
        dtype = "bfloat16" if reduced else "float32"
        self.result = Result(system.name, dtype)
        spec = {
            "module": system.module,
            "options": system.options,
            "workload": _changed(workload.replace(**system.sizes)),
        }
        self._process = subprocess.Popen(
            [
                system.python or sys.executable,
                "-m",
                "benchmarks.child",
                json.dumps(spec),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if os.name == "nt" else None,
            text=True,
            # A peer starts as its users start it.
            env=common.users_environment() | {"TF_CPP_MIN_LOG_LEVEL": "3"},
            cwd=system.folder,
        )

    @property
    def alive(self) -> bool:
        """False once it has failed."""
        return self.result.error is None

    def wait_until_ready(self) -> None:
        """Reads the child's first message."""
        message = self._read("ready")
        if message:
            self.result.ready = message

    def step(self) -> None:
        """Asks for one step and records it."""
        message = self._ask("step", "step")
        if not message:
            return
        if not np.isfinite(message["loss"]):
            self._fail(f"loss is {message['loss']}")
            return
        self.result.seconds.append(message["seconds"])
        self.result.cpu_seconds.append(message["cpu_seconds"])
        self.result.losses.append(message["loss"])

    def profile(self) -> None:
        """Asks for the thread time of a step's operations."""
        message = self._ask("profile", "profile")
        if message:
            self.result.operations = message["operations"]

    def stop(self) -> None:
        """Ends the child and notes its peak memory."""
        if self.alive:
            message = self._ask("stop", "done")
            if message:
                self.result.peak_mb = message["peak_mb"]
                self.result.private_mb = message.get("private_mb", 0.0)
        self.close()

    def close(self) -> None:
        """Leaves no process behind."""
        for pipe in (self._process.stdin, self._process.stdout):
            try:
                pipe.close()
            except OSError:
                pass  # a child that died has closed its end
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _ask(self, request: str, wanted: str) -> dict | None:
        try:
            self._process.stdin.write(request + "\n")
            self._process.stdin.flush()
        except OSError:
            self._fail("the process has ended")
            return None
        return self._read(wanted)

    def _read(self, wanted: str) -> dict | None:
        line = self._process.stdout.readline()
        if not line:
            self._fail(f"the process ended before it said {wanted!r}")
            return None
        message = json.loads(line)
        if message["event"] != wanted:
            self._fail(message.get("message", str(message)))
            return None
        return message

    def _fail(self, message: str) -> None:
        self.result.error = message


def compare(
    systems: Sequence[System],
    workload: Workload,
    rounds: int,
    profiled: Sequence[System] = (),
) -> list[Result]:
    """Runs all systems in turn.

    Args:
      systems: competitors; the first is the reference of the ratios.
      workload: same for all.
      rounds: steps per system, after each child's own warm-up.
      profiled: those of them that are traced after the rounds, where they run
        in TensorFlow and are of this checkout.

    Returns:
      One result per system, in order; a system that failed has an `error` and
      does not stop the others.
    """
    if rounds < 1:
        raise UserError(f"rounds must be at least 1, found {rounds}")
    children: list[Child] = []
    try:
        # One at a time: compiling beside one another would only take turns.
        for system in systems:
            children.append(Child(system, workload))
            children[-1].wait_until_ready()
        for turn in range(rounds):
            order = children if turn % 2 == 0 else children[::-1]
            for child in order:
                if child.alive:
                    child.step()
        for system, child in zip(systems, children, strict=True):
            # An older version's child would take it for a step.
            if system in profiled and child.alive and system.folder is None:
                child.profile()
    finally:
        for child in children:
            child.stop()
    return [child.result for child in children]


def ratio(
    other: Sequence[float], reference: Sequence[float], seed: int = 0
) -> tuple[float, float, float]:
    """Median of the rounds' ratios other / reference, and its 95 % interval.

    The interval is a percentile bootstrap over rounds.
    """
    count = min(len(other), len(reference))
    ratios = np.asarray(other[:count]) / np.asarray(reference[:count])
    random = np.random.default_rng(seed)
    picks = random.integers(0, count, [BOOTSTRAP_SAMPLES, count])
    medians = np.median(ratios[picks], axis=1)
    low, high = np.percentile(medians, [2.5, 97.5])
    return float(np.median(ratios)), float(low), float(high)


def rows(
    benchmark: str,
    workload: Workload,
    results: Sequence[Result],
    gflop: float = 0.0,
    peaks: dict[str, float] | None = None,
) -> list[dict]:
    """One JSON-able row per system.

    Args:
      benchmark: name of the comparison.
      workload: its sizes.
      results: from `compare`; ratios are to the first.
      gflop: needed FLOPs of a step / 1e9, 0 = unknown.
      peaks: measured matmul GFLOP/s, by "float32" and "bfloat16".
    """
    reference = results[0]
    table_rows = []
    for result in results:
        row = {
            "benchmark": benchmark,
            "system": result.name,
            "workload": dataclasses.asdict(workload),
            "error": result.error,
        }
        if result.seconds:
            row |= _numbers(result, gflop, peaks or {})
            row["of_peak"] = row.get(f"utilisation_{result.dtype}")
            row["rows_per_s"] = workload.examples / row["median_s"]
        if result.seconds and reference.seconds:
            times, low, high = ratio(result.seconds, reference.seconds)
            cpu, _, _ = ratio(result.cpu_seconds, reference.cpu_seconds)
            row |= {
                "ratio": times,
                "ratio_low": low,
                "ratio_high": high,
                "cpu_ratio": cpu,
            }
            if reference.peak_mb:
                row["memory_ratio"] = result.peak_mb / reference.peak_mb
        table_rows.append(row)
    return table_rows


def _numbers(result: Result, gflop: float, peaks: dict) -> dict:
    seconds = float(np.median(result.seconds))
    low, high = np.percentile(result.seconds, [25, 75])
    row = {
        "rounds": len(result.seconds),
        "median_s": seconds,
        "quartile_low_s": float(low),
        "quartile_high_s": float(high),
        "cpu_s": float(np.median(result.cpu_seconds)),
        "peak_mb": result.peak_mb,
        "private_mb": result.private_mb or None,
        "import_mb": result.ready.get("import_mb"),
        "first_loss": result.losses[0],
        "last_loss": result.losses[-1],
        "ready": result.ready,
        "operations": result.operations,
    }
    if gflop:
        row["gflop"] = gflop
        row["gflop_per_s"] = gflop / seconds
        row["matmul_gflop_per_s"] = peaks
        row |= {
            f"utilisation_{name}": gflop / seconds / peak
            for name, peak in peaks.items()
        }
    return row


COLUMNS = (
    ("system", "system", "{}"),
    ("median_s", "median s", "{:.3f}"),
    ("quartile_low_s", "25 %", "{:.3f}"),
    ("quartile_high_s", "75 %", "{:.3f}"),
    ("rows_per_s", "rows/s", "{:.1f}"),
    ("cpu_s", "CPU s", "{:.3f}"),
    ("ratio", "x first", "{:.2f}"),
    ("ratio_low", "from", "{:.2f}"),
    ("ratio_high", "to", "{:.2f}"),
    ("cpu_ratio", "x CPU", "{:.2f}"),
    ("gflop_per_s", "GFLOP/s", "{:.0f}"),
    ("of_peak", "of peak", "{:.0%}"),
    ("peak_mb", "peak MB", "{:.0f}"),
    ("private_mb", "private MB", "{:.0f}"),
    ("import_mb", "imports MB", "{:.0f}"),
    ("last_loss", "loss", "{:.4f}"),
)


def about(table_rows: Sequence[dict]) -> str:
    """The matmul peak, and what systems said of their libraries."""
    lines = []
    peaks = next(
        (r["matmul_gflop_per_s"] for r in table_rows if r.get("gflop")), {}
    )
    if peaks:
        text = ", ".join(f"{name} {x:.0f}" for name, x in peaks.items())
        lines.append(f"matmul peak beside them, GFLOP/s: {text}")
    for row in table_rows:
        said = row.get("ready", {}).get("about") or {}
        if said:
            text = ", ".join(f"{k} {v}" for k, v in said.items())
            lines.append(f"{row['system']}: {text}")
    return "\n".join(lines)


def table(table_rows: Sequence[dict]) -> str:
    """The rows of one comparison as a Markdown table."""
    lines = [[title for _, title, _ in COLUMNS]]
    for row in table_rows:
        cells = [
            form.format(row[key]) if row.get(key) is not None else ""
            for key, _, form in COLUMNS
        ]
        if row.get("error"):
            cells[1] = f"failed: {row['error'].splitlines()[0][:60]}"
        lines.append(cells)
    widths = [max(len(line[i]) for line in lines) for i in range(len(COLUMNS))]
    text = [
        "| "
        + " | ".join(c.ljust(n) for c, n in zip(line, widths, strict=True))
        + " |"
        for line in lines
    ]
    text.insert(1, "|" + "|".join("-" * (n + 2) for n in widths) + "|")
    return "\n".join(text)
