"""Trains one encoder on several classification tasks by turns.

    python run_multitask.py --task_name=mnli,sst-2,qnli,qqp --data_dir=GLUE \\
        --init_checkpoint=xlnet_cased_L-24_H-1024_A-16 --model_dir=OUT \\
        --do_train --do_eval
    python run_multitask.py --schedule=paper --data_dir=GLUE \\
        --init_checkpoint=xlnet_cased_L-24_H-1024_A-16 --model_dir=OUT \\
        --do_train --do_eval --do_predict

See docs/multitask.md. TensorFlow is imported after the flags are parsed: the
processes that make features import this file and do without it.
"""

from flags import app, multitask_flags


def main() -> None:
    """Reads the flags and runs the tasks, or the paper's schedule."""
    fields = multitask_flags.read()

    from serving.export import export_model
    from training.finetuning import schedule
    from training.finetuning.multitask_command import MultiTaskCommand

    command = MultiTaskCommand(multitask_flags.read, export_model)
    if not fields["settings"].schedule:
        command.together(fields)
        return
    options = fields["options"]
    home = options.run.model_dir
    finished = schedule.run_paper(
        home, options.run.init_checkpoint, command.joint, command.alone
    )
    if finished and options.do_predict:
        schedule.write_submission(home)


if __name__ == "__main__":
    multitask_flags.define()
    app.run(main)
