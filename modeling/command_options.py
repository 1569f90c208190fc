"""Options of the commands `modeling.*`, frozen."""

import dataclasses
from typing import Any

from common.heads import ENCODER, with_weights
from common.settings import (
    CONFIG,
    FOLDER,
    REQUIRED,
    VOCABULARY,
    Checked,
    setting,
)
from common.weights.weights_line import choice_setting

FORMATS = ("tf1", "hf", "native")


@dataclasses.dataclass(frozen=True)
class ConvertOptions(Checked):
    """Options of `modeling.convert_checkpoint`."""

    from_format: str = setting(
        REQUIRED,
        "What --input is: the original's layout, a Hugging Face folder, a "
        "checkpoint of this project, or torch: the file of a state_dict "
        "(Transformer-XL's PyTorch release), read without PyTorch.",
        choices=(*FORMATS, "torch"),
    )
    to_format: str = setting(
        REQUIRED, "What --output becomes.", choices=("tf1", "hf", "native")
    )
    input: str = setting(
        REQUIRED,
        "Checkpoint to read: a folder, a prefix or an .index file.",
        released=FOLDER,
    )
    output: str = setting(
        REQUIRED,
        "Where to write: a checkpoint prefix for tf1, else a new folder.",
    )
    config: str = setting(
        "",
        "Configuration file; the one beside --input if not given.",
        released=CONFIG,
    )
    head: str = setting(
        "",
        "Which head to take where --input has several.",
        choices=("", ENCODER, *with_weights()),
    )
    grow_to: str = setting(
        "",
        "config.json of a larger model of the same kind (bert, albert, "
        "modernbert) that begins with these weights, tiled from the middle.",
    )
    # names of the outputs for "hf"; () = what the input's configuration says
    labels: tuple[str, ...] = ()
    # head by the input's task.json, for "hf"; "" = there is none
    task: str = ""
    # of that head (`summary_type`, ...); None = not known
    head_options: dict[str, Any] | None = None
    checkpoint_choice: str = choice_setting()


@dataclasses.dataclass(frozen=True)
class ExplainOptions(Checked):
    """Options of `modeling.explain_permutation`."""

    text: str = setting(REQUIRED, "The sentence to explain.")
    order: tuple[int, ...] = setting(
        REQUIRED,
        "Factorization order: the places in the text, from 1, in the order "
        "in which they are predicted, such as 3,2,4,1.",
    )
    split: str = setting(
        "words",
        "Cut the text at blanks or into SentencePiece pieces.",
        choices=("words", "pieces"),
    )
    spiece_model_file: str = setting(
        "", "SentencePiece file, for --split=pieces.", released=VOCABULARY
    )
    output: str = setting("", "Also draw it, as PNG or SVG by the ending.")
    view: str = setting(
        "masks",
        "The masks as matrices; or the layers as a graph, all in one "
        "(joint) or a view of each last node (split), as Figures 3 and 4 of"
        " the paper.",
        choices=("masks", "joint", "split"),
    )
    stream: str = setting(
        "both", "Graph: which stream.", choices=("content", "query", "both")
    )
    n_layer: int = setting(2, "Graph: layers.")
    memory: int = setting(0, "Graph: slots of memory.")
    partial: int = setting(
        0, "Graph: predict only this many, the last of the order; 0 = all."
    )


@dataclasses.dataclass(frozen=True)
class DependencyOptions:
    """Options of `modeling.explain_dependencies`."""

    text: str = setting("New York is a city", "The sentence, in words.")
    targets: tuple[str, ...] = setting(
        ("New", "York"),
        "Words to predict, or their places from 1, in the order in which "
        "they are predicted.",
    )


@dataclasses.dataclass(frozen=True)
class AverageOptions(Checked):
    """A mean of checkpoints; UserError where `last` is not positive."""

    model_dir: str = setting(
        REQUIRED, "Folder of a run with several checkpoints."
    )
    output: str = setting(REQUIRED, "New model folder.")
    last: int = setting(5, "Number of its newest checkpoints.", bounds=">= 1")
