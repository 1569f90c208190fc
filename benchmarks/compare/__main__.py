"""Command: our steps against the peers', in turn, with tables and JSON lines.

    python -m benchmarks.compare --suites=pretrain,inference --rounds=9

Every comparison runs its systems in processes of their own that take turns
step by step; "x first" is the median over rounds of a system's time over the
first one's, with a 95 % bootstrap interval. "of peak" divides the FLOPs that
the task needs by the time and by the matmul peak of the system's type, which is
measured in turn with the systems: the median of as many products as rounds.
`--profile` traces TensorFlow's systems after the rounds: thread time by kind of
operation, and the share of the peak that the matmuls alone have.
"""

import json

from benchmarks.compare import extra_suites, harness, profiles, suites
from common import files
from flags import app, bench_flags
from flags.bench_flags import BenchOptions


def run(options: BenchOptions) -> list[dict]:
    """Runs the chosen suites and prints their tables; returns all rows.

    The file of `json_output` has the rows of every comparison that has ended.

    Raises:
      UserError: `systems` names what is not there; nothing has run.
    """
    suites.check_systems(options)
    measured_rows = []
    for name in options.suites:
        for title, text, rows in _comparisons(name, options):
            print(f"\n{title}\n{text}", flush=True)
            measured_rows.extend(rows)
            if options.json_output:
                lines = (
                    json.dumps(row, sort_keys=True) + "\n"
                    for row in measured_rows
                )
                files.write_text(options.json_output, "".join(lines))
    return measured_rows


def _comparisons(name: str, options: BenchOptions):
    """(title, text, rows) of each comparison of a suite."""
    if name in extra_suites.SUITES:
        yield from extra_suites.SUITES[name](options)
        return
    title = ""
    for title, rows in suites.run(name, options):
        parts = [harness.table(rows), harness.about(rows)]
        parts += [profiles.text(row) for row in rows]
        yield title, "\n".join(part for part in parts if part), rows
    if not title:
        yield name, "needs --torch_python: all its peers run there", []


def main() -> None:
    """Measures, prints and writes."""
    run(bench_flags.from_flags())


if __name__ == "__main__":
    bench_flags.define()
    app.run(main)
