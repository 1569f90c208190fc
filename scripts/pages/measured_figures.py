"""Figures of the pages that are drawn from measured tables.

python -m scripts.pages.measured_figures    # writes docs/figures/small_hours.png

The other figures of measurements come from the commands that measure.
"""

import argparse
import os
import pathlib
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from common import figures  # noqa: E402
from scripts.pages import blocks  # noqa: E402

DOCS = ROOT / "docs"
FIGURES = DOCS / "figures"
COMMAND = "python -m scripts.pages.measured_figures"
_MARKERS = "os^"


def held_out() -> tuple[list[int], dict[str, list[float]]]:
    """(steps, text -> nats per target) of the pretrainings of an hour.

    Step 0 is left out: random weights are far above the rest.
    """
    path = DOCS / "measured/tables/small_hours.tsv"
    head, *rows = blocks.read_file(path)["an_hour"].rows
    kept = [(row[0].replace(",", ""), *row[1:]) for row in rows]
    kept = [row for row in kept if row[0].isdigit() and row[0] != "0"]
    curves = {
        name: [float(row[i].split()[0].strip("*")) for row in kept]
        for i, name in enumerate(head[1:], 1)
    }
    return [int(row[0]) for row in kept], curves


def draw_small_hours(stem: str) -> list[str]:
    """Held-out loss over steps, a line per pretraining; the files."""
    steps, curves = held_out()
    figure, ((axes,),) = figures.new(figsize=(8, 4.5))
    for marker, (name, losses) in zip(_MARKERS, curves.items(), strict=True):
        axes.plot(steps, losses, f"{marker}-", label=name)
    axes.set(xlabel="steps", ylabel="held-out loss, nats per target")
    axes.set_xticks(steps)
    axes.grid(alpha=0.3)
    axes.legend(title="text of the pretraining")
    figures.caption(
        figure,
        "n = 1 pretraining per line, seed 0. A point is an evaluation of 40 "
        "batches. No bars: one run each.",
        f"bash scripts/results.sh; drawn by {COMMAND}",
    )
    return figures.save(figure, stem)


def main() -> None:
    """Writes the PNG files of docs/figures."""
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    with tempfile.TemporaryDirectory() as folder:
        drawn = draw_small_hours(os.path.join(folder, "small_hours"))
        for path in map(pathlib.Path, drawn):
            if path.suffix == ".png":
                (FIGURES / path.name).write_bytes(path.read_bytes())


if __name__ == "__main__":
    main()
