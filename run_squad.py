"""Fine-tunes, evaluates, predicts and exports SQuAD 1.1 and 2.0.

    python run_squad.py --train_file=train-v2.0.json \\
        --predict_file=dev-v2.0.json --recipe=squad \\
        --init_checkpoint=xlnet_cased_L-24_H-1024_A-16 --model_dir=OUT \\
        --do_train --do_eval --do_export

See docs/guides/tasks/squad.md. TensorFlow is imported after the flags are parsed: the
processes that make features import this file and do without it.
"""

from flags import app
from flags.tasks import squad_flags


def main() -> None:
    """Reads the flags and runs the task."""
    fields = squad_flags.read()

    from data.finetuning.squad.task import SquadTask
    from serving import export
    from training.finetuning import command

    command.run(SquadTask, squad_flags.read, fields, export)


if __name__ == "__main__":
    squad_flags.define()
    app.run(main)
