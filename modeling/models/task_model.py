"""What every task model shares: the encoder, its options, its names."""

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf
import tf_keras

from modeling.encoders.base import Encoder, EncoderOutput
from modeling.encoders.contract import EncoderConfig
from modeling.encoders.registry import (
    build_encoder,
    config_from_dict,
    encoder_class,
)
from modeling.ops import dropout, saving
from modeling.ops.packing import Packing


class TaskModel(saving.Model):
    """An encoder with a head.

    As Keras' models do, it takes its inputs as arguments or as one dictionary
    (which is how `fit`, `evaluate` and `predict` give several); entries of
    None count as absent. `fit` draws the seed of dropout from TensorFlow's
    generator, which `tf_keras.utils.set_random_seed` sets, where the inputs
    hold no `seed`.

    The config may be its `to_dict()`. An `encoder` that is there already is one
    that several heads share; None = a new one. `kwargs` are the encoder's own
    (`Encoder.options`: `recompute`, ...), and those of `tf_keras.Model`.
    """

    def __init__(
        self,
        config: EncoderConfig | dict,
        encoder: Encoder | None = None,
        **kwargs,
    ):
        config = config_from_dict(config)
        own = encoder_class(config).options
        options = {name: kwargs.pop(name) for name in own if name in kwargs}
        super().__init__(**kwargs)
        self.config = config
        self.encoder = encoder or build_encoder(
            config, **options, name="encoder", dtype=self.dtype_policy
        )
        self.built = True

    # In `fit`, too, nothing needs AutoGraph.
    @tf.autograph.experimental.do_not_convert
    def __call__(self, input_ids, *args, **kwargs):
        if isinstance(input_ids, Mapping):
            inputs = {k: v for k, v in input_ids.items() if v is not None}
            input_ids = inputs.pop("input_ids")
            kwargs = inputs | kwargs
        return super().__call__(input_ids, *args, **kwargs)

    def train_step(self, data):
        x, y, weights = tf_keras.utils.unpack_x_y_sample_weight(data)
        x = dict(x) if isinstance(x, Mapping) else {"input_ids": x}
        if "seed" not in x:
            x["seed"] = tf.random.uniform([2], maxval=2**31 - 1, dtype=tf.int32)
        packed = tf_keras.utils.pack_x_y_sample_weight(x, y, weights)
        return super().train_step(packed)

    @classmethod
    def options_of(cls, shape: Callable) -> dict[str, Any]:
        """Constructor arguments that weights tell.

        `shape`: (canonical name, attribute path) -> shape, or None.
        """
        del shape
        return {}

    def encode(
        self,
        input_ids,
        training=False,
        seed=None,
        packing: Packing | None = None,
        tied_head: bool = False,
        **arguments,
    ) -> EncoderOutput:
        """The encoder; with a `packing` of the rows it reads packed ones.

        `tied_head` says that a head reads the embedding's table later: it takes
        the `tables` of the output.

        Packed, padding is left out (`input_mask` with it), and what stands in
        its places of `sequence_output` means nothing. Raises ValueError:
        packed, with arguments that packed rows do not take.
        """
        how = {"training": training, "seed": seed}
        if tied_head:
            how["tied_head"] = True
        if packing is None:
            return self.encoder(input_ids, **how, **arguments)
        arguments.pop("input_mask", None)
        segment_ids = arguments.pop("segment_ids", None)
        if more := [k for k, v in arguments.items() if v is not None]:
            raise ValueError(f"packed rows take no {', '.join(sorted(more))}")
        if segment_ids is not None:
            segment_ids = packing.pack(segment_ids)
        output = self.encoder(
            packing.pack(input_ids),
            segment_ids=segment_ids,
            **self.encoder.packed_arguments(packing),
            **how,
        )
        return EncoderOutput(
            packing.unpack(output.sequence_output), tables=output.tables
        )

    def head_seed(self, training, seed) -> tf.Tensor | None:
        """Seed of the head's dropout sites; None when they are off."""
        if not training or seed is None:
            return None
        return dropout.fold(seed, self.config.n_layer + 1)

    def dense(
        self, units: int, name: str, width: int | None = None, **more
    ) -> saving.Dense:
        """A float32 layer of the head; `width` of the input, None = D."""
        layer = saving.dense_of(self.config, units, name, **more)
        layer.build([None, width or self.config.d_model])
        return layer

    def head_variable_paths(self) -> dict[str, str]:
        """The original's full names of the head's variables -> paths."""
        return {}

    def paths_elsewhere(self) -> dict[str, str]:
        """Attribute paths that models with another head have -> names.

        Native checkpoints hold paths: this model begins with what is there.
        """
        pooler = getattr(self, "pooler", None)
        return {} if pooler is None else pooler.paths_elsewhere()

    def get_config(self):
        head = saving.constructor_arguments(self, TaskModel)
        return self.encoder.get_config() | {"name": self.name} | head


def dense_paths(scope: str, path: str, use_bias: bool = True) -> dict[str, str]:
    """`scope/kernel` and `scope/bias` of the Dense layer at `path`."""
    names = ("kernel", "bias") if use_bias else ("kernel",)
    return {f"{scope}/{name}": f"{path}/{name}" for name in names}


def pooler_paths(
    scope: str, pooler: tf_keras.layers.Layer, own_scope: bool = True
) -> dict[str, str]:
    """The names of a `SequenceSummary` called `pooler`, below `scope`.

    A pooler with a scope of its own has that one in every head, unless
    `own_scope` is false.
    """
    if own_scope:
        scope = pooler.scope or scope
    return {
        f"{scope}/{name}": f"pooler/{path}"
        for name, path in pooler.variable_paths().items()
    }
