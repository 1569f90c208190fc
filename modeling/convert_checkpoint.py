"""Command: converts checkpoints, from and to the original's and Hugging Face's.

    python -m modeling.convert_checkpoint --from_format=tf1 --to_format=hf \\
        --input=xlnet_cased_L-12_H-768_A-12/xlnet_model.ckpt --output=base_hf
    python -m modeling.convert_checkpoint --from_format=native --to_format=hf \\
        --input=MODEL_DIR --output=FOLDER

Prints a line per variable, and copies vocabulary and configuration. Nothing that
exists is replaced.
"""

import dataclasses
import functools

from common.contract import task_spec
from common.heads import ENCODER
from common.vocabularies import joined_texts, vocabulary
from data.text.released import hf_folder
from flags import app, flag_values
from modeling.command_options import ConvertOptions
from modeling.encoders.registry import spec_of


def main() -> None:
    """Converts and prints what became of every variable.

    A fine-tuned folder's task.json names its labels and says how it pools.
    """
    for line in convert(flag_values.build(ConvertOptions)):
        print(line)


def convert(options: ConvertOptions) -> list[str]:
    """`conversion.convert` with tokenizers, and the task of the input."""
    from modeling.checkpoints import conversion

    folder = task_spec.find_folder(options.input)
    if options.head == ENCODER:
        folder = None
    longest = None
    spec = task_spec.TaskSpec.read(folder) if folder else None
    # What came of a released folder goes back as its configuration says.
    released = options.from_format == "native" and (
        spec and spec.data_options.get("released")
    )
    if spec and options.to_format == "hf" and not released:
        longest = spec.max_seq_length
        options = dataclasses.replace(
            options,
            labels=spec.labels,
            task=spec.head,
            head_options=spec.head_options,
        )
    layout = spec.data_options.get("layout", "") if spec else ""
    write = functools.partial(write_text, longest=longest, layout=layout)
    return conversion.convert(
        options, write, functools.partial(write_task, spec)
    )


def write_task(spec: task_spec.TaskSpec | None, folder: str, head: str) -> None:
    """A `conversion.TaskWriter`; another head's task is left out."""
    # Both have the same weights.
    several = head == "classification" and spec and spec.head == "multi_label"
    if spec and (several or spec.head == head):
        spec.write(folder)


def write_text(
    folder, config, head, longest: int | None = None, layout: str = ""
):
    """A `conversion.TextWriter`.

    Of `longest` rows, None = as it has places. Their `layout` is a task's, "" =
    as the vocabulary says.
    """
    kinds = getattr(config, "type_vocab_size", None)
    places = getattr(config, "max_position_embeddings", None)
    path = vocabulary.find(folder)
    if not layout:
        layout = spec_of(config.model_type).capabilities.layout
        if path:
            read = vocabulary.read(path)
            layout = joined_texts.layout_of(read, layout, kinds)
    symbols, lines = hf_folder.write(
        folder,
        layout,
        token_types=config.model_type == "xlnet" or bool(kinds),
        max_length=longest or places,
        reads_mask=head == "pretraining",
        tuned=longest is not None,
    )
    return dataclasses.asdict(symbols) if symbols else {}, lines


if __name__ == "__main__":
    flag_values.define(ConvertOptions)
    app.run(main)
