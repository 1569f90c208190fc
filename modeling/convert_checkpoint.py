"""`python -m modeling.convert_checkpoint`: tf1, hf and native, both ways."""

from flags import app, convert_checkpoint_flags
from modeling.checkpoints import conversion


def main() -> None:
    """Converts and prints what became of every variable."""
    for line in conversion.convert(convert_checkpoint_flags.from_flags()):
        print(line)


if __name__ == "__main__":
    convert_checkpoint_flags.define()
    app.run(main)
