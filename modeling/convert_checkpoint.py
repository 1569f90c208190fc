"""`python -m modeling.convert_checkpoint`: tf1, hf and native, both ways."""

import dataclasses
import functools

from common.contract import task_spec
from data.text.released import hf_folder
from flags import app, flag_values
from modeling.command_options import ConvertOptions
from modeling.encoders.registry import spec_of


def main() -> None:
    """Converts and prints what became of every variable.

    A fine-tuned folder's task.json names its labels and says how it pools.
    """
    from modeling.checkpoints import conversion

    options = flag_values.build(ConvertOptions)
    folder = task_spec.find_folder(options.input)
    longest = None
    if folder and options.to_format == "hf":
        spec = task_spec.TaskSpec.read(folder)
        longest = spec.max_seq_length
        options = dataclasses.replace(
            options,
            labels=spec.labels,
            task=spec.head,
            head_options=spec.head_options,
        )
    write = functools.partial(write_text, longest=longest)
    for line in conversion.convert(options, write):
        print(line)


def write_text(folder, config, head, longest: int | None = None):
    """A `conversion.TextWriter`; `longest` rows, None = as it has places."""
    kinds = getattr(config, "type_vocab_size", None)
    places = getattr(config, "max_position_embeddings", None)
    symbols, lines = hf_folder.write(
        folder,
        spec_of(config.model_type).capabilities.layout,
        token_types=config.model_type == "xlnet" or bool(kinds),
        max_length=longest or places,
        reads_mask=head == "pretraining",
        tuned=longest is not None,
    )
    return dataclasses.asdict(symbols) if symbols else {}, lines


if __name__ == "__main__":
    flag_values.define(ConvertOptions)
    app.run(main)
