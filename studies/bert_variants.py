"""BERT and ALBERT that differ from the released ones in one thing.

For the study of the unigram plateau (`studies.pretrain_variant`). A variant has
a `model_type` of its own, KIND_VARIANT: no other command reads its folder as a
BERT. Letters: B batch, T length, D model, E embedding, V vocabulary.
"""

import tensorflow as tf

from common.errors import UserError
from modeling.encoders.bert.backbone import BertModel
from modeling.encoders.bert.config import AlbertConfig, BertConfig
from modeling.encoders.bert.heads import BertLanguageModelHead
from modeling.encoders.bert.layer import BertAttention, BertLayer
from modeling.encoders.bert.nearest_attention import sinusoids
from modeling.ops import dropout, initializers
from modeling.ops.context import INFERENCE
from modeling.ops.feed_forward import ACTIVATIONS, FeedForward


class PreNormAttention(BertAttention):
    """x + dropout(O attention(LayerNorm(x)) + b)."""

    def call(self, x, mask=None, context=INFERENCE):
        """x [B, T, D], mask as in `BertAttention` -> [B, T, D]."""
        out = self.attended(self.norm(x), mask, context)
        out += tf.cast(self.biases["o"], out.dtype)
        seed = context.seed if context.training else None
        return x + dropout.dropout(
            out, self.config.dropout, seed, context.sites.output
        )


class PreNormFeedForward(FeedForward):
    """x + dropout(W2 act(W1 LayerNorm(x)))."""

    def call(self, x, context=INFERENCE):
        """x [B, T, D] -> [B, T, D]."""
        kernels = [tf.cast(k, x.dtype) for k in (self.kernel_1, self.kernel_2)]
        biases = [tf.cast(b, x.dtype) for b in (self.bias_1, self.bias_2)]
        inner = tf.einsum("btd,df->btf", self.norm(x), kernels[0]) + biases[0]
        inner = ACTIVATIONS[self.activation](inner)
        out = tf.einsum("btf,fd->btd", inner, kernels[1]) + biases[1]
        seed = context.seed if context.training else None
        return x + dropout.dropout(
            out, self.dropout_rate, seed, context.sites.feed_forward
        )


class UntiedHead(BertLanguageModelHead):
    """The head with a decoder [V, E] of its own."""

    def build(self, input_shape):
        shape = [self.vocab_size, self.config.d_embedding]
        initial = initializers.from_config(self.config)
        self.decoder = self.add_kept("decoder", shape, initial)
        super().build(input_shape)

    def call(self, hidden, table):
        """[B, P, D] -> logits float32 [B, P, V]; `table` is not read."""
        del table
        hidden = super().transform(hidden)
        return tf.einsum("bpe,ve->bpv", hidden, self.decoder) + self.bias

    def transform(self, hidden):
        """Refused: chunks of logits would read the word embeddings."""
        raise UserError("an untied decoder has no --loss_chunk_size")

    def variable_paths(self) -> dict[str, str]:
        return super().variable_paths() | {"decoder/kernel": "decoder"}


class VariantModel(BertModel):
    """A stack that the configuration's `variant` changes before it is built."""

    def build_variables(self, *layers):
        config = self.config
        self.scope = f"model/{config.base_type}/"
        if config.variant == "pre_norm":
            for block, _ in layers:
                if isinstance(block, BertLayer):
                    _put_norm_first(block)
        super().build_variables(*layers)
        table = self.embeddings.lookup_table
        if config.variant == "half_words":
            table.assign(table / 2.0)
        if config.variant == "double_words":
            table.assign(table * 2.0)
        if config.variant == "sinusoids":
            places = self.embeddings.position_table
            places.assign(sinusoids(*places.shape, config.init_std))

    def call(self, input_ids, positions=None, **more):
        """As `BertModel`."""
        if self.config.variant == "no_order":
            positions = tf.zeros_like(input_ids)
        return super().call(input_ids, positions=positions, **more)


def _put_norm_first(block: BertLayer) -> None:
    config = block.config
    common = {"dtype": block.dtype_policy}
    block.attention = PreNormAttention(config, name="attention", **common)
    block.ff = PreNormFeedForward(
        config.d_model,
        config.d_inner,
        config.ff_activation,
        config.dropout,
        0.0,
        initializers.from_config(config),
        config.layer_norm_eps,
        name="ff",
        **common,
    )


class PreNormBert(BertConfig):
    """BERT whose sublayers read normalised states."""

    model_type = "bert_pre_norm"
    base_type, variant = "bert", "pre_norm"


class UntiedBert(BertConfig):
    """BERT whose decoder is not its word embedding."""

    model_type = "bert_untied"
    base_type, variant = "bert", "untied"


class HalfWordsBert(BertConfig):
    """BERT whose word embeddings begin with half the deviation."""

    model_type = "bert_half_words"
    base_type, variant = "bert", "half_words"


class DoubleWordsBert(BertConfig):
    """BERT whose word embeddings begin with twice the deviation."""

    model_type = "bert_double_words"
    base_type, variant = "bert", "double_words"


class NoOrderBert(BertConfig):
    """BERT whose tokens all have the first position."""

    model_type = "bert_no_order"
    base_type, variant = "bert", "no_order"


class SinusoidsBert(BertConfig):
    """BERT whose table of positions begins as sinusoids."""

    model_type = "bert_sinusoids"
    base_type, variant = "bert", "sinusoids"


class SinusoidsAlbert(AlbertConfig):
    """ALBERT whose table of positions begins as sinusoids."""

    model_type = "albert_sinusoids"
    base_type, variant = "albert", "sinusoids"
