"""`python -m modeling.average_checkpoints`: the mean of a run's last ones."""

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
