"""ModernBERT: ids and masks in, hidden states out."""

import tensorflow as tf

from modeling.attention import local, plain, rotary
from modeling.encoders.base import ConfiguredLayer, EncoderOutput
from modeling.encoders.modernbert.config import ModernBertConfig
from modeling.encoders.modernbert.layer import ModernBertLayer, Surroundings
from modeling.encoders.registry import config_from_dict
from modeling.encoders.stack import Stack
from modeling.ops import dropout, initializers, tied
from modeling.ops.normalization import LayerNorm
from modeling.ops.shapes import sizes


class ModernBertEmbeddings(ConfiguredLayer):
    """dropout(LayerNorm(word)); positions enter the attention only.

    Call: ids int [B, T] -> float32 [B, T, D], the residual stream of
    `modeling.encoders.modernbert.layer`.
    """

    def __init__(self, config: ModernBertConfig | dict, **kwargs):
        super().__init__(config, **kwargs)
        self.norm = LayerNorm(
            self.config.norm_eps,
            use_bias=False,
            name="LayerNorm",
            dtype="float32",
        )

    def build(self, input_shape):
        config = self.config
        self.lookup_table = self.add_kept(
            "lookup_table",
            [config.vocab_size, config.d_model],
            initializers.from_config(config),
        )
        with tf.name_scope("LayerNorm"):
            self.norm.build([None, None, config.d_model])
        super().build(input_shape)

    def call(self, ids, seed=None, reader=tied.PLAIN):
        """See the class; `seed`: int32 [2] of the outer sites, or None."""
        rows = self.norm(reader(self.lookup_table, ids))
        return dropout.dropout(
            rows, self.config.dropout, seed, dropout.EMBEDDING
        )

    def variable_paths(self) -> dict[str, str]:
        """Canonical names -> attribute paths."""
        return {
            "word_embedding/lookup_table": "lookup_table",
            "embedding/LayerNorm/gamma": "norm/gamma",
        }


class ModernBertModel(Stack):
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
      seed: int [2], needed for dropout.
      output_hidden_states: also return the embeddings and the stream after
        each layer, before the last norm; float32 under any policy.
      tied_head: in training, also return the `tables` that a tied head takes.
    """

    scope = "model/modernbert/"

    def __init__(
        self,
        config: ModernBertConfig | dict,
        recompute: str = "none",
        **kwargs,
    ):
        config = config_from_dict(config)
        super().__init__(config, recompute, **kwargs)
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
        parts = [*self.blocks, self.final_norm]
        self.build_variables(*((part, config.d_model) for part in parts))

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
        tied_head=False,
    ):
        """Runs the encoder, see the class; returns `EncoderOutput`."""
        del segment_ids
        context = self.begin(training, seed, packed=documents is not None)
        reader = tied.Reader(training and tied_head)
        h = self.embeddings(input_ids, self.outer_seed(context), reader)
        wide, near = self.surroundings(
            input_ids, input_mask, positions, documents
        )

        def applied(number, block):
            around = wide if self.config.is_global(number) else near
            return lambda rows, _, context: (block(*rows, around, context),)

        rows = self.run(
            [applied(i, block) for i, block in enumerate(self.blocks)],
            (h,),
            context,
        )
        return EncoderOutput(
            self.final_norm(rows.streams[0]),
            hidden_states=(h, *rows.outputs) if output_hidden_states else None,
            tables=reader.tables,
        )

    def variable_paths(self) -> dict[str, str]:
        final = {"final/LayerNorm/gamma": "final_norm/gamma"}
        return super().variable_paths() | final
