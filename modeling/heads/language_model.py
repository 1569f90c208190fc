"""Language models: encoder, tied LM head, head for pairs of segments."""

import tensorflow as tf

from common.heads import SUMMARY_SCOPE
from common.references import resolve
from modeling import losses
from modeling.encoders.base import ConfiguredLayer
from modeling.encoders.contract import EncoderConfig
from modeling.encoders.registry import spec_of
from modeling.heads.pooling import build_pooler
from modeling.models.task_model import TaskModel, dense_paths, pooler_paths
from modeling.ops import tied

# A variable of the ablation's head: canonical name, attribute path.
NEXT_SENTENCE = (
    "model/next_sentence/logit/kernel",
    "next_sentence_dense/kernel",
)


class LanguageModelHead(ConfiguredLayer):
    """The bias [V] beside the tied embedding; float32.

    Encoders may have another (`EncoderSpec.lm_head`), a subclass that does
    something before the decoder.
    """

    def __init__(self, config: EncoderConfig | dict, **kwargs):
        # What comes keeps its type, which `call` asks for.
        own = {"dtype": "float32", "autocast": False}
        super().__init__(config, **(kwargs | own))
        self.vocab_size = self.config.vocab_size

    def build(self, input_shape):
        self.bias = self.add_weight("bias", [self.vocab_size], None, "zeros")
        super().build(input_shape)

    def transform(self, hidden: tf.Tensor) -> tf.Tensor:
        """What the decoder takes: [..., D] -> float32 [..., E]; here itself."""
        return tf.cast(hidden, tf.float32)

    def call(self, hidden, table):
        """[..., D] and table [V, E] -> logits float32 [..., V]."""
        dtype, hidden = hidden.dtype, self.transform(hidden)
        table = tf.cast(table, tf.float32)
        # Two matrices: with [B, P, D] the table's gradient would be made for
        # each of the B rows and then summed.
        flat = tf.reshape(hidden, [-1, table.shape[1]])  # [B*P, E]
        logits = tied.logits(flat, table, dtype) + self.bias
        shape = tf.concat([tf.shape(hidden)[:-1], [self.vocab_size]], 0)
        logits = tf.reshape(logits, shape)
        logits.set_shape([*hidden.shape[:-1], self.vocab_size])
        return logits

    def variable_paths(self) -> dict[str, str]:
        """Names below `model/lm_loss` -> attribute paths."""
        return {"bias": "bias"}


class PretrainingModel(TaskModel):
    """What language modelling objectives need on top of an encoder.

    A call is the encoder's: with a query stream take `query_output`
    ([B, P, D]) to `lm_loss` (XLNet, section 2.3), else the rows of
    `sequence_output` at the targets.

    Args:
      next_sentence: add the head for pairs of segments: that of the paper's
        ablation (Table 6), BERT's NSP, ALBERT's SOP.
    """

    def __init__(self, config, next_sentence: bool = False, **kwargs):
        super().__init__(config, **kwargs)
        self.next_sentence = next_sentence
        head = resolve(spec_of(self.config.model_type).lm_head)
        self.lm_head = head(self.config, name="lm_loss")
        self.lm_head.build(None)
        self.pooler = None
        self.next_sentence_dense = None
        if next_sentence:
            self.pooler = build_pooler(self.config)
            self.next_sentence_dense = self.dense(2, "next_sentence")

    @classmethod
    def options_of(cls, shape):
        return {"next_sentence": shape(NEXT_SENTENCE) is not None}

    def call(self, input_ids, training=False, seed=None, **arguments):
        """The encoder's `EncoderOutput`; arguments as the encoder's."""
        return self.encode(
            input_ids, training=training, seed=seed, tied_head=True, **arguments
        )

    def table(self, tables: tuple[tf.Tensor, ...] | None = None):
        """What the decoder is tied to, [V, E]; `tables` of the encoder's output.

        With them the gradient of the rows is added to the head's where it lies.
        """
        return tables[0] if tables else self.encoder.embeddings.lookup_table

    def lm_logits(self, hidden: tf.Tensor, tables=None) -> tf.Tensor:
        """[B, P, D] -> float32 [B, P, V]; `tables` as `table`'s."""
        return self.lm_head(hidden, self.table(tables))

    def lm_loss(
        self,
        hidden: tf.Tensor,
        target_ids: tf.Tensor,
        target_weights: tf.Tensor,
        chunk_size: int | None = None,
        tables: tuple[tf.Tensor, ...] | None = None,
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """(loss sum, weight sum, weighted count of right answers), float32.

        Args:
          hidden: [B, P, D], `query_output` or content at the targets.
          target_ids: int [B, P].
          target_weights: [B, P], 0 in unused slots.
          chunk_size: rows of [B*P, V] logits alive at a time, recomputed in
            the backward pass; None = all.
          tables: as `table`'s.
        """
        if not chunk_size:
            logits = self.lm_logits(hidden, tables)
            return losses.weighted_sums(logits, target_ids, target_weights)
        dtype, hidden = hidden.dtype, self.lm_head.transform(hidden)
        return losses.chunked_lm_sums(
            tf.reshape(hidden, [-1, hidden.shape[-1]]),
            self.table(tables),
            self.lm_head.bias,
            tf.reshape(target_ids, [-1]),
            tf.reshape(target_weights, [-1]),
            chunk_size,
            dtype,
        )

    def next_sentence_logits(
        self,
        sequence_output: tf.Tensor,
        input_mask: tf.Tensor | None = None,
        cls_index: tf.Tensor | None = None,
        training: bool = False,
        seed: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """float32 [B, 2] from CLS.

        XLNet's ablation has 1 = B really follows A; BERT's and ALBERT's files
        have 0 = follows, in order. Where CLS comes first nothing is dropped
        between the pooler and the logits, as in the released code of both;
        XLNet's, which has no such head, takes its classifier's dropout.
        """
        if self.pooler is None:
            raise ValueError(
                "this model has no next-sentence head: build it with "
                "`next_sentence=True`"
            )
        spec = spec_of(self.config.model_type)
        training = training and spec.capabilities.layout != "cls_first"
        pooled = self.pooler(
            sequence_output,
            input_mask=input_mask,
            cls_index=cls_index,
            training=training,
            seed=self.head_seed(training, seed),
        )
        return self.next_sentence_dense(pooled)

    def head_variable_paths(self):
        paths = {
            f"model/lm_loss/{name}": f"lm_head/{path}"
            for name, path in self.lm_head.variable_paths().items()
        }
        if self.next_sentence:
            scope = "model/next_sentence"
            # Where CLS comes first, fine-tuning goes on with the pooler. One
            # whose scope is that of the language model is apart here.
            spec = spec_of(self.config.model_type)
            kept = scope
            if spec.capabilities.layout == "cls_first":
                kept = scope if self.pooler.scope else SUMMARY_SCOPE
            paths |= pooler_paths(kept, self.pooler, own_scope=False)
            paths |= dense_paths(f"{scope}/logit", "next_sentence_dense")
        return paths
