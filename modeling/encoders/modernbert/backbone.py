"""ModernBERT: ids and masks in, hidden states out."""

import dataclasses

import tensorflow as tf
import tf_keras

from modeling.attention import local, plain, rotary
from modeling.encoders.base import Encoder, EncoderOutput
from modeling.encoders.modernbert.config import ModernBertConfig
from modeling.encoders.modernbert.layer import ModernBertLayer, Surroundings
from modeling.encoders.registry import config_from_dict
from modeling.ops import dropout, initializers, saving
from modeling.ops.context import LayerContext
from modeling.ops.matmul import Matmul
from modeling.ops.normalization import LayerNorm
from modeling.ops.rematerialization import METHODS, TPU_METHODS, recompute
from modeling.ops.shapes import sizes
from modeling.ops.tpu_matmul import TpuMatmul


@tf_keras.utils.register_keras_serializable("xlnet")
class ModernBertEmbeddings(saving.Layer):
    """dropout(LayerNorm(word)); positions enter the attention only.

    Args:
      config: `ModernBertConfig`, or its `to_dict()`.

    Call: ids int [B, T] -> float32 [B, T, D], the residual stream of
    `modeling.encoders.modernbert.layer`.
    """

    def __init__(self, config: ModernBertConfig | dict, **kwargs):
        super().__init__(**kwargs)
        self.config = config_from_dict(config)
        self.norm = LayerNorm(
            self.config.norm_eps,
            use_bias=False,
            name="LayerNorm",
            dtype="float32",
        )

    def build(self, input_shape):
        config = self.config
        self.lookup_table = self.add_weight(
            "lookup_table",
            [config.vocab_size, config.d_model],
            initializer=initializers.fresh(initializers.from_config(config)),
            experimental_autocast=False,
        )
        with tf.name_scope("LayerNorm"):
            self.norm.build([None, None, config.d_model])
        super().build(input_shape)

    def call(self, ids, seed=None):
        """See the class; `seed`: int32 [2] of the outer sites, or None."""
        rows = tf.gather(tf.convert_to_tensor(self.lookup_table), ids)
        rows = self.norm(rows, training=seed is not None)
        return dropout.dropout(
            rows, self.config.dropout, seed, dropout.EMBEDDING
        )

    def variable_paths(self) -> dict[str, str]:
        """Canonical names -> attribute paths."""
        return {
            "word_embedding/lookup_table": "lookup_table",
            "embedding/LayerNorm/gamma": "norm/gamma",
        }

    def get_config(self):
        return super().get_config() | {"config": self.config.to_dict()}


@tf_keras.utils.register_keras_serializable("xlnet")
class ModernBertModel(Encoder):
    """A stack of pre-norm layers, global and local, and a last norm.

    Args:
      config: `ModernBertConfig`, or its `to_dict()`.
      recompute: see `modeling.ops.rematerialization`.

    Call arguments:
      input_ids: int [B, T].
      segment_ids: taken and not used: texts are told apart by SEP only.
      input_mask: [B, T], 1 = real token; None = all. Rows of padding mean
        nothing.
      positions: int [B, T]; None = 0..T-1.
      documents: int [B, T], of packed rows: tokens see their document only.
      training: apply dropout.
      seed: int [2], needed for dropout.
      output_hidden_states: also return the embeddings and the stream after
        each layer, before the last norm; float32 under any policy.
    """

    scope = "model/modernbert/"

    def __init__(
        self,
        config: ModernBertConfig | dict,
        recompute: str = "none",
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.config = config = config_from_dict(config)
        if recompute not in METHODS:
            raise ValueError(
                f"`recompute` must be one of {list(METHODS)}, received "
                f"{recompute!r}"
            )
        self.recompute = recompute
        self.embeddings = ModernBertEmbeddings(
            config, name="embeddings", dtype=self.dtype_policy
        )
        self.blocks = [
            ModernBertLayer(
                config, i, name=f"layer_{i}", dtype=self.dtype_policy
            )
            for i in range(config.n_layer)
        ]
        self.final_norm = LayerNorm(
            config.norm_eps,
            use_bias=False,
            name="final_norm",
            dtype=self.dtype_policy,
        )
        with tf.name_scope("model/modernbert"):
            self.embeddings.build([None, None])
            for block in self.blocks:
                with tf.name_scope(block.name):
                    block.build([None, None, config.d_model])
            with tf.name_scope("final_norm"):
                self.final_norm.build([None, None, config.d_model])
        self.built = True

    def surroundings(
        self, input_ids, input_mask=None, positions=None, documents=None
    ) -> tuple[Surroundings, Surroundings]:
        """What global and local layers are told; arguments as the call's."""
        config = self.config
        batch, length = sizes(tf.convert_to_tensor(input_ids))
        if positions is None:
            positions = tf.range(length)[tf.newaxis]  # [1, T]
        return (
            Surroundings(
                *rotary.table(positions, config.d_head, config.global_theta),
                plain.mask_of(input_mask, documents),
            ),
            Surroundings(
                *rotary.table(positions, config.d_head, config.local_theta),
                local.make_mask(
                    batch, length, config.half_window, input_mask, documents
                ),
            ),
        )

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
        del segment_ids
        config = self.config
        dropout.check_seed(training, seed, max(config.dropout_rates))
        seed = seed if training else None
        h = self.embeddings(input_ids, dropout.fold(seed, config.n_layer))
        wide, near = self.surroundings(
            input_ids, input_mask, positions, documents
        )
        context = LayerContext(training, seed, packed=documents is not None)
        states = [h]
        for i, block in enumerate(self.blocks):
            around = wide if config.is_global(i) else near

            def run(h, block=block, around=around, i=i):
                own = dataclasses.replace(
                    context,
                    seed=dropout.fold(context.seed, i),
                    matmul=self._matmul(h),
                )
                return block(h, around, own)

            last = i == config.n_layer - 1
            h = recompute(run, "none" if last else self.recompute)(h)
            states.append(h)
        return EncoderOutput(
            self.final_norm(h, training=training),
            hidden_states=tuple(states) if output_hidden_states else None,
        )

    def _matmul(self, h) -> Matmul:
        """For one layer, in the form for TPU where gradients come in order."""
        return TpuMatmul(h) if self.recompute in TPU_METHODS else Matmul()

    def variable_paths(self) -> dict[str, str]:
        """Names below the scope -> attribute paths."""
        found = {
            name: f"embeddings/{path}"
            for name, path in self.embeddings.variable_paths().items()
        }
        for i, block in enumerate(self.blocks):
            for name, path in block.variable_paths().items():
                found[f"layer_{i}/{name}"] = f"blocks/{i}/{path}"
        found["final/LayerNorm/gamma"] = "final_norm/gamma"
        return found

    def get_config(self):
        return {
            "config": self.config.to_dict(),
            "recompute": self.recompute,
            "name": self.name,
            "dtype": self.dtype_policy.name,
        }
