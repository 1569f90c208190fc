"""Command: seconds and memory by length, for three kinds of attention.

    python -m benchmarks.long_rows --output_dir=OUT/rows --rounds=5
    python -m benchmarks.long_rows --output_dir=OUT --drawn_from=long_rows.tsv

One row of 512 to 4,096 tokens through dense attention (BERT), local layers
(ModernBERT) and segments of 512 with memory (XLNet), layers of one width, in
turn (`benchmarks.compare.suites.long_rows`). Writes `long_rows.tsv`, `.png`, `.svg`.
The second form measures nothing: it draws such a table again.
"""

import csv
import os

from absl import flags

from benchmarks.compare import harness, suites
from common import figures, files
from common.errors import UserError
from flags import app
from flags.bench_flags import BenchOptions

FLAGS = flags.FLAGS
COLUMNS = ("length", "system", "rounds", "median_s", "cpu_s", "peak_mb")
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
            table.append([length, name, "0", row["error"], "", ""])
            continue
        values = [row["median_s"], row["cpu_s"], row["peak_mb"]]
        texts = [f"{v:.4g}" for v in values]
        table.append([length, name, str(row["rounds"]), *texts])
    return table


def draw(table: list[list[str]], folder: str) -> list[str]:
    """Seconds and memory against the length as PNG and SVG; the paths.

    Args:
      table: of `numbers`, or read from its file; failed rows are left out.
      folder: takes the figure.
    """
    from matplotlib import ticker

    header, *lines = table
    rows = [dict(zip(header, line, strict=True)) for line in lines]
    rows = [row for row in rows if row["cpu_s"]]
    figure, axes = figures.new(1, 2, figsize=(9, 3.6))
    for axis, key, label in zip(
        axes[0],
        ("cpu_s", "peak_mb"),
        ("CPU seconds per row", "largest memory, MB"),
        strict=True,
    ):
        for (name, marker), size in zip(
            zip(NAMES.values(), "osD", strict=True), (8, 6, 4), strict=True
        ):
            own = [row for row in rows if row["system"] == name]
            axis.plot(
                [int(row["length"]) for row in own],
                [float(row[key]) for row in own],
                f"{marker}-",
                ms=size,
                label=name,
            )
        axis.set(xlabel="tokens", ylabel=label, xscale="log")
        lengths = sorted({int(row["length"]) for row in rows})
        axis.set_xticks(lengths, [f"{n:,}" for n in lengths])
        axis.minorticks_off()
        axis.yaxis.set_major_formatter("{x:,g}")
    seconds, memory = axes[0]
    seconds.set_yscale("log")
    # Powers of ten alone would leave an axis of less than one unlabelled.
    seconds.yaxis.set_major_locator(ticker.LogLocator(subs=(1, 1.5, 2, 3, 5)))
    seconds.yaxis.set_major_formatter("{x:,g}")
    seconds.minorticks_off()
    memory.set_ylim(bottom=0)
    seconds.legend()
    rounds = sorted({int(row["rounds"]) for row in rows})
    figures.caption(
        figure,
        "Points: median of the seconds and largest memory of "
        f"n = {' to '.join(map(str, rounds))} rows. No bars.",
        "python -m benchmarks.long_rows",
    )
    return figures.save(figure, os.path.join(folder, "long_rows"))


def main() -> None:
    """Measures, prints and writes, or draws a table that was written."""
    files.make_directory(FLAGS.output_dir)
    if FLAGS.drawn_from:
        with open(FLAGS.drawn_from, encoding="utf-8", newline="") as f:
            lines = (line for line in f if not line.startswith("#"))
            table = list(csv.reader(lines, delimiter="\t"))
        if not table or table[0] != list(COLUMNS):
            raise UserError(
                f"--drawn_from={FLAGS.drawn_from}: wanted a long_rows.tsv that "
                "this command wrote, found other columns"
            )
        print(f"wrote {', '.join(draw(table, FLAGS.output_dir))}")
        return
    options = BenchOptions(
        suites=("long_rows",),
        rounds=FLAGS.rounds,
        layers=FLAGS.layers,
        quick=FLAGS.quick,
    )
    all_rows = []
    for title, rows in suites.run("long_rows", options):
        print(f"\n{title}\n{harness.table(rows)}", flush=True)
        all_rows.extend(rows)
    path = os.path.join(FLAGS.output_dir, "long_rows.tsv")
    table = numbers(all_rows)
    files.write_text(path, "".join("\t".join(line) + "\n" for line in table))
    for written in (path, *draw(table, FLAGS.output_dir)):
        print(f"wrote {written}")


if __name__ == "__main__":
    flags.DEFINE_string("output_dir", None, "Folder to write.", required=True)
    flags.DEFINE_integer("rounds", 5, "Rows per system and length.", 1)
    flags.DEFINE_integer("layers", 3, "Layers of each kind.", 1)
    flags.DEFINE_string("drawn_from", "", "A table: draw it, measure nothing.")
    flags.DEFINE_bool("quick", False, "Up to 1,024 tokens only.")
    app.run(main)
