"""Fine-tunes, evaluates, predicts and exports RACE.

    python run_race.py --data_dir=RACE --recipe=race --model_dir=OUT \\
        --init_checkpoint=xlnet_cased_L-24_H-1024_A-16 --do_train --do_eval

See docs/guides/tasks/race.md. TensorFlow is imported after the flags are parsed: the
processes that make features import this file and do without it.
"""

from flags import app
from flags.tasks import race_flags


def main() -> None:
    """Reads the flags and runs the task."""
    fields = race_flags.read()

    from data.finetuning.race.task import RaceTask
    from serving import export
    from training.finetuning import command

    command.run(RaceTask, race_flags.read, fields, export)


if __name__ == "__main__":
    race_flags.define()
    app.run(main)
