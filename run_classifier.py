"""Fine-tunes, evaluates, predicts and exports classification and regression.

    python run_classifier.py --task_name=mnli --data_dir=GLUE/MNLI \\
        --init_checkpoint=xlnet_cased_L-24_H-1024_A-16 --recipe=mnli \\
        --model_dir=OUT --do_train --do_eval --do_predict --do_export

See docs/guides/tasks/classification.md.
"""

from data.finetuning import task_settings
from data.finetuning.options import ClassifierDataOptions
from flags import app
from flags.tasks.task_command import ClassifierCommand

COMMAND = ClassifierCommand(
    task_settings.CLASSIFIER,
    ClassifierDataOptions,
    "data.finetuning.classifier.ranked:make_task",
    max_seq_length=128,
)

if __name__ == "__main__":
    COMMAND.define()
    app.run(COMMAND.main)
