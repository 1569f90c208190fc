"""Trains one encoder on several classification tasks by turns.

    python run_multitask.py --task_name=mnli,sst-2,qnli,qqp --data_dir=GLUE \\
        --init_checkpoint=xlnet_cased_L-24_H-1024_A-16 --model_dir=OUT \\
        --do_train --do_eval
    python run_multitask.py --schedule=paper --data_dir=GLUE \\
        --init_checkpoint=xlnet_cased_L-24_H-1024_A-16 --model_dir=OUT \\
        --do_train --do_eval --do_predict

See docs/guides/tasks/multitask.md.
"""

from flags import app
from flags.tasks import multitask_flags


def main() -> None:
    """Reads the flags and runs the tasks, or the paper's schedule."""
    fields = multitask_flags.read()

    from serving import export
    from training.finetuning import multitask_command

    multitask_command.run(multitask_flags.read, fields, export)


if __name__ == "__main__":
    multitask_flags.define()
    app.run(main)
