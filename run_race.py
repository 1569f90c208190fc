"""Fine-tunes, evaluates, predicts and exports RACE.

    python run_race.py --data_dir=RACE --recipe=race --model_dir=OUT \\
        --init_checkpoint=xlnet_cased_L-24_H-1024_A-16 --do_train --do_eval

See docs/race.md. TensorFlow is imported after the flags are parsed: the
processes that make features import this file and do without it.
"""

import functools

from data.finetuning import task_settings
from flags import app, race_flags, tuning_flags


def main() -> None:
    """Reads the flags, builds the task's job and runs it."""
    read = functools.partial(
        tuning_flags.read,
        "run_race.py",
        task_settings.RACE,
        lambda _: race_flags.from_flags(),
    )
    fields = read()

    from serving.export import check_exportable, export_model
    from training.finetuning.command import Command, Request
    from training.finetuning.race import RaceJob

    command = Command(
        lambda **changes: Request(**read(**changes)),
        RaceJob,
        export_model,
        check_exportable,
    )
    command(Request(**fields))


if __name__ == "__main__":
    race_flags.define()
    app.run(main)
