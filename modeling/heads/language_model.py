"""The permutation language model: backbone, tied LM head, ablation head."""

import tensorflow as tf
import tf_keras

from modeling import losses
from modeling.heads.pooling import SequenceSummary
from modeling.ops import saving
from modeling.task_model import TaskModel, dense_paths, pooler_paths

# A variable of the ablation's head: canonical name, attribute path.
NEXT_SENTENCE = (
    "model/next_sentence/logit/kernel",
    "next_sentence_dense/kernel",
)


@tf_keras.utils.register_keras_serializable("xlnet")
class LanguageModelHead(saving.Layer):
    """The bias [V] beside the tied embedding; float32.

    Args:
      vocab_size: V.
    """

    def __init__(self, vocab_size: int, **kwargs):
        super().__init__(**(kwargs | {"dtype": "float32"}))
        self.vocab_size = vocab_size

    def build(self, input_shape):
        self.bias = self.add_weight("bias", [self.vocab_size], None, "zeros")
        super().build(input_shape)

    def call(self, hidden, table):
        """[..., D] and table [V, D] -> logits float32 [..., V]."""
        hidden = tf.cast(hidden, tf.float32)
        table = tf.cast(table, tf.float32)
        # Two matrices: with [B, P, D] the table's gradient would be made for
        # each of the B rows and then summed.
        flat = tf.reshape(hidden, [-1, table.shape[1]])  # [B*P, D]
        logits = tf.matmul(flat, table, transpose_b=True) + self.bias
        shape = tf.concat([tf.shape(hidden)[:-1], [self.vocab_size]], 0)
        logits = tf.reshape(logits, shape)
        logits.set_shape([*hidden.shape[:-1], self.vocab_size])
        return logits

    def get_config(self):
        return super().get_config() | {"vocab_size": self.vocab_size}


@tf_keras.utils.register_keras_serializable("xlnet")
class PretrainingModel(TaskModel):
    """XLNet's objective (section 2.3) on the backbone.

    A call is the backbone's: take `query_output` ([B, P, D]) to `lm_loss`.

    Args:
      config: an `EncoderConfig`, or its `to_dict()`.
      next_sentence: add the head of the paper's ablation (Table 6).
      **kwargs: of `TaskModel`.
    """

    head_arguments = ("next_sentence",)

    def __init__(self, config, next_sentence: bool = False, **kwargs):
        super().__init__(config, **kwargs)
        self.next_sentence = next_sentence
        self.lm_head = LanguageModelHead(self.config.vocab_size, name="lm_loss")
        self.lm_head.build(None)
        self.pooler = None
        self.next_sentence_dense = None
        if next_sentence:
            self.pooler = SequenceSummary(self.config, name="summary")
            self.pooler.build([None, None, self.config.d_model])
            self.next_sentence_dense = self.dense(2, "next_sentence")
            self.next_sentence_dense.build([None, self.config.d_model])

    @classmethod
    def options_of(cls, shape):
        return {"next_sentence": shape(NEXT_SENTENCE) is not None}

    def call(self, input_ids, training=False, seed=None, **arguments):
        """The encoder's `EncoderOutput`; arguments as the encoder's."""
        return self.encode(input_ids, training=training, seed=seed, **arguments)

    def lm_logits(self, hidden: tf.Tensor) -> tf.Tensor:
        """[B, P, D] -> float32 [B, P, V]."""
        return self.lm_head(hidden, self.encoder.embeddings.lookup_table)

    def lm_loss(
        self,
        hidden: tf.Tensor,
        target_ids: tf.Tensor,
        target_weights: tf.Tensor,
        chunk_size: int | None = None,
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Sums over the predicted tokens.

        Args:
          hidden: [B, P, D], `query_output`.
          target_ids: int [B, P].
          target_weights: [B, P], 0 in unused slots.
          chunk_size: rows of [B*P, V] logits alive at a time, recomputed in
            the backward pass; None = all.

        Returns:
          (loss sum, weight sum, weighted number of right first choices),
          float32.
        """
        if not chunk_size:
            logits = self.lm_logits(hidden)
            return losses.weighted_sums(logits, target_ids, target_weights)
        return losses.chunked_lm_sums(
            tf.reshape(tf.cast(hidden, tf.float32), [-1, hidden.shape[-1]]),
            self.encoder.embeddings.lookup_table,
            self.lm_head.bias,
            tf.reshape(target_ids, [-1]),
            tf.reshape(target_weights, [-1]),
            chunk_size,
        )

    def next_sentence_logits(
        self,
        sequence_output: tf.Tensor,
        input_mask: tf.Tensor | None = None,
        cls_index: tf.Tensor | None = None,
        training: bool = False,
        seed: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """float32 [B, 2] from CLS, the last token; 1 = B really follows A."""
        if self.pooler is None:
            raise ValueError(
                "this model has no next-sentence head: build it with "
                "`next_sentence=True`"
            )
        pooled = self.pooler(
            sequence_output,
            input_mask=input_mask,
            cls_index=cls_index,
            training=training,
            seed=self.head_seed(training, seed),
        )
        return self.next_sentence_dense(pooled)

    def head_variable_paths(self):
        found = {"model/lm_loss/bias": "lm_head/bias"}
        if self.next_sentence:
            scope = "model/next_sentence"
            found |= pooler_paths(scope, self.pooler)
            found |= dense_paths(f"{scope}/logit", "next_sentence_dense")
        return found
