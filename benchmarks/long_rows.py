"""Command: seconds and memory by length, for three kinds of attention.

    python -m benchmarks.long_rows --output_dir=OUT/rows --rounds=5

One row of 512 to 4,096 tokens through dense attention (BERT), local layers
(ModernBERT) and segments of 512 with memory (XLNet), layers of one width, in
turn (`benchmarks.compare.suites.long_rows`). Writes `long_rows.tsv`, `.png`, `.svg`.
"""

import os

from absl import flags

from benchmarks.compare import harness, suites
from common import figures, files
from flags import app
from flags.bench_flags import BenchOptions

FLAGS = flags.FLAGS
COLUMNS = ("length", "system", "median_s", "cpu_s", "peak_mb")
NAMES = {
    "ours": "dense attention",
    "ours local layers": "local layers",
    "ours segment recurrence": "segments of 512 with memory",
}


def numbers(found: list[dict]) -> list[list[str]]:
    """A header and a line per system and length; a failure has its message."""
    table = [list(COLUMNS)]
    for row in found:
        length = str(row["workload"]["length"])
        name = NAMES[row["system"]]
        if row["error"]:
            table.append([length, name, row["error"], "", ""])
            continue
        values = [row["median_s"], row["cpu_s"], row["peak_mb"]]
        table.append([length, name, *(f"{v:.4g}" for v in values)])
    return table


def draw(found: list[dict], folder: str) -> list[str]:
    """Seconds and memory against the length as PNG and SVG; the paths."""
    from matplotlib import ticker

    figure, axes = figures.new(1, 2, figsize=(9, 3.6))
    for axis, key, label in zip(
        axes[0],
        ("cpu_s", "peak_mb"),
        ("CPU seconds per row", "largest memory, MB"),
        strict=True,
    ):
        for system, name in NAMES.items():
            rows = [
                r for r in found if r["system"] == system and not r["error"]
            ]
            axis.plot(
                [r["workload"]["length"] for r in rows],
                [r[key] for r in rows],
                "o-",
                label=name,
            )
        axis.set(xlabel="tokens", ylabel=label, xscale="log", yscale="log")
        lengths = sorted({r["workload"]["length"] for r in found})
        axis.set_xticks(lengths, [f"{n:,}" for n in lengths])
        # Powers of ten alone would leave an axis of less than one unlabelled.
        axis.yaxis.set_major_locator(ticker.LogLocator(subs=(1, 1.5, 2, 3, 5)))
        axis.yaxis.set_major_formatter("{x:,g}")
        axis.minorticks_off()
    axes[0, 0].legend()
    return figures.save(figure, os.path.join(folder, "long_rows"))


def main() -> None:
    """Measures, prints and writes."""
    options = BenchOptions(
        suites=("long_rows",),
        rounds=FLAGS.rounds,
        layers=FLAGS.layers,
        quick=FLAGS.quick,
    )
    found = []
    for title, rows in suites.run("long_rows", options):
        print(f"\n{title}\n{harness.table(rows)}", flush=True)
        found.extend(rows)
    os.makedirs(FLAGS.output_dir, exist_ok=True)
    path = os.path.join(FLAGS.output_dir, "long_rows.tsv")
    lines = ("\t".join(line) + "\n" for line in numbers(found))
    files.write_text(path, "".join(lines))
    for written in (path, *draw(found, FLAGS.output_dir)):
        print(f"wrote {written}")


if __name__ == "__main__":
    flags.DEFINE_string("output_dir", None, "Folder to write.", required=True)
    flags.DEFINE_integer("rounds", 5, "Rows per system and length.", 1)
    flags.DEFINE_integer("layers", 3, "Layers of each kind.", 1)
    flags.DEFINE_bool("quick", False, "Up to 1,024 tokens only.")
    app.run(main)
