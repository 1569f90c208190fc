"""Fine-tunes, evaluates, predicts and exports RACE.

    python run_race.py --data_dir=RACE --recipe=race --model_dir=OUT \\
        --init_checkpoint=xlnet_cased_L-24_H-1024_A-16 --do_train --do_eval

See docs/guides/tasks/race.md.
"""

from data.finetuning import task_settings
from data.finetuning.options import RaceDataOptions
from flags import app
from flags.tasks.task_command import TaskCommand

COMMAND = TaskCommand(
    task_settings.RACE,
    RaceDataOptions,
    "data.finetuning.race.task:RaceTask",
    max_seq_length=512,
    eval_batch_size=8,
)

if __name__ == "__main__":
    COMMAND.define()
    app.run(COMMAND.main)
