"""`python -m modeling.average_checkpoints`: the mean of a run's last ones."""

from flags import app, average_flags


def main() -> None:
    """Averages and prints what became of it."""
    from modeling.checkpoints import averaging

    for line in averaging.average(average_flags.from_flags()):
        print(line)


if __name__ == "__main__":
    average_flags.define()
    app.run(main)
