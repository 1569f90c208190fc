"""Command: the picture of a study from a table of its values.

    python -m studies.figure --study=results --output_dir=OUT \\
        --values=docs/measured/results_table.tsv

Runs nothing. The table is the `table.tsv` that `studies.run` wrote; the rates of
targets are read from the .md beside it, where the study has some.
"""

from absl import flags

from common import files
from common.errors import UserError
from flags import app
from studies.folders import local_folder
from studies.kinds import registry
from studies.runner import study_file
from studies.runner.study import Study

FLAGS = flags.FLAGS


def main() -> None:
    """Reads the table and draws.

    Raises:
      UserError: there is nothing to draw.
    """
    places = dict.fromkeys(("out", "data", "text", "start"), "-")
    options = registry.load(study_file.path_of(FLAGS.study), places)
    folder = local_folder(FLAGS.output_dir)
    runner = registry.runner_of(folder, options, only_read=True)
    paths = []
    if isinstance(runner, Study):
        files.make_directory(folder)
        paths = runner.draw(runner.read_rows(FLAGS.values))
    if not paths:
        raise UserError(f"--study={FLAGS.study} has no picture of its table")
    for path in paths:
        print(f"wrote {path}")


def define() -> None:
    """Registers the flags."""
    flags.DEFINE_string("study", "ablation", "As of `studies.run`.")
    flags.DEFINE_string("values", None, "TSV of values.", required=True)
    flags.DEFINE_string("output_dir", None, "Takes the picture.", required=True)


if __name__ == "__main__":
    define()
    app.run(main)
