"""The backbone: ids and memory in; hidden states and new memory out."""

import dataclasses

import tensorflow as tf
import tf_keras

from modeling.attention import masks, memory, positions
from modeling.attention.streams import Stream
from modeling.encoders.base import Encoder, EncoderOutput
from modeling.encoders.transformer_xl.config import TransformerXLConfig
from modeling.encoders.transformer_xl.embeddings import AdaptiveEmbedding
from modeling.encoders.transformer_xl.layer import CausalLayer
from modeling.encoders.transformer_xl.names import BIASES, SCOPE
from modeling.ops import dropout, initializers
from modeling.ops.context import LayerContext
from modeling.ops.matmul import Matmul
from modeling.ops.rematerialization import METHODS, TPU_METHODS, recompute
from modeling.ops.shapes import sizes
from modeling.ops.tpu_matmul import TpuMatmul


@tf_keras.utils.register_keras_serializable("xlnet")
class TransformerXLModel(Encoder):
    """Transformer-XL (section 3): causal, with memory and relative positions.

    Calls are pure: memory comes in and goes out.

    Args:
      config: `TransformerXLConfig`, or its `to_dict()`.
      recompute: see `modeling.ops.rematerialization`.
      query_shift: how position scores are aligned with keys: "gather" (CPU,
        GPU), "radix" (TPU) or "auto" (by the strategy in scope).

    Call arguments:
      input_ids: int [B, T].
      memory: tuple of L tensors [B, M, D], M of any length; the input of every
        layer at earlier positions.
      memory_length: int [B], the last so many slots are valid; None = all.
        `memory_start` of the configuration is for who keeps the memory: with
        "zeros" it gives zero vectors and no length.
      training: apply dropout.
      seed: int [2], needed for dropout.
      output_hidden_states: also return every layer's input.
    """

    scope = SCOPE
    options = ("recompute", "query_shift")

    def __init__(
        self,
        config: TransformerXLConfig | dict,
        recompute: str = "none",
        query_shift: str = "auto",
        **kwargs,
    ):
        super().__init__(**kwargs)
        if isinstance(config, dict):
            config = TransformerXLConfig.from_dict(config)
        if recompute not in METHODS:
            raise ValueError(
                f"`recompute` must be one of {list(METHODS)}, received "
                f"{recompute!r}"
            )
        self.config = config
        self.recompute = recompute
        self.query_shift = query_shift
        policy = self.dtype_policy
        self.embeddings = AdaptiveEmbedding(
            config, name="embeddings", dtype=policy
        )
        self.blocks = [
            CausalLayer(config, name=f"layer_{i}", dtype=policy)
            for i in range(config.n_layer)
        ]
        with tf.name_scope("transformer"):
            self._build_variables()
        self.built = True

    def _build_variables(self):
        config = self.config
        self.embeddings.build([None, None])
        for block in self.blocks:
            with tf.name_scope(block.name):
                block.build([None, None, config.d_model])
        if not self._shares_biases:
            return
        serialised = initializers.from_config(config)
        for name in BIASES:
            bias = self.add_weight(
                name,
                [config.n_head, config.d_head],
                initializer=initializers.fresh(serialised),
                experimental_autocast=False,
            )
            setattr(self, name, bias)

    def call(
        self,
        input_ids,
        memory=None,
        memory_length=None,
        training=False,
        seed=None,
        output_hidden_states=False,
    ):
        """Runs the backbone, see the class; returns `EncoderOutput`.

        Raises:
          ValueError: memory of another number of layers.
        """
        config = self.config
        dropout.check_seed(training, seed, max(config.dropout_rates))
        seed = seed if training else None
        past = self._past(memory)
        batch, query_len = sizes(tf.convert_to_tensor(input_ids))
        memory_len = 0 if memory is None else sizes(past[0])[1]
        length = memory_length if memory is not None else None

        outer = dropout.fold(seed, config.n_layer)
        texts = batch if config.variational_dropout else None
        h = self.embeddings(input_ids)  # [B, T, D]
        h = dropout.words(h, input_ids, config.word_dropout, outer)
        if config.encoding == "absolute":
            h += tf.cast(self._sinusoid(query_len, 0)[:, 1:], h.dtype)
        h = dropout.dropout(h, config.dropout, outer, dropout.EMBEDDING, texts)
        shared = ()
        if config.encoding == "relative":
            table = self._table(query_len, memory_len, outer)  # [1, K + 1, D]
            shared = (table, *self.shared_biases())
        made = masks.attention_masks(
            query_len,
            memory_len,
            "uni",
            config.same_length,
            memory_length=length,
        )
        context = LayerContext(training, seed, texts=texts)
        h, new_memory, states = self._run_layers(
            h, past, shared, Stream(made.content), context
        )
        h = dropout.dropout(h, config.dropout, outer, dropout.FINAL, texts)
        return EncoderOutput(
            h,
            None,
            new_memory,
            memory_update_length(config, length, batch, memory_len, query_len),
            states if output_hidden_states else None,
        )

    def _table(self, query_len, memory_len, seed):
        """The position table, dropped as the other inputs of layers are."""
        config = self.config
        table = self._sinusoid(query_len, memory_len)
        texts = 1 if config.variational_dropout else None
        return dropout.dropout(
            table, config.dropout, seed, dropout.POSITIONS, texts
        )

    def _sinusoid(self, query_len, memory_len):
        """Encodings of the distances K, .., 0: [1, K + 1, D]."""
        return positions.sinusoid_table(
            query_len,
            memory_len + query_len,
            self.config.d_model,
            "uni",
            self.config.clamp_len,
        )

    def _past(self, memory):
        """L tensors [B, M, D], or L times None."""
        count = self.config.n_layer
        if memory is None:
            return [None] * count
        if len(memory) != count:
            raise ValueError(
                f"`memory` must hold {count} tensors, one per layer, received "
                f"{len(memory)}"
            )
        return [tf.convert_to_tensor(m) for m in memory]

    def _run_layers(self, h, memories, shared, stream, context):
        config = self.config
        new_memory, states = [], [h]
        for i, (block, past) in enumerate(
            zip(self.blocks, memories, strict=True)
        ):
            h = block.with_positions(h)
            new_memory.append(memory.update_memory(h, past, config.mem_len))

            def run(h, *shared, block=block, past=past, i=i):
                own = dataclasses.replace(
                    context,
                    seed=dropout.fold(context.seed, i),
                    matmul=self._matmul(h),
                )
                return (
                    block(
                        h,
                        memory=past,
                        shared=shared,
                        stream=stream,
                        shift=self._shift_method(),
                        context=own,
                    ),
                )

            # Nothing is gained in the last layer, where the backward pass
            # begins.
            last = i == config.n_layer - 1
            method = "none" if last else self.recompute
            h = recompute(run, method)(h, *shared)[0]
            states.append(h)
        kept = tuple(new_memory) if config.mem_len else None
        return h, kept, tuple(states)

    @property
    def _shares_biases(self) -> bool:
        return not self.config.untie_r and self.config.encoding == "relative"

    def shared_biases(self) -> tuple[tf.Tensor, ...]:
        """(u, v), each [N, H], of all layers; () where each has its own."""
        if not self._shares_biases:
            return ()
        return tuple(
            tf.convert_to_tensor(getattr(self, name)) for name in BIASES
        )

    def position_keys(self, slots: int, matmul: Matmul) -> list[tf.Tensor]:
        """For generation: [N, M + 1, H] of every layer, by distance 0..M.

        Args:
          slots: M.
          matmul: how the table meets the kernels.
        """
        if self.config.encoding != "relative":
            distances = tf.range(slots + 1)
            return [
                block.rel_attn.distance_keys(distances, self.compute_dtype)
                for block in self.blocks
            ]
        # [1, M + 1, D], the distances M..0
        table = self._sinusoid(1, slots - 1)
        table = tf.cast(tf.reverse(table, [1]), self.compute_dtype)
        found = []
        for block in self.blocks:
            r = matmul.project(table, block.rel_attn.kernels["r"])
            found.append(tf.transpose(r[0], [1, 0, 2]))
        return found

    def _matmul(self, h) -> Matmul:
        return TpuMatmul(h) if self.recompute in TPU_METHODS else Matmul()

    def _shift_method(self) -> str:
        if self.query_shift != "auto":
            return self.query_shift
        strategy = tf.distribute.get_strategy()
        return "radix" if "TPU" in type(strategy).__name__ else "gather"

    def variable_paths(self) -> dict[str, str]:
        """The original's names below `transformer/` -> paths."""
        found = {}
        for name, path in self.embeddings.variable_paths().items():
            found[name] = f"embeddings/{path}"
        for i, block in enumerate(self.blocks):
            for name, path in block.variable_paths().items():
                found[f"layer_{i}/{name}"] = f"blocks/{i}/{path}"
        if self._shares_biases:
            found |= {name: name for name in BIASES}
        return found

    def get_config(self):
        return {
            "config": self.config.to_dict(),
            "recompute": self.recompute,
            "query_shift": self.query_shift,
            "name": self.name,
            "dtype": self.dtype_policy.name,
        }


def memory_update_length(config, length, batch, memory_len, query_len):
    """int32 [B], valid slots of the new memory; None without memory."""
    return memory.update_length(
        length, batch, memory_len, query_len, config.mem_len
    )
