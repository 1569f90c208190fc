"""BERT and ALBERT: ids and masks in, hidden states out."""

import dataclasses

import tensorflow as tf
import tf_keras

from modeling.attention import plain
from modeling.encoders.base import Encoder, EncoderOutput
from modeling.encoders.bert.config import BertConfig
from modeling.encoders.bert.embeddings import BertEmbeddings
from modeling.encoders.bert.layer import BertLayer
from modeling.encoders.registry import config_from_dict
from modeling.ops import dropout, initializers, saving
from modeling.ops.context import LayerContext
from modeling.ops.matmul import Matmul
from modeling.ops.rematerialization import METHODS, TPU_METHODS, recompute
from modeling.ops.tpu_matmul import TpuMatmul


@tf_keras.utils.register_keras_serializable("xlnet")
class BertModel(Encoder):
    """A stack of post-LN layers; ALBERT applies the same ones again.

    Args:
      config: `BertConfig` or `AlbertConfig`, or its `to_dict()`.
      recompute: see `modeling.ops.rematerialization`; per application.

    Call arguments:
      input_ids: int [B, T].
      segment_ids: int [B, T], below `type_vocab_size`; None = 0.
      input_mask: [B, T], 1 = real token; None = all.
      positions: int [B, T]; None = 0..T-1.
      documents: int [B, T], of packed rows: tokens see their document only.
      training: apply dropout.
      seed: int [2], needed for dropout.
      output_hidden_states: also return [B, T, E] after the embeddings and
        [B, T, D] after each of the L layers (ALBERT: after its group).
    """

    def __init__(
        self, config: BertConfig | dict, recompute: str = "none", **kwargs
    ):
        super().__init__(**kwargs)
        self.config = config = config_from_dict(config)
        if recompute not in METHODS:
            raise ValueError(
                f"`recompute` must be one of {list(METHODS)}, received "
                f"{recompute!r}"
            )
        self.recompute = recompute
        self.scope = f"model/{config.model_type}/"
        self.embeddings = BertEmbeddings(
            config, name="embeddings", dtype=self.dtype_policy
        )
        self.mapping = None
        if config.shared_layers:
            self.mapping = saving.Dense(
                config.d_model,
                kernel_initializer=initializers.fresh(
                    initializers.from_config(config)
                ),
                name="embedding_mapping",
                dtype=self.dtype_policy,
            )
        # Groups of layers: [G][inner].
        self.groups = [
            [
                BertLayer(
                    config,
                    name=f"group_{g}_inner_{k}",
                    dtype=self.dtype_policy,
                )
                for k in range(config.inner_layers)
            ]
            for g in range(config.layer_groups)
        ]
        with tf.name_scope(self.scope.rstrip("/")):
            self._build_variables()
        self.built = True

    def _build_variables(self):
        self.embeddings.build([None, None])
        if self.mapping is not None:
            with tf.name_scope(self.mapping.name):
                self.mapping.build([None, None, self.config.d_embedding])
        for group in self.groups:
            for layer in group:
                with tf.name_scope(layer.name):
                    layer.build([None, None, self.config.d_model])

    def applied_layers(self) -> list[BertLayer]:
        """The layers in the order in which they run; shared ones repeat."""
        config = self.config
        found = []
        for i in range(config.n_layer):
            found += self.groups[i * config.layer_groups // config.n_layer]
        return found

    def call(
        self,
        input_ids,
        segment_ids=None,
        input_mask=None,
        positions=None,
        documents=None,
        training=False,
        seed=None,
        output_hidden_states=False,
    ):
        """Runs the encoder, see the class; returns `EncoderOutput`."""
        config = self.config
        dropout.check_seed(training, seed, max(config.dropout_rates))
        seed = seed if training else None
        input_ids = tf.convert_to_tensor(input_ids)
        _check_length(input_ids, config.max_position_embeddings)
        h = self.embeddings(
            input_ids,
            segment_ids,
            positions,
            dropout.fold(seed, config.n_layer),
        )  # [B, T, E]
        states = [h]
        if self.mapping is not None:
            h = self.mapping(h)  # [B, T, D]
        mask = plain.mask_of(input_mask, documents)
        context = LayerContext(training, seed, packed=documents is not None)
        layers = self.applied_layers()
        for i, layer in enumerate(layers):
            # The numbers L and L + 1 are the embeddings' and the head's.
            number = i if i < config.n_layer else i + 2

            def run(h, layer=layer, number=number):
                own = dataclasses.replace(
                    context,
                    seed=dropout.fold(seed, number),
                    matmul=self._matmul(h),
                )
                return layer(h, mask, own)

            last = i == len(layers) - 1
            h = recompute(run, "none" if last else self.recompute)(h)
            # A group of several layers is one of the L.
            if (i + 1) % config.inner_layers == 0:
                states.append(h)
        return EncoderOutput(
            h, hidden_states=tuple(states) if output_hidden_states else None
        )

    def _matmul(self, h) -> Matmul:
        """For one layer, in the form for TPU where gradients come in order."""
        return TpuMatmul(h) if self.recompute in TPU_METHODS else Matmul()

    def variable_paths(self) -> dict[str, str]:
        """Names below the scope -> attribute paths; a shared layer once."""
        found = {
            name: f"embeddings/{path}"
            for name, path in self.embeddings.variable_paths().items()
        }
        if self.mapping is not None:
            for name in ("kernel", "bias"):
                found[f"embedding_mapping/{name}"] = f"mapping/{name}"
        for g, group in enumerate(self.groups):
            for k, layer in enumerate(group):
                scope = f"layer_{g}"
                if self.config.shared_layers:
                    scope = f"group_{g}/inner_{k}"
                for name, path in layer.variable_paths().items():
                    found[f"{scope}/{name}"] = f"groups/{g}/{k}/{path}"
        return found

    def get_config(self):
        return {
            "config": self.config.to_dict(),
            "recompute": self.recompute,
            "name": self.name,
            "dtype": self.dtype_policy.name,
        }


def _check_length(input_ids, longest: int) -> None:
    """A row that is too long would get no position, or another's."""
    length = input_ids.shape[1]
    if length is not None and length > longest:
        raise ValueError(
            f"rows have {length} tokens, but `max_position_embeddings` is "
            f"{longest}"
        )
