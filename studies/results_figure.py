"""Command: the curves of `studies.results_table` from a table of its values.

    python -m studies.results_figure --output_dir=OUT \\
        --table=docs/measured/results_table.tsv

Runs nothing. The table is `table.tsv` of that command; of lines about the same
job the last one counts, so a second run can follow a first one. Writes
`curves.png` and `curves.svg`.
"""

import csv
import os

from absl import flags

from flags import app
from studies import results_table
from studies.results_table import ALL, Cell, TableOptions

FLAGS = flags.FLAGS


def read_cells(path: str, options: TableOptions) -> list[Cell]:
    """The cells of a table of values, in the order of its lines.

    Args:
      path: tab-separated, with the columns task, labels, start, seed, value.
      options: the tasks, for what a metric is multiplied by.
    """
    cells: dict[tuple[str, int], Cell] = {}
    with open(path, encoding="utf-8", newline="") as f:
        for line in csv.DictReader(f, delimiter="\t"):
            labels = ALL if line["labels"] == "all" else int(line["labels"])
            name = line["task"]
            new = Cell(name, labels, {s: {} for s in options.starts}, {})
            cell = cells.setdefault((name, labels), new)
            value = options.tasks[name].scale * float(line["value"])
            cell.values[line["start"]][int(line["seed"])] = value
    return list(cells.values())


def main() -> None:
    """Reads the table and draws."""
    places = {"data": ""}
    options = results_table.load(FLAGS.options, places)
    cells = read_cells(FLAGS.table, options)
    os.makedirs(FLAGS.output_dir, exist_ok=True)
    stem = os.path.join(FLAGS.output_dir, "curves")
    for path in results_table.draw(cells, options, stem):
        print(f"wrote {path}")


if __name__ == "__main__":
    flags.DEFINE_string("table", None, "TSV of values.", required=True)
    flags.DEFINE_string("output_dir", None, "Takes the figure.", required=True)
    flags.DEFINE_string("options", results_table.OPTIONS, "TOML file of tasks.")
    app.run(main)
