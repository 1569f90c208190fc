"""Fine-tunes, evaluates, predicts and exports SQuAD 1.1 and 2.0.

    python run_squad.py --train_file=train-v2.0.json \\
        --predict_file=dev-v2.0.json --recipe=squad \\
        --init_checkpoint=xlnet_cased_L-24_H-1024_A-16 --model_dir=OUT \\
        --do_train --do_eval --do_export

See docs/guides/tasks/squad.md.
"""

from data.finetuning import task_settings
from data.finetuning.options import SquadDataOptions
from flags import app
from flags.tasks.task_command import TaskCommand

COMMAND = TaskCommand(
    task_settings.SQUAD,
    SquadDataOptions,
    "data.finetuning.squad.task:SquadTask",
    max_seq_length=512,
    eval_batch_size=32,
)

if __name__ == "__main__":
    COMMAND.define()
    app.run(COMMAND.main)
