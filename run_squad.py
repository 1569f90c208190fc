"""Fine-tunes, evaluates, predicts and exports SQuAD 1.1 and 2.0.

    python run_squad.py --train_file=train-v2.0.json \\
        --predict_file=dev-v2.0.json --recipe=squad \\
        --init_checkpoint=xlnet_cased_L-24_H-1024_A-16 --model_dir=OUT \\
        --do_train --do_eval --do_export

See docs/squad.md. TensorFlow is imported after the flags are parsed: the
processes that make features import this file and do without it.
"""

import functools

from data.finetuning import task_settings
from flags import app, squad_flags, tuning_flags


def main() -> None:
    """Reads the flags, builds the task's job and runs it."""
    read = functools.partial(
        tuning_flags.read,
        "run_squad.py",
        task_settings.SQUAD,
        lambda _: squad_flags.from_flags(),
    )
    fields = read()

    from serving.export import check_exportable, export_model
    from training.finetuning.command import Command, Request
    from training.finetuning.squad import SquadJob

    command = Command(
        lambda **changes: Request(**read(**changes)),
        SquadJob,
        export_model,
        check_exportable,
    )
    command(Request(**fields))


if __name__ == "__main__":
    squad_flags.define()
    app.run(main)
