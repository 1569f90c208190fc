"""Extractive question answering: start and end beams, answerability."""

from typing import NamedTuple

import tensorflow as tf
import tf_keras

from modeling.attention.masks import MASK_VALUE
from modeling.encoders.registry import spec_of
from modeling.ops import dropout
from modeling.ops.normalization import LayerNorm
from modeling.task_model import TaskModel, dense_paths


class SpanTrainingOutput(NamedTuple):
    """With `start_positions`: the end is conditioned on the true start.

    Attributes:
      start_log_probs: float32 [B, T].
      end_log_probs: float32 [B, T].
      cls_logits: float32 [B], > 0 means no answer.
    """

    start_log_probs: tf.Tensor
    end_log_probs: tf.Tensor
    cls_logits: tf.Tensor


class SpanOutput(NamedTuple):
    """Beams: the best S starts, for each of them the best E ends.

    Attributes:
      start_top_log_probs: float32 [B, S].
      start_top_index: int32 [B, S].
      end_top_log_probs: float32 [B, S*E], entry i*E + j is end j of start i.
      end_top_index: int32 [B, S*E].
      cls_logits: float32 [B], > 0 means no answer.
    """

    start_top_log_probs: tf.Tensor
    start_top_index: tf.Tensor
    end_top_log_probs: tf.Tensor
    end_top_index: tf.Tensor
    cls_logits: tf.Tensor


