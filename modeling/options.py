"""Options of the commands `modeling.*`, frozen."""

import dataclasses
from typing import Any

from common.checks import one_of, within
from common.weights_line import AUTO, CHECKPOINT_CHOICES


@dataclasses.dataclass(frozen=True)
class ConvertOptions:
    """Options of `modeling.convert_checkpoint`.

    Attributes:
      from_format: "tf1", "hf", "native" or "torch" (a `state_dict`).
      to_format: one of the first three.
      input: checkpoint to read.
      output: prefix for tf1, new folder for native and hf.
      config: configuration file to use; "" = the one beside the input.
      head: which head to take where there are several; "" = the only one.
      grow_to: configuration of a larger model of the same kind, which begins
        with the input's weights tiled from the middle; "" = no other size.
      labels: names of the outputs for "hf"; () = what the input's
        configuration says.
      task: head by the input's task.json, for "hf"; "" = there is none.
      head_options: of that head (`summary_type`, ...); None = not known.
      checkpoint_choice: where `input` is a folder, one of
        `CHECKPOINT_CHOICES`.
    """

    from_format: str
    to_format: str
    input: str
    output: str
    config: str = ""
    head: str = ""
    grow_to: str = ""
    labels: tuple[str, ...] = ()
    task: str = ""
    head_options: dict[str, Any] | None = None
    checkpoint_choice: str = AUTO

    def __post_init__(self):
        one_of(self, checkpoint_choice=CHECKPOINT_CHOICES)


@dataclasses.dataclass(frozen=True)
class ExplainOptions:
    """Options of `modeling.explain_permutation`.

    Attributes:
      text: the sentence.
      order: factorization order, places from 1.
      split: "words" or "pieces".
      spiece_model_file: for "pieces".
      output: picture to draw, or "".
      view: "masks", or the graph of the layers: "joint" or "split".
      stream: of the graph: "content", "query" or "both".
      n_layer, memory: of the graph: layers, and slots before the segment.
      partial: of the graph: so many targets, the last of the order; 0 = all.
    """

    text: str
    order: tuple[int, ...]
    split: str = "words"
    spiece_model_file: str = ""
    output: str = ""
    view: str = "masks"
    stream: str = "both"
    n_layer: int = 2
    memory: int = 0
    partial: int = 0


@dataclasses.dataclass(frozen=True)
class DependencyOptions:
    """Options of `modeling.explain_dependencies`.

    Attributes:
      text: the sentence.
      targets: words of it or places from 1, in the order of prediction.
    """

    text: str = "New York is a city"
    targets: tuple[str, ...] = ("New", "York")


@dataclasses.dataclass(frozen=True)
class AverageOptions:
    """A mean of checkpoints.

    Attributes:
      model_dir: of a run.
      output: new model folder.
      last: so many of its newest checkpoints.

    Raises:
      UserError: `last` is not positive.
    """

    model_dir: str
    output: str
    last: int = 5

    def __post_init__(self):
        within(self, ">= 1", "last")
