"""The base of all encoders and what their calls give.

Letters: B batch, T length, P predictions, D model, L layers, M memory length.
"""

from typing import ClassVar, NamedTuple

import tensorflow as tf

from modeling.encoders.contract import EncoderConfig
from modeling.encoders.registry import config_from_dict
from modeling.ops import saving
from modeling.ops.packing import Packing


class EncoderOutput(NamedTuple):
    """Result of an encoder's call; None where there is nothing."""

    sequence_output: tf.Tensor  # [B, T, D], content stream
    # [B, P, D] ([B, T, D] without target positions)
    query_output: tf.Tensor | None = None
    # tuple of L tensors [B, M, D], without gradient
    new_memory: tuple[tf.Tensor, ...] | None = None
    # int32 [B], valid slots (at the right end)
    new_memory_length: tf.Tensor | None = None
    # tuple of L + 1 tensors [B, T, D], on request
    hidden_states: tuple[tf.Tensor, ...] | None = None
    # of the embedding, in training: what a tied softmax reads, so that both
    # gradients of a table meet in one array
    tables: tuple[tf.Tensor, ...] | None = None

    def states_of(self, layer: int) -> tf.Tensor:
        """[B, T, D] of a layer, where `hidden_states` were asked for.

        0 = the embeddings, L or -1 = the last layer with the norm behind it,
        where there is one.
        """
        last = len(self.hidden_states) - 1
        if layer in (-1, last):
            return self.sequence_output
        return self.hidden_states[layer]


class Encoder(saving.Model):
    """Base of the encoders; `call` takes ids [B, T] and gives `EncoderOutput`.

    Attributes:
      scope: first part of its variables' canonical names.
      options: constructor arguments besides the configuration; every encoder
        takes `recompute`, see `modeling.ops.rematerialization`.
      may_be_absent: variables below `scope` that checkpoints of models which
        never used them lack; they become zeros.
    """

    scope: ClassVar[str]
    options: ClassVar[tuple[str, ...]] = ("recompute",)
    may_be_absent: ClassVar[tuple[str, ...]] = ()

    def packed_arguments(self, packing: Packing) -> dict[str, tf.Tensor]:
        """What `call` is told of packed rows: documents and their positions."""
        return {
            "documents": packing.documents(),
            "positions": packing.positions(),
        }

    def variable_paths(self) -> dict[str, str]:
        """Names below `scope` -> attribute paths."""
        raise NotImplementedError


class ConfiguredLayer(saving.Layer):
    """A layer that the encoder's `config`, or its `to_dict()`, describes."""

    def __init__(self, config: EncoderConfig | dict, **kwargs):
        super().__init__(**kwargs)
        self.config = config_from_dict(config)


class Sublayers(ConfiguredLayer):
    """A layer of layers below their own names, built in order of `parts`."""

    parts: ClassVar[tuple[str, ...]]

    def build(self, input_shape):
        for part in self.parts:
            with tf.name_scope(part):
                getattr(self, part).build(input_shape)
        super().build(input_shape)

    def variable_paths(self) -> dict[str, str]:
        """Canonical names below the layer's scope -> attribute paths."""
        paths = {}
        for part in self.parts:
            paths |= saving.paths_below(self, part, part)
        return paths


def with_memory(
    h: tf.Tensor, memory: tf.Tensor | None
) -> tuple[list[tf.Tensor], int | tf.Tensor]:
    """[memory [B, M, D] if any, h [B, T, D]] of one dtype, and T."""
    pieces = [h]
    if memory is not None:
        pieces.insert(0, tf.cast(memory, h.dtype))
    return pieces, tf.shape(h)[1] if h.shape[1] is None else h.shape[1]
