"""Command: rows that are pretrained, tuned and evaluated with several seeds.

    python -m studies.run --output_dir=OUT --input_glob='text/*.txt' \\
        --data_dir=DATA                      # studies/options/ablation.toml
    python -m studies.run --study=encoders --output_dir=OUT --tasks=demo
    python -m studies.run --study=mine.toml --output_dir=OUT --table

A study is one file: XLNet's Table 6 and four rows more (`ablation`), four
encoders from one text (`encoders`), the Transformer-XL paper's Tables 5 and 8
(`language_model`), settings that leave the unigram plateau (`plateau`). It
pretrains every row with every seed, tunes every task from it with every seed,
and writes, after each seed of pretraining, `table.md`, `results.json`,
`table.tsv` and, where it names a row to compare with, `figure5.png` (and .svg). Rows whose records are made with the same flags
share them; P grows until a row's measured rate of targets is the wanted one
within half a per cent. Where a task has a grid of flags to search, every row is
tuned at all of its points and its best one counts. Every job ends in a
`result.json`: killed at any moment, the same command goes on, and a job that
fails is a line of the table; `jobs.json` takes what is done to another machine
(`--known`). Hours are printed before the start, from measured steps; `--table`
runs nothing, also beside a run. See docs/explanation/ablation.md.
"""

import os

from absl import flags

from flags import app
from studies.runner import jobs, known_jobs, study_figure, study_report
from studies.runner.seed_table import Row
from studies.runner.study import Study
from studies.runner.study_file import chosen, load, path_of

FLAGS = flags.FLAGS


def main() -> None:
    """Runs what is missing and writes the report."""
    folder = os.path.abspath(FLAGS.output_dir)
    text = FLAGS.input_glob or os.path.join(folder, "corpus", "pretrain.txt")
    places = {"out": folder, "data": FLAGS.data_dir, "text": text}
    options = load(path_of(FLAGS.study), places)
    if FLAGS.drawn_from:
        os.makedirs(folder, exist_ok=True)
        rows = study_figure.read_rows(FLAGS.drawn_from, options)
        stem = os.path.join(folder, "figure5")
        command = study_report.COMMAND
        for path in study_figure.draw(stem, options, rows, command):
            print(f"wrote {path}")
        return
    if FLAGS.tasks:
        options = chosen(options, FLAGS.tasks)
    with known_jobs.opened(folder, FLAGS.known, FLAGS.table) as mine:
        study = Study(folder, options, FLAGS.table, FLAGS.workers)

        def report(rows: list[Row]) -> None:
            if mine:
                known_jobs.write(study, study.listed)
                paths = study_report.write(
                    folder, options, rows, study.searches()
                )
                print(f"wrote {', '.join(paths)}")

        rows = study.run(report)
    print(study_report.text(options, rows, study.searches()))
    print(f"{study.hours():.2f} hours of jobs in {folder}")


def define() -> None:
    """Registers the flags."""
    jobs.define()
    flags.DEFINE_string(
        "study",
        "ablation",
        "ablation, encoders, language_model, plateau, or a TOML file of rows and "
        "tasks.",
    )
    flags.DEFINE_string(
        "input_glob", "", "{text} in the file; default: its [corpus]."
    )
    flags.DEFINE_string("data_dir", "", "{data} in the file: tasks' sets.")
    flags.DEFINE_list("tasks", [], "Of the file; default: all.")
    known_jobs.define()
    flags.DEFINE_string(
        "drawn_from", "", "Only draw the picture of TABLE, its .tsv and .md."
    )


if __name__ == "__main__":
    define()
    app.run(main)