@tf_keras.utils.register_keras_serializable("xlnet")
class SpanModel(TaskModel):
    """Question answering as in the original's SQuAD head.

    Args:
      config: an `EncoderConfig`, or its `to_dict()`.
      start_n_top: S, start beam.
      end_n_top: E, end beam.
      **kwargs: of `TaskModel`.
    """

    head_arguments = ("start_n_top", "end_n_top")

    def __init__(
        self, config, start_n_top: int = 5, end_n_top: int = 5, **kwargs
    ):
        super().__init__(config, **kwargs)
        self.start_n_top = start_n_top
        self.end_n_top = end_n_top
        d = self.config.d_model
        self.start_dense = self.dense(1, "start_logits")
        self.start_dense.build([None, d])
        self.end_dense_0 = self.dense(d, "end_logits_0")
        self.end_dense_0.build([None, 2 * d])
        self.end_norm = LayerNorm(name="end_norm", dtype="float32")
        self.end_norm.build([None, d])
        self.end_dense_1 = self.dense(1, "end_logits_1")
        self.end_dense_1.build([None, d])
        self.answer_dense_0 = self.dense(d, "answer_0", activation="tanh")
        self.answer_dense_0.build([None, 2 * d])
        self.answer_dense_1 = self.dense(1, "answer_1", use_bias=False)
        self.answer_dense_1.build([None, d])

    def call(
        self,
        input_ids,
        paragraph_mask=None,
        cls_index=None,
        start_positions=None,
        training=False,
        seed=None,
        **arguments,
    ):
        """Scores the spans of a paragraph.

        Args:
          input_ids: int [B, T].
          paragraph_mask: [B, T], 1 = may hold an answer; None = all.
          cls_index: int [B], position of CLS; None = the last or the first
            real token, by the encoder's layout.
          start_positions: int [B], true starts; None = search by beams.
          training: apply dropout.
          seed: int32 [2].
          **arguments: of the encoder's call.

        Returns:
          `SpanTrainingOutput` with `start_positions`, else `SpanOutput`.
        """
        hidden = self.encode(
            input_ids, training=training, seed=seed, **arguments
        ).sequence_output
        hidden = tf.cast(hidden, tf.float32)  # [B, T, D]
        if cls_index is None:
            cls_index = self._cls_index(hidden, arguments.get("input_mask"))

        logits = tf.squeeze(self.start_dense(hidden), -1)  # [B, T]
        logits = _hide(logits, paragraph_mask)
        start_log_probs = tf.nn.log_softmax(logits)
        cls_logits = self._answerability(
            hidden, tf.exp(start_log_probs), cls_index, training, seed
        )
        if start_positions is not None:
            start = tf.gather(hidden, start_positions, batch_dims=1)
            ends = self._end_log_probs(
                hidden, start[:, tf.newaxis], paragraph_mask
            )
            return SpanTrainingOutput(start_log_probs, ends[:, 0], cls_logits)

        top, index = tf.math.top_k(start_log_probs, self.start_n_top)
        starts = tf.gather(hidden, index, batch_dims=1)  # [B, S, D]
        ends = self._end_log_probs(hidden, starts, paragraph_mask)
        end_top, end_index = tf.math.top_k(ends, self.end_n_top)  # [B, S, E]
        flat = [-1, self.start_n_top * self.end_n_top]
        return SpanOutput(
            top,
            index,
            tf.reshape(end_top, flat),
            tf.reshape(end_index, flat),
            cls_logits,
        )

    def _cls_index(self, hidden, input_mask):
        """int32 [B]."""
        kind = spec_of(self.config.model_type).capabilities.summary_type
        if kind == "last":
            return _last_real(hidden, input_mask)
        if input_mask is None:
            return tf.zeros([tf.shape(hidden)[0]], tf.int32)
        real = tf.cast(tf.cast(input_mask, tf.bool), tf.int32)
        return tf.argmax(real, 1, tf.int32)

    def _end_log_probs(self, hidden, starts, paragraph_mask):
        """[B, T, D] and starts [B, S, D] -> [B, S, T].

        The first layer takes [token, start]; its two halves are applied
        apart, so that each is made once and not S or T times.
        """
        d = self.config.d_model
        kernel = tf.cast(self.end_dense_0.kernel, hidden.dtype)  # [2D, D]
        tokens = tf.einsum("btd,de->bte", hidden, kernel[:d])
        starts = tf.einsum("bsd,de->bse", starts, kernel[d:])
        x = tokens[:, tf.newaxis] + starts[:, :, tf.newaxis]  # [B, S, T, D]
        x = self.end_norm(tf.tanh(x + self.end_dense_0.bias))
        logits = tf.squeeze(self.end_dense_1(x), -1)  # [B, S, T]
        if paragraph_mask is not None:
            paragraph_mask = paragraph_mask[:, tf.newaxis]
        return tf.nn.log_softmax(_hide(logits, paragraph_mask))

    def _answerability(self, hidden, start_probs, cls_index, training, seed):
        """[B]: the expected start and CLS decide whether there is an answer."""
        start = tf.einsum("bt,btd->bd", start_probs, hidden)
        cls = tf.gather(hidden, cls_index, batch_dims=1)  # [B, D]
        x = self.answer_dense_0(tf.concat([start, cls], -1))
        x = dropout.dropout(
            x,
            self.config.dropout,
            self.head_seed(training, seed),
            dropout.HEAD,
        )
        return tf.squeeze(self.answer_dense_1(x), -1)

    def head_variable_paths(self):
        return (
            dense_paths("start_logits/dense", "start_dense")
            | dense_paths("end_logits/dense_0", "end_dense_0")
            | {
                "end_logits/LayerNorm/gamma": "end_norm/gamma",
                "end_logits/LayerNorm/beta": "end_norm/beta",
            }
            | dense_paths("end_logits/dense_1", "end_dense_1")
            | dense_paths("answer_class/dense_0", "answer_dense_0")
            | dense_paths("answer_class/dense_1", "answer_dense_1", False)
        )


def _hide(logits, paragraph_mask):
    """-1e30 where no answer may be; equal there, so ties go by position."""
    if paragraph_mask is None:
        return logits
    allowed = tf.cast(paragraph_mask, tf.float32)
    return logits * allowed + MASK_VALUE * (1.0 - allowed)


def _last_real(hidden, input_mask):
    """int32 [B]."""
    batch, length = tf.shape(hidden)[0], tf.shape(hidden)[1]
    if input_mask is None:
        return tf.fill([batch], length - 1)
    real = tf.cast(tf.cast(input_mask, tf.bool), tf.int32)
    return length - 1 - tf.argmax(tf.reverse(real, [1]), 1, tf.int32)
