"""The backbone: ids and memory in; hidden states and new memory out."""

import tensorflow as tf
import tf_keras

from modeling.attention import masks
from modeling.attention import memory as memory_lib
from modeling.attention.attend import Stream
from modeling.attention.positions import sinusoids
from modeling.encoders.base import EncoderOutput
from modeling.encoders.stack import RecurrentStack
from modeling.encoders.transformer_xl.config import TransformerXLConfig
from modeling.encoders.transformer_xl.embeddings import AdaptiveEmbedding
from modeling.encoders.transformer_xl.layer import CausalLayer
from modeling.encoders.transformer_xl.names import BIASES, SCOPE
from modeling.ops import dropout, tied
from modeling.ops.matmul import Matmul
from modeling.ops.shapes import sizes


@tf_keras.utils.register_keras_serializable("xlnet")
class TransformerXLModel(RecurrentStack):
    """Transformer-XL (section 3): causal, with memory and relative positions.

    Calls are pure: memory comes in and goes out.

    Args:
      config: `TransformerXLConfig`, or its `to_dict()`.
      recompute, query_shift: see `RecurrentStack`.

    Call arguments:
      input_ids: int [B, T].
      memory: tuple of L tensors [B, M, D], M of any length; the input of every
        layer at earlier positions.
      memory_length: int [B], the last so many slots are valid; None = all.
        `memory_start` of the configuration is for who keeps the memory: with
        "zeros" it gives zero vectors and no length.
      seed: int [2], needed for dropout.
      output_hidden_states: also return every layer's input.
    """

    scope = SCOPE
    bias_names = BIASES

    def __init__(
        self,
        config: TransformerXLConfig | dict,
        recompute: str = "none",
        query_shift: str = "auto",
        **kwargs,
    ):
        if isinstance(config, dict):
            config = TransformerXLConfig.from_dict(config)
        super().__init__(config, recompute, query_shift, **kwargs)
        policy = self.dtype_policy
        self.embeddings = AdaptiveEmbedding(
            config, name="embeddings", dtype=policy
        )
        self.blocks = [
            CausalLayer(config, name=f"layer_{i}", dtype=policy)
            for i in range(config.n_layer)
        ]
        self.build_variables()

    @property
    def has_factors(self) -> bool:
        config = self.config
        return config.encoding == "relative" and config.clamp_len <= 0

    @property
    def shares_biases(self) -> bool:
        return not self.config.untie_r and self.config.encoding == "relative"

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

        Raises ValueError: memory of another number of layers.
        """
        config = self.config
        past = self.memory_of_layers(memory)
        batch, query_len = sizes(tf.convert_to_tensor(input_ids))
        memory_len = 0 if memory is None else sizes(past[0])[1]
        length = memory_length if memory is not None else None

        texts = batch if config.variational_dropout else None
        context = self.begin(training, seed, texts=texts)
        outer = self.outer_seed(context)
        reader = tied.Reader(training)
        h = self.embeddings(input_ids, reader)  # [B, T, D]
        h = dropout.words(h, input_ids, config.word_dropout, outer)
        if config.encoding == "absolute":
            h += tf.cast(self._sinusoid(query_len, 0)[:, 1:], h.dtype)
        h = dropout.dropout(h, config.dropout, outer, dropout.EMBEDDING, texts)
        shared = ()
        if config.encoding == "relative":
            table = self._table(query_len, memory_len, outer)
            shared = (table, *self.shared_biases())
        content = masks.attention_masks(
            query_len,
            memory_len,
            "uni",
            config.same_length,
            memory_length=length,
        ).content
        rows = self.run(
            [
                self._applied(block, Stream(content), layer_memory)
                for block, layer_memory in zip(self.blocks, past, strict=True)
            ],
            (h,),
            context,
            shared,
        )
        states = (h, *rows.outputs)
        h = dropout.dropout(
            rows.streams[0], config.dropout, outer, dropout.FINAL, texts
        )
        return EncoderOutput(
            h,
            None,
            self.new_memory(rows.inputs, past),
            memory_lib.update_length(
                length, batch, memory_len, query_len, config.mem_len
            ),
            states if output_hidden_states else None,
            reader.tables,
        )

    def _applied(self, block, stream, layer_memory):
        """A block as `Stack.run` takes it."""

        def apply(rows, shared, context):
            return (
                block(
                    *rows,
                    memory=layer_memory,
                    shared=shared,
                    stream=stream,
                    shift=self.shift_method(),
                    context=context,
                ),
            )

        return apply

    def layer_input(self, number, h):
        """With the layer's learned places, where it has any."""
        return self.blocks[number].with_positions(h)

    def _table(self, query_len, memory_len, seed):
        """The position table, dropped as the other inputs of layers are."""
        config = self.config
        key_len = memory_len + query_len
        texts = 1 if config.variational_dropout else None
        return self.position_table(
            query_len, key_len, "uni", config.clamp_len, seed=seed, texts=texts
        )

    def _sinusoid(self, query_len, memory_len):
        """Encodings of the distances K, .., 0: [1, K + 1, D]."""
        return sinusoids.sinusoid_table(
            query_len,
            memory_len + query_len,
            self.config.d_model,
            "uni",
            self.config.clamp_len,
        )

    def position_keys(self, slots: int, matmul: Matmul) -> list[tf.Tensor]:
        """For generation: [N, M + 1, H] of each layer, M = `slots`."""
        if self.config.encoding != "relative":
            distances = tf.range(slots + 1)
            return [
                block.rel_attn.distance_keys(distances, self.compute_dtype)
                for block in self.blocks
            ]
        # [1, M + 1, D], the distances M..0
        table = self._sinusoid(1, slots - 1)
        table = tf.cast(tf.reverse(table, [1]), self.compute_dtype)
        keys_by_layer = []
        for block in self.blocks:
            r = matmul.project(table, block.rel_attn.kernels["r"])
            keys_by_layer.append(tf.transpose(r[0], [1, 0, 2]))
        return keys_by_layer
