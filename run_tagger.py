"""Fine-tunes, evaluates, predicts and exports tagging: a label per token.

    python run_tagger.py --data_dir=NER --init_checkpoint=PRETRAINED \\
        --model_dir=OUT --do_train --do_eval --do_predict --do_export

See docs/guides/tasks/tagging.md.
"""

from data.finetuning import task_settings
from data.finetuning.options import TaggingDataOptions
from flags import app
from flags.tasks.task_command import TaggerCommand

COMMAND = TaggerCommand(
    task_settings.TAGGER,
    TaggingDataOptions,
    "data.finetuning.tagging.task:TaggingTask",
    max_seq_length=128,
    eval_batch_size=32,
)

if __name__ == "__main__":
    COMMAND.define()
    app.run(COMMAND.main)
