"""Fine-tunes, evaluates, predicts and exports classification and regression.

    python run_classifier.py --task_name=mnli --data_dir=GLUE/MNLI \\
        --init_checkpoint=xlnet_cased_L-24_H-1024_A-16 --recipe=mnli \\
        --model_dir=OUT --do_train --do_eval --do_predict --do_export

See docs/classification.md. TensorFlow is imported after the flags are parsed:
the processes that make features import this file and do without it.
"""

import functools

from data.finetuning import task_settings
from flags import app, classifier_flags, tuning_flags


def main() -> None:
    """Reads the flags, builds the task's job and runs it."""
    read = functools.partial(
        tuning_flags.read,
        "run_classifier.py",
        task_settings.CLASSIFIER,
        classifier_flags.from_flags,
    )
    fields = read()

    from serving.export import check_exportable, export_model
    from training.finetuning.classifier_ranking import make_job
    from training.finetuning.command import Command, Request

    command = Command(
        lambda **changes: Request(**read(**changes)),
        make_job,
        export_model,
        check_exportable,
    )
    command(Request(**fields))


if __name__ == "__main__":
    classifier_flags.define()
    app.run(main)
