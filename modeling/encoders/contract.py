"""What every encoder offers, so that heads, training and serving need no names.

An encoder is a folder here (its configuration, its model) and a row in
`modeling.encoders.registry`. Letters: B batch, T length, D model, L layers.
"""

import dataclasses
from typing import Any, ClassVar, NamedTuple, Protocol

import tensorflow as tf

from modeling.ops import saving


class EncoderOutput(NamedTuple):
    """Result of an encoder's call; None where there is nothing.

    Attributes:
      sequence_output: [B, T, D], content stream.
      query_output: [B, P, D] ([B, T, D] without target positions).
      new_memory: tuple of L tensors [B, M, D], without gradient.
      new_memory_length: int32 [B], valid slots (at the right end).
      hidden_states: tuple of L + 1 tensors [B, T, D], on request.
    """

    sequence_output: tf.Tensor
    query_output: tf.Tensor | None = None
    new_memory: tuple[tf.Tensor, ...] | None = None
    new_memory_length: tf.Tensor | None = None
    hidden_states: tuple[tf.Tensor, ...] | None = None


class EncoderConfig(Protocol):
    """The architecture of an encoder: a frozen, validated dataclass.

    Attributes:
      model_type: key of `registry.ENCODERS`; in files that name one.
      vocab_size: V.
      d_model: D.
      n_layer: L.
      dropout: rate that heads use, too.
      mem_len: M; None or 0 = no memory.
      extra: unknown keys of the file, written back unchanged.
    """

    model_type: ClassVar[str]
    vocab_size: int
    d_model: int
    n_layer: int
    dropout: float
    mem_len: int | None
    extra: dict[str, Any]

    def replace(self, **changes: Any) -> "EncoderConfig":
        """A copy with some fields changed."""
        ...

    def architecture(self) -> dict[str, Any]:
        """The fields that weights or memory depend on; the others may change."""
        ...

    def with_memory(self, length: int | None) -> "EncoderConfig":
        """A copy that keeps all of its last `length` inputs; None = none."""
        ...

    def to_dict(self) -> dict[str, Any]:
        """Every field by name."""
        ...

    @classmethod
    def from_dict(cls, value: dict[str, Any]) -> "EncoderConfig":
        """Reads fields by name; unknown ones go to `extra`."""
        ...

    def to_json(self) -> str:
        """The content of the configuration file."""
        ...


@dataclasses.dataclass(frozen=True)
class Capabilities:
    """What an encoder can do; what needs more stops with one line.

    Attributes:
      memory: takes and gives the memory of segments.
      query_stream: has a second stream for targets.
      directions: 2 when rows can be read backward.
      layout: "cls_last" (A SEP B SEP CLS, padded on the left) or "cls_first"
        (CLS A SEP B SEP, padded on the right).
    """

    memory: bool
    query_stream: bool
    directions: int
    layout: str


class Encoder(saving.Model):
    """Base of the encoders; `call` takes ids [B, T] and gives `EncoderOutput`.

    Attributes:
      scope: first part of its variables' canonical names.
      options: constructor arguments besides the configuration.
      may_be_absent: variables below `scope` that checkpoints of models which
        never used them lack; they become zeros.
    """

    scope: ClassVar[str]
    options: ClassVar[tuple[str, ...]] = ()
    may_be_absent: ClassVar[tuple[str, ...]] = ()

    def variable_paths(self) -> dict[str, str]:
        """Names below `scope` -> attribute paths."""
        raise NotImplementedError
