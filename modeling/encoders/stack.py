"""Layers in a row: what the backbones of all encoders have in common.

  h_0 = embeddings(ids),  h_i = layer_i(h_(i-1)),  i = 1..L

Letters: B batch, T length, M memory length, D model, L layers, N heads, H head
size.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import tensorflow as tf

from modeling.attention import memory as memory_lib
from modeling.attention.positions import factors, sinusoids
from modeling.encoders.base import Encoder
from modeling.encoders.contract import EncoderConfig
from modeling.ops import dropout, initializers, saving
from modeling.ops import fused as fusion
from modeling.ops.context import LayerContext
from modeling.ops.matmul import Matmul
from modeling.ops.rematerialization import METHODS, TPU_METHODS, recompute
from modeling.ops.tpu_matmul import TpuMatmul

SHIFTS = ("auto", "gather", "radix", "factored")  # see `RecurrentStack`

# `(streams, shared, context) -> streams`, see `Stack.run`.
AppliedLayer = Callable[[tuple, tuple, LayerContext], tuple]


class Rows(NamedTuple):
    """What came of all layers."""

    streams: tuple[tf.Tensor, ...]
    # [B, T, D] of each of the L layers, its first stream
    inputs: list[tf.Tensor]
    outputs: list[tf.Tensor]  # [B, T, D] of each of the L layers


class Stack(Encoder):
    """An encoder whose layers run one after the other.

    A subclass makes `embeddings` and `blocks`, or says in `scoped_layers` what
    else it consists of.
    """

    def __init__(
        self, config: EncoderConfig, recompute: str = "none", **kwargs
    ):
        super().__init__(**kwargs)
        check_choice("recompute", recompute, METHODS)
        self.config = config
        self.recompute = recompute

    # --- Variables ---------------------------------------------------------

    def build_variables(self, *layers: tuple[saving.Layer, int]) -> None:
        """Makes those of the embeddings, then of layers, below their names.

        Each layer comes with the width of its input; () = `blocks`.
        """
        width = self.config.d_model
        with tf.name_scope(self.scope.rstrip("/")):
            self.embeddings.build([None, None])
            for layer, size in layers or [(b, width) for b in self.blocks]:
                with tf.name_scope(layer.name):
                    layer.build([None, None, size])
        self.built = True

    def scoped_layers(self) -> list[tuple[str, str]]:
        """(canonical scope, attribute path) of every layer."""
        count = len(self.blocks)
        return [(f"layer_{i}", f"blocks/{i}") for i in range(count)]

    def variable_paths(self) -> dict[str, str]:
        """Canonical names below `scope` -> attribute paths."""
        paths = saving.paths_below(self, "", "embeddings")
        for scope, attribute in self.scoped_layers():
            paths |= saving.paths_below(self, scope, attribute)
        return paths

    # --- A call ------------------------------------------------------------

    def begin(
        self,
        training: bool,
        seed: tf.Tensor | None,
        packed: bool = False,
        texts: int | None = None,
    ) -> LayerContext:
        """How the layers of a call are run; ValueError: dropout without a seed.

        Rows that are `packed` are of a few numbers of rows; for `texts` see
        `LayerContext`.
        """
        dropout.check_seed(training, seed, max(self.config.dropout_rates))
        if training or packed:
            fusion.expect_few_shapes()
        seed = seed if training else None
        return LayerContext(training, seed, texts=texts)

    def outer_seed(self, context: LayerContext) -> tf.Tensor | None:
        """int32 [2] of the sites around the layers, or None."""
        return dropout.fold(context.seed, self.config.n_layer)

    def layer_input(self, number: int, h: tf.Tensor) -> tf.Tensor:
        """What layer `number` reads of h [B, T, D], and its memory keeps."""
        del number
        return h

    def run(
        self,
        layers: Sequence[AppliedLayer],
        streams: tuple[tf.Tensor, ...],
        context: LayerContext,
        shared: tuple[tf.Tensor, ...] = (),
    ) -> Rows:
        """Runs the layers, each again in the backward pass if that is asked.

        From a layer's streams to the next one's; of the first ones the content
        [B, T, D] comes first. Tensors that layers read beside their arguments
        get no gradient.
        """
        inputs, outputs, count = [], [], len(streams)
        for number, layer in enumerate(layers):
            streams = (self.layer_input(number, streams[0]), *streams[1:])
            inputs.append(streams[0])

            def run(*tensors, layer=layer, number=number):
                layer_context = dataclasses.replace(
                    context,
                    seed=dropout.fold(context.seed, self.dropout_part(number)),
                    matmul=self.matmul_for(tensors[0]),
                )
                return layer(tensors[:count], tensors[count:], layer_context)

            # The backward pass begins with the last layer: nothing is gained
            # there, and an output that nobody reads stays free.
            last = number == len(layers) - 1
            method = "none" if last else self.recompute
            streams = tuple(recompute(run, method)(*streams, *shared))
            outputs.append(streams[0])
        return Rows(streams, inputs, outputs)

    def dropout_part(self, number: int) -> int:
        """What the seed of a call is folded with for the layer `number`.

        L is of the sites around the layers, L + 1 of the head.
        """
        return number if number < self.config.n_layer else number + 2

    def matmul_for(self, h: tf.Tensor) -> Matmul:
        """Of one layer, in the form for TPU where gradients come in order."""
        return TpuMatmul(h) if self.recompute in TPU_METHODS else Matmul()

    def get_config(self) -> dict[str, Any]:
        return {
            "config": self.config.to_dict(),
            "name": self.name,
            "dtype": self.dtype_policy.name,
        } | {name: getattr(self, name) for name in self.options}


class RecurrentStack(Stack):
    """With memory, relative positions, and biases that all layers may share.

    Args:
      query_shift: how position scores are aligned with keys: "gather" (CPU,
        GPU), "factored" (TPU), "radix" (TPU, where positions have no factors)
        or "auto" (by the strategy in scope).

    Attributes:
      bias_names: variables [N, H] that layers without their own read.
    """

    options = ("recompute", "query_shift")
    bias_names: ClassVar[tuple[str, ...]]

    def __init__(
        self,
        config: EncoderConfig,
        recompute: str = "none",
        query_shift: str = "auto",
        **kwargs,
    ):
        super().__init__(config, recompute, **kwargs)
        check_choice("query_shift", query_shift, SHIFTS)
        if query_shift == "factored" and not self.has_factors:
            raise ValueError(
                '`query_shift` "factored" needs sinusoids of unclipped '
                'distances (`clamp_len` -1): take "radix"'
            )
        self.query_shift = query_shift

    @property
    def shares_biases(self) -> bool:
        """Whether the biases are the model's."""
        raise NotImplementedError

    def build_variables(self, *layers: tuple[saving.Layer, int]) -> None:
        """See `Stack`; the shared biases come last."""
        super().build_variables(*layers)
        if not self.shares_biases:
            return
        initial = initializers.from_config(self.config)
        shape = [self.config.n_head, self.config.d_head]
        with tf.name_scope(self.scope.rstrip("/")):
            for name in self.bias_names:
                setattr(self, name, self.add_kept(name, shape, initial))

    def shared_biases(self) -> tuple[tf.Tensor, ...]:
        """Each [N, H]; () where every layer has its own."""
        if not self.shares_biases:
            return ()
        return tuple(
            tf.convert_to_tensor(getattr(self, name))
            for name in self.bias_names
        )

    def variable_paths(self) -> dict[str, str]:
        names = self.bias_names if self.shares_biases else ()
        return super().variable_paths() | {name: name for name in names}

    def shift_method(self) -> str:
        """`query_shift`, "auto" decided."""
        if self.query_shift != "auto":
            return self.query_shift
        strategy = tf.distribute.get_strategy()
        return self.tpu_shift if "TPU" in type(strategy).__name__ else "gather"

    @property
    def tpu_shift(self) -> str:
        """What "auto" is under a TPU strategy."""
        return "factored" if self.has_factors else "radix"

    @property
    def has_factors(self) -> bool:
        """Whether positions are sinusoids of unclipped distances."""
        raise NotImplementedError

    def position_table(
        self,
        query_len: int,
        key_len: int,
        attn_type: str,
        clamp_len: int,
        bi_data: bool = False,
        seed: tf.Tensor | None = None,
        texts: int | None = None,
    ) -> tf.Tensor:
        """What all layers read of positions, float32, dropped.

        The sinusoid table [S, R, D], or its columns in waves [S, W, D], of
        which whole columns are dropped. `texts`: see `dropout.dropout`.
        """
        width, rate = self.config.d_model, self.config.dropout
        if self.shift_method() != "factored":
            table = sinusoids.sinusoid_table(
                query_len, key_len, width, attn_type, clamp_len, bi_data
            )
            return dropout.dropout(table, rate, seed, dropout.POSITIONS, texts)
        waves = factors.fewest_waves(query_len, key_len, width, attn_type)
        columns = dropout.dropout(
            tf.ones([width]), rate, seed, dropout.POSITIONS
        )
        return factors.by_direction(waves.mixing * columns, 1 + bi_data)

    def memory_of_layers(
        self, memory: Sequence[tf.Tensor] | None
    ) -> list[tf.Tensor | None]:
        """L tensors [B, M, D], or L times None; else raises ValueError."""
        count = self.config.n_layer
        if memory is None:
            return [None] * count
        if len(memory) != count:
            raise ValueError(
                f"`memory` must hold {count} tensors, one per layer, received "
                f"{len(memory)}"
            )
        return [tf.convert_to_tensor(layer) for layer in memory]

    def new_memory(
        self,
        inputs: Sequence[tf.Tensor],
        memory: Sequence[tf.Tensor | None],
        reuse_len: int | None = None,
    ) -> tuple[tf.Tensor, ...] | None:
        """What the next segment reads of all inputs; None without memory."""
        if not self.config.mem_len:
            return None
        return tuple(
            memory_lib.update_memory(h, past, self.config.mem_len, reuse_len)
            for h, past in zip(inputs, memory, strict=True)
        )


def check_choice(name: str, value: str, choices: Sequence[str]) -> None:
    """Raises ValueError unless a constructor's argument is one of `choices`."""
    if value not in choices:
        raise ValueError(
            f"`{name}` must be one of {list(choices)}, received {value!r}"
        )
