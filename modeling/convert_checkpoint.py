"""`python -m modeling.convert_checkpoint`: tf1, hf and native, both ways."""

import dataclasses

from data import task_spec
from flags import app, convert_checkpoint_flags
from modeling.checkpoints import conversion


def main() -> None:
    """Converts and prints what became of every variable.

    A fine-tuned folder's task.json names its labels and says how it pools.
    """
    options = convert_checkpoint_flags.from_flags()
    folder = task_spec.find_folder(options.input)
    if folder and options.to_format == "hf":
        spec = task_spec.TaskSpec.read(folder)
        options = dataclasses.replace(
            options,
            labels=spec.labels,
            task=spec.head,
            head_options=spec.head_options,
        )
    for line in conversion.convert(options):
        print(line)


if __name__ == "__main__":
    convert_checkpoint_flags.define()
    app.run(main)
