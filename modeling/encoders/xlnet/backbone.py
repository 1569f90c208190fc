"""The backbone: ids, masks and memory in; hidden states and new memory out."""

import dataclasses

import tensorflow as tf
import tf_keras

from modeling.attention import masks, memory, positions
from modeling.attention.streams import Stream, Streams
from modeling.encoders.base import Encoder, EncoderOutput
from modeling.encoders.xlnet import inputs as inputs_lib
from modeling.encoders.xlnet.config import XLNetConfig
from modeling.encoders.xlnet.embeddings import Embeddings
from modeling.encoders.xlnet.layer import TransformerLayer
from modeling.encoders.xlnet.names import SCOPE
from modeling.ops import dropout, initializers
from modeling.ops.context import LayerContext
from modeling.ops.matmul import Matmul
from modeling.ops.rematerialization import METHODS, TPU_METHODS, recompute
from modeling.ops.tpu_matmul import TpuMatmul


@tf_keras.utils.register_keras_serializable("xlnet")
class XLNetModel(Encoder):
    """Two-stream Transformer-XL (XLNet, section 2).

    Calls are pure: memory comes in and goes out. Variables exist as soon as
    the model does.

    Args:
      config: `XLNetConfig`, or its `to_dict()`.
      recompute: "none"; "layer" runs each layer again in the backward pass
        instead of keeping its activations; "layer_barrier" is the form that
        the TPU compiler does not undo, and "order" keeps all but finishes the
        gradients of layers one by one (compiled functions only).
      query_shift: how P query rows find their positions: "gather" (CPU, GPU),
        "radix" (TPU) or "auto" (by the strategy in scope).
      blind_rows: a query row that sees no key gets "zero" from attention, or
        with "original" the mean over all keys, hidden ones included, as in
        the original.

    `perm_mask` or `ranks` with `is_target`, and `target_positions` or
    `target_mapping`, are interchangeable and give equal results. A query
    stream exists with target positions, a target mapping or `query_input`.

    Call arguments:
      input_ids: int [B, T].
      segment_ids: int [B, T]; None = no segment term.
      input_mask: [B, T], 1 = real token; None = all.
      perm_mask: [B, T, T], 1 = i may NOT attend to j.
      ranks: int [B, T], place in the factorization order.
      is_target: [B, T], 1 = predicted; with `ranks`. May be left out with
        `target_mapping` or `query_input`, which say the same.
      target_positions: int [B, P], 0 in unused slots.
      target_mapping: [B, P, T], one-hot rows; a zero row is unused.
      query_input: [B, T], 1 = `mask_emb` starts the query stream there.
      memory: tuple of L tensors [B, M, D].
      memory_length: int [B], the last so many slots are valid; None = all.
      bi_data: the second half of the rows is backward.
      training: apply dropout.
      seed: int [2], needed for dropout.
      output_hidden_states: also return every layer's content stream.
    """

    scope = SCOPE
    options = ("recompute", "query_shift", "blind_rows")
    # Fine-tuning never trains it: checkpoints of the original lack it then.
    may_be_absent = ("mask_emb/mask_emb",)

    def __init__(
        self,
        config: XLNetConfig | dict,
        recompute: str = "none",
        query_shift: str = "auto",
        blind_rows: str | None = None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        if isinstance(config, dict):
            config = XLNetConfig.from_dict(config)
        _check_choice("recompute", recompute, METHODS)
        _check_choice("query_shift", query_shift, ("auto", "gather", "radix"))
        blind_rows = blind_rows or config.blind_rows
        _check_choice("blind_rows", blind_rows, ("zero", "original"))
        self.config = config
        self.recompute = recompute
        self.query_shift = query_shift
        self.blind_rows = blind_rows
        self.embeddings = Embeddings(
            config.vocab_size,
            config.d_model,
            initializers.from_config(config),
            name="embeddings",
            dtype=self.dtype_policy,
        )
        self.blocks = [
            TransformerLayer(config, name=f"layer_{i}", dtype=self.dtype_policy)
            for i in range(config.n_layer)
        ]
        with tf.name_scope("model/transformer"):
            self._build_variables()
        self.built = True

    def _build_variables(self):
        config = self.config
        self.embeddings.build([None, None])
        for block in self.blocks:
            with tf.name_scope(block.name):
                block.build([None, None, config.d_model])
        if config.untie_r:
            return
        serialised = initializers.from_config(config)
        for name in ("r_w_bias", "r_r_bias", "r_s_bias"):
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
        segment_ids=None,
        input_mask=None,
        perm_mask=None,
        ranks=None,
        is_target=None,
        target_positions=None,
        target_mapping=None,
        query_input=None,
        memory=None,
        memory_length=None,
        bi_data=False,
        training=False,
        seed=None,
        output_hidden_states=False,
    ):
        """Runs the backbone, see the class; returns `EncoderOutput`."""
        config = self.config
        dropout.check_seed(training, seed, max(config.dropout_rates))
        seed = seed if training else None
        given = inputs_lib.check(
            config.n_layer,
            input_ids=input_ids,
            perm_mask=perm_mask,
            ranks=ranks,
            is_target=is_target,
            target_positions=target_positions,
            target_mapping=target_mapping,
            query_input=query_input,
            memory=memory,
            memory_length=memory_length,
            bi_data=bi_data,
        )

        # -- Start of both streams --
        outer = dropout.fold(seed, config.n_layer)
        h = self.embeddings(input_ids)  # [B, T, D]
        g = self._query_start(h, given)
        h = dropout.dropout(h, config.dropout, outer, dropout.EMBEDDING)
        if g is not None:
            g = dropout.dropout(
                g, config.dropout, outer, dropout.QUERY_EMBEDDING
            )

        # -- Once for all layers --
        table = self._positions(given, bi_data, outer)
        streams = self._streams(given, segment_ids, input_mask)

        # -- Layers --
        h, g, new_memory, states = self._run_layers(
            h, g, given, table, streams, LayerContext(training, seed)
        )
        h = dropout.dropout(h, config.dropout, outer, dropout.FINAL)
        if g is not None:
            g = dropout.dropout(g, config.dropout, outer, dropout.QUERY_FINAL)
        return EncoderOutput(
            h,
            g,
            new_memory,
            self._new_length(given),
            states if output_hidden_states else None,
        )

    def _query_start(self, h, given):
        """[B, P, D], [B, T, D] or None."""
        if given.target_positions is not None:
            count = given.target_positions.shape[1]
            if count is None:
                count = tf.shape(given.target_positions)[1]
            return self.embeddings.query_rows(given.batch_size, count)
        if given.query_input is not None:
            return self.embeddings.mixed_rows(h, given.query_input)
        return None

    def _positions(self, given, bi_data, seed):
        """[S, R, D], projected by each layer once per direction."""
        config = self.config
        table = positions.sinusoid_table(
            given.query_len,
            given.memory_len + given.query_len,
            config.d_model,
            config.attn_type,
            config.clamp_len,
            bi_data,
        )
        return dropout.dropout(table, config.dropout, seed, dropout.POSITIONS)

    def _streams(self, given, segment_ids, input_mask) -> Streams:
        config = self.config
        rows = given.target_positions
        two_streams = rows is not None or given.query_input is not None
        made = masks.attention_masks(
            given.query_len,
            given.memory_len,
            config.attn_type,
            config.same_length,
            given.perm_mask,
            input_mask,
            given.memory_length,
            rows,
            two_streams,
        )
        content_segments = masks.segment_difference(
            segment_ids, given.memory_len, None, self.compute_dtype
        )
        content, query = Stream(made.content, content_segments), None
        if two_streams:
            query_segments = content_segments
            if rows is not None:
                query_segments = masks.segment_difference(
                    segment_ids, given.memory_len, rows, self.compute_dtype
                )
            visible = made.query_visible if self.blind_rows == "zero" else None
            gate = _product(visible, given.used_rows)
            query = Stream(made.query, query_segments, rows, gate)
        return Streams(content, query, self._shift_method())

    def _shift_method(self) -> str:
        if self.query_shift != "auto":
            return self.query_shift
        strategy = tf.distribute.get_strategy()
        return "radix" if "TPU" in type(strategy).__name__ else "gather"

    def _run_layers(self, h, g, given, table, streams, context):
        config = self.config
        shared = (table, *self.shared_biases())
        new_memory, states = [], [h]
        for i, block in enumerate(self.blocks):
            past = given.memory[i] if given.memory is not None else None
            new_memory.append(
                memory.update_memory(h, past, config.mem_len, config.reuse_len)
            )

            def run(h, *tensors, block=block, past=past, i=i):
                has_query = len(tensors) > len(shared)
                own = dataclasses.replace(
                    context,
                    seed=dropout.fold(context.seed, i),
                    matmul=self._matmul(h),
                )
                return block(
                    h,
                    g=tensors[-1] if has_query else None,
                    memory=past,
                    shared=tensors[: len(shared)],
                    streams=streams,
                    context=own,
                )[: 2 if has_query else 1]

            tensors = (h, *shared) + (() if g is None else (g,))
            # The backward pass begins with the last layer: nothing is gained
            # there, and an output that nobody reads stays free.
            last = i == config.n_layer - 1
            method = "none" if last else self.recompute
            result = recompute(run, method)(*tensors)
            h, g = result if g is not None else (result[0], None)
            states.append(h)
        kept = tuple(new_memory) if config.mem_len else None
        return h, g, kept, tuple(states)

    def shared_biases(self) -> tuple[tf.Tensor, ...]:
        """(u, v, s), each [N, H], of all layers; () where each has its own."""
        if self.config.untie_r:
            return ()
        biases = (self.r_w_bias, self.r_r_bias, self.r_s_bias)
        return tuple(tf.convert_to_tensor(b) for b in biases)

    def _matmul(self, h) -> Matmul:
        """For one layer, in the form for TPU where gradients come in order."""
        return TpuMatmul(h) if self.recompute in TPU_METHODS else Matmul()

    def _new_length(self, given):
        return memory.update_length(
            given.memory_length,
            given.batch_size,
            given.memory_len,
            given.query_len,
            self.config.mem_len,
            self.config.reuse_len,
        )

    def variable_paths(self) -> dict[str, str]:
        """The original's names below `model/transformer/` -> paths."""
        found = {}
        for name, path in self.embeddings.variable_paths().items():
            found[name] = f"embeddings/{path}"
        for i, block in enumerate(self.blocks):
            for name, path in block.variable_paths().items():
                found[f"layer_{i}/{name}"] = f"blocks/{i}/{path}"
        if not self.config.untie_r:
            for name in ("r_w_bias", "r_r_bias", "r_s_bias"):
                found[name] = name
        return found

    def get_config(self):
        return {
            "config": self.config.to_dict(),
            "recompute": self.recompute,
            "query_shift": self.query_shift,
            "blind_rows": self.blind_rows,
            "name": self.name,
            "dtype": self.dtype_policy.name,
        }


def _product(a, b):
    if a is None or b is None:
        return b if a is None else a
    return a * b


def _check_choice(name, value, choices):
    if value not in choices:
        raise ValueError(
            f"`{name}` must be one of {list(choices)}, received {value!r}"
        )
