"""Command: a study: rows that are trained with several seeds, and their table.

    python -m studies.run --output_dir=OUT --input_glob='text/*.txt' \\
        --data_dir=DATA                      # studies/options/ablation.toml
    python -m studies.run --study=encoders --output_dir=OUT --tasks=demo
    python -m studies.run --study=results --output_dir=OUT --data_dir=DATA \\
        --init_checkpoint=PRETRAINED
    python -m studies.run --study=mine.toml --output_dir=OUT --table

A study is one file: XLNet's Table 6 and four rows more (`ablation`), four
encoders from one text (`encoders`), our defaults beside the original's objective
(`learning`), the Transformer-XL paper's Tables 5 and 8 (`language_model`),
settings that leave the unigram plateau (`plateau`), a search for the recipe of
small models (`recipe`), what pretraining adds to ten tasks (`results`), tasks
from released weights (`released`), GLUE alone and joint (`multitask`). It pretrains every row with every seed, or takes the weights given,
tunes every task from them with every seed, and writes, after each seed,
`table.md`, `results.json`, `table.tsv` and the picture of its kind. Rows whose
records are made with the same flags share them; P grows until a row's measured
rate of targets is the wanted one within half a per cent. Where a task has a grid
of flags to search, every row is tuned at all of its points and its best one
counts. Every job ends in a `result.json`: killed at any moment, the same command
goes on, and a job that fails is a line of the table; `jobs.json` takes what is
done to another machine (`--known`). Hours are printed before the start, from
measured steps; `--table` runs nothing, also beside a run. See
docs/explanation/ablation.md.
"""

import os
from typing import Any

from absl import flags

from common.errors import UserError
from flags import app
from studies.folders import local_folder
from studies.kinds import registry
from studies.runner import known_jobs, study_file
from studies.runner.seed_table import Row

FLAGS = flags.FLAGS


def read_options(folder: str) -> Any:
    """Those of the file, with what the flags give.

    Raises:
      UserError: the file is wrong, or wants a flag that is not given.
    """
    text = FLAGS.input_glob or os.path.join(folder, "corpus", "pretrain.txt")
    start = FLAGS.init_checkpoint and os.path.abspath(FLAGS.init_checkpoint)
    wanted = {"data": ("data_dir", FLAGS.data_dir)}
    wanted["start"] = ("init_checkpoint", start)
    places = {
        name: value or f"{{{name}}}" for name, (_, value) in wanted.items()
    }
    path = study_file.path_of(FLAGS.study)
    options = registry.load(path, places | {"out": folder, "text": text})
    if FLAGS.tasks:
        options = options.chosen(FLAGS.tasks)
    for name, (flag, value) in wanted.items():
        if not value and f"{{{name}}}" in repr(options):
            raise UserError(f"{path} has {{{name}}}: give --{flag}")
    return options


def main() -> None:
    """Runs what is missing and writes the report."""
    folder = local_folder(FLAGS.output_dir)
    options = read_options(folder)
    # The text may lie below the sets.
    places = {"text": FLAGS.input_glob, "data": FLAGS.data_dir}
    places = {name: place for name, place in places.items() if place}
    with known_jobs.opened(folder, FLAGS.known, FLAGS.table, places) as mine:
        runner = registry.runner_of(folder, options, FLAGS.table, FLAGS.workers)

        def report(rows: list[Row]) -> None:
            if mine:
                done = [*runner.timings, *runner.listed]
                known_jobs.write(runner, done, places)
                print(f"wrote {', '.join(runner.write(rows))}")

        rows = runner.run(report)
    print(runner.text(rows))
    print(f"{runner.hours():.2f} hours of jobs in {folder}")


def define() -> None:
    """Registers the flags."""
    names = ", ".join(study_file.names())
    flags.DEFINE_string("study", "ablation", f"{names}, or a TOML file.")
    flags.DEFINE_string("output_dir", None, "Folder of jobs.", required=True)
    flags.DEFINE_string("data_dir", "", "{data} in the file: tasks' sets.")
    flags.DEFINE_string(
        "init_checkpoint", "", "{start} in the file: weights to begin with."
    )
    flags.DEFINE_string(
        "input_glob", "", "{text} in the file; default: its [corpus]."
    )
    flags.DEFINE_list("tasks", [], "Of the file; default: all.")
    flags.DEFINE_integer("workers", 1, "Jobs at a time, sharing the cores.", 1)
    flags.DEFINE_string(
        "known", "", "jobs.json of another folder: what it has is not run."
    )
    flags.DEFINE_bool("table", False, "Run nothing: the table of what is done.")


if __name__ == "__main__":
    define()
    app.run(main)
