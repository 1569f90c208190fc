"""Command: the curves of `studies.results_table` from a table of its values.

    python -m studies.results_figure --output_dir=OUT \\
        --table=docs/measured/results_table.tsv

Runs nothing. The table is `table.tsv` of that command; of lines about the same
job the last one counts, so a second run can follow a first one. Writes
`curves.png` and `curves.svg`.
"""

import os

from absl import flags

from flags import app
from studies.runner import results_cells

FLAGS = flags.FLAGS


def main() -> None:
    """Reads the table and draws."""
    places = {"data": ""}
    options = results_cells.load(FLAGS.options, places)
    cells = results_cells.read_cells(FLAGS.table, options)
    os.makedirs(FLAGS.output_dir, exist_ok=True)
    stem = os.path.join(FLAGS.output_dir, "curves")
    for path in results_cells.draw(cells, options, stem):
        print(f"wrote {path}")


if __name__ == "__main__":
    flags.DEFINE_string("table", None, "TSV of values.", required=True)
    flags.DEFINE_string("output_dir", None, "Takes the figure.", required=True)
    flags.DEFINE_string("options", results_cells.OPTIONS, "TOML file of tasks.")
    app.run(main)
