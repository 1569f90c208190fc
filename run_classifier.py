"""Fine-tunes, evaluates, predicts and exports classification and regression.

    python run_classifier.py --task_name=mnli --data_dir=GLUE/MNLI \\
        --init_checkpoint=xlnet_cased_L-24_H-1024_A-16 --recipe=mnli \\
        --model_dir=OUT --do_train --do_eval --do_predict --do_export

See docs/guides/tasks/classification.md. TensorFlow is imported after the flags are parsed:
the processes that make features import this file and do without it.
"""

from flags import app
from flags.tasks import classifier_flags


def main() -> None:
    """Reads the flags and runs the task."""
    fields = classifier_flags.read()

    from data.finetuning.classifier.ranked import make_task
    from serving import export
    from training.finetuning import command

    command.run(make_task, classifier_flags.read, fields, export)


if __name__ == "__main__":
    classifier_flags.define()
    app.run(main)
