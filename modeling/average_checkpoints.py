"""Command: the plain mean of the last checkpoints of a run.

    python -m modeling.average_checkpoints --model_dir=OUT --last=5 --output=MEAN

Evaluation, export and fine-tuning read MEAN as any other model folder.
"""

from flags import app, flag_values
from modeling.command_options import AverageOptions


def main() -> None:
    """Averages and prints what became of it."""
    from modeling.checkpoints import averaging

    for line in averaging.average(flag_values.build(AverageOptions)):
        print(line)


if __name__ == "__main__":
    flag_values.define(AverageOptions)
    app.run(main)
