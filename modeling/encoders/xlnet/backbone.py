"""The backbone: ids, masks and memory in; hidden states and new memory out."""

import tensorflow as tf

from modeling.attention import masks, memory
from modeling.attention.attend import Stream, Streams
from modeling.encoders.base import EncoderOutput
from modeling.encoders.stack import RecurrentStack, check_choice
from modeling.encoders.xlnet import inputs as inputs_lib
from modeling.encoders.xlnet.config import XLNetConfig
from modeling.encoders.xlnet.embeddings import Embeddings
from modeling.encoders.xlnet.layer import TransformerLayer
from modeling.encoders.xlnet.names import BIASES, SCOPE
from modeling.ops import dropout, initializers, tied
from modeling.ops.packing import Packing


class XLNetModel(RecurrentStack):
    """Two-stream Transformer-XL (XLNet, section 2).

    Calls are pure: memory comes in and goes out. Variables exist as soon as
    the model does.

    Args:
      config: `XLNetConfig`, or its `to_dict()`.
      recompute: "none"; "layer" runs each layer again in the backward pass
        instead of keeping its activations; "layer_barrier" is the form that
        the TPU compiler does not undo, and "order" keeps all but finishes the
        gradients of layers one by one (compiled functions only).
      query_shift: how position scores are aligned, see `RecurrentStack`.
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
      documents: int [B, T], of packed rows: tokens see their document only.
        Distances are those within the row: a document's tokens stand side by
        side. Not with `memory`.
      memory: tuple of L tensors [B, M, D].
      memory_length: int [B], the last so many slots are valid; None = all.
      bi_data: the second half of the rows is backward.
      seed: int [2], needed for dropout.
      output_hidden_states: also return every layer's content stream.
      tied_head: in training, also return the `tables` that a tied head takes.
    """

    scope = SCOPE
    options = ("recompute", "query_shift", "blind_rows")
    bias_names = BIASES
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
        if isinstance(config, dict):
            config = XLNetConfig.from_dict(config)
        super().__init__(config, recompute, query_shift, **kwargs)
        self.blind_rows = blind_rows or config.blind_rows
        check_choice("blind_rows", self.blind_rows, ("zero", "original"))
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
        self.build_variables()

    def packed_arguments(self, packing: Packing) -> dict[str, tf.Tensor]:
        """See `Encoder`; distances need no positions."""
        return {"documents": packing.documents()}

    @property
    def has_factors(self) -> bool:
        return self.config.clamp_len <= 0

    @property
    def shares_biases(self) -> bool:
        return not self.config.untie_r

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
        documents=None,
        memory=None,
        memory_length=None,
        bi_data=False,
        training=False,
        seed=None,
        output_hidden_states=False,
        tied_head=False,
    ):
        """Runs the backbone, see the class; returns `EncoderOutput`."""
        config = self.config
        context = self.begin(training, seed, packed=documents is not None)
        past = self.memory_of_layers(memory)
        inputs = inputs_lib.check(
            input_ids=input_ids,
            perm_mask=perm_mask,
            ranks=ranks,
            is_target=is_target,
            target_positions=target_positions,
            target_mapping=target_mapping,
            query_input=query_input,
            documents=documents,
            memory=past[0],
            memory_length=memory_length,
            bi_data=bi_data,
        )

        # -- Once for all layers --
        outer = self.outer_seed(context)
        reader = tied.Reader(training and tied_head)
        h, g = self._start(reader, input_ids, inputs, outer)
        table = self._positions(inputs, bi_data, outer)
        streams = self._streams(inputs, segment_ids, input_mask)

        # -- Layers --
        rows = self.run(
            _applied_layers(self.blocks, streams, past),
            (h,) if g is None else (h, g),
            context,
            (table, *self.shared_biases()),
        )
        states = (h, *rows.outputs)
        return EncoderOutput(
            *self._end(rows.streams, outer),
            self.new_memory(rows.inputs, past, config.reuse_len),
            self._new_length(inputs),
            states if output_hidden_states else None,
            reader.tables,
        )

    def _start(self, reader, input_ids, inputs, seed):
        """h [B, T, D] and g [B, P, D] of the first layer; g may be None."""
        rate = self.config.dropout
        h = self.embeddings(input_ids, reader)  # [B, T, D]
        g = self._query_start(h, inputs)
        h = dropout.dropout(h, rate, seed, dropout.EMBEDDING)
        if g is not None:
            g = dropout.dropout(g, rate, seed, dropout.QUERY_EMBEDDING)
        return h, g

    def _end(self, streams, seed):
        """h [B, T, D] and g [B, P, D] after the last dropout; g may be None."""
        rate = self.config.dropout
        h = dropout.dropout(streams[0], rate, seed, dropout.FINAL)
        if len(streams) == 1:
            return h, None
        return h, dropout.dropout(streams[1], rate, seed, dropout.QUERY_FINAL)

    def _query_start(self, h, inputs):
        """[B, P, D], [B, T, D] or None."""
        if inputs.target_positions is not None:
            count = inputs.target_positions.shape[1]
            if count is None:
                count = tf.shape(inputs.target_positions)[1]
            return self.embeddings.query_rows(inputs.batch_size, count)
        if inputs.query_input is not None:
            return self.embeddings.mixed_rows(h, inputs.query_input)
        return None

    def _positions(self, inputs, bi_data, seed):
        config = self.config
        return self.position_table(
            inputs.query_len,
            inputs.memory_len + inputs.query_len,
            config.attn_type,
            config.clamp_len,
            bi_data,
            seed,
        )

    def _streams(self, inputs, segment_ids, input_mask) -> Streams:
        config = self.config
        rows = inputs.target_positions
        two_streams = rows is not None or inputs.query_input is not None
        biases = masks.attention_masks(
            inputs.query_len,
            inputs.memory_len,
            config.attn_type,
            config.same_length,
            inputs.perm_mask,
            input_mask,
            inputs.memory_length,
            rows,
            two_streams,
        )
        content_segments = masks.segment_difference(
            segment_ids, inputs.memory_len, None, self.compute_dtype
        )
        content, query = Stream(biases.content, content_segments), None
        if two_streams:
            query_segments = content_segments
            if rows is not None:
                query_segments = masks.segment_difference(
                    segment_ids, inputs.memory_len, rows, self.compute_dtype
                )
            visible = (
                biases.query_visible if self.blind_rows == "zero" else None
            )
            gate = _product(visible, inputs.used_rows)
            query = Stream(biases.query, query_segments, rows, gate)
        return Streams(content, query, self.shift_method())

    def _new_length(self, inputs):
        return memory.update_length(
            inputs.memory_length,
            inputs.batch_size,
            inputs.memory_len,
            inputs.query_len,
            self.config.mem_len,
            self.config.reuse_len,
        )


def _applied_layers(blocks, streams, memory):
    """The blocks as `Stack.run` takes them."""

    def applied(block, layer_memory):
        return lambda rows, shared, context: block(
            *rows,
            memory=layer_memory,
            shared=shared,
            streams=streams,
            context=context,
        )[: len(rows)]

    return [applied(*pair) for pair in zip(blocks, memory, strict=True)]


def _product(a, b):
    if a is None or b is None:
        return b if a is None else a
    return a * b
