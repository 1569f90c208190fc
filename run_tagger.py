"""Fine-tunes, evaluates, predicts and exports tagging: a label per token.

    python run_tagger.py --data_dir=NER --init_checkpoint=PRETRAINED \\
        --model_dir=OUT --do_train --do_eval --do_predict --do_export

See docs/tagging.md. TensorFlow is imported after the flags are parsed: the
processes that make features import this file and do without it.
"""

import functools

from data.finetuning import task_settings
from flags import app, tagger_flags, tuning_flags


def main() -> None:
    """Reads the flags, builds the task's job and runs it."""
    read = functools.partial(
        tuning_flags.read,
        "run_tagger.py",
        task_settings.TAGGER,
        lambda _: tagger_flags.from_flags(),
    )
    fields = read()

    from serving.export import check_exportable, export_model
    from training.finetuning.command import Command, Request
    from training.finetuning.tagging import TaggingJob

    command = Command(
        lambda **changes: Request(**read(**changes)),
        TaggingJob,
        export_model,
        check_exportable,
    )
    command(Request(**fields))


if __name__ == "__main__":
    tagger_flags.define()
    app.run(main)
