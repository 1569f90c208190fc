"""Fine-tunes, evaluates, predicts and exports tagging: a label per token.

    python run_tagger.py --data_dir=NER --init_checkpoint=PRETRAINED \\
        --model_dir=OUT --do_train --do_eval --do_predict --do_export

See docs/guides/tasks/tagging.md. TensorFlow is imported after the flags are parsed: the
processes that make features import this file and do without it.
"""

from flags import app
from flags.tasks import tagger_flags


def main() -> None:
    """Reads the flags and runs the task."""
    fields = tagger_flags.read()

    from data.finetuning.tagging.task import TaggingTask
    from serving import export
    from training.finetuning import command

    command.run(TaggingTask, tagger_flags.read, fields, export)


if __name__ == "__main__":
    tagger_flags.define()
    app.run(main)
