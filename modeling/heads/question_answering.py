"""Extractive question answering: start and end beams, answerability.

The original's head conditions the end on the start and has a logit for "no
answer". Models that others trained often have two independent logits per token
(`independent`); for them CLS as start and end stands for "no answer".
"""

from typing import NamedTuple

import tensorflow as tf

from common.heads import SPAN_LOGIT
from modeling.attention.masks import MASK_VALUE
from modeling.encoders.registry import spec_of
from modeling.heads.pooling import (
    build_pooler,
    end_of_row,
    has_prediction_head,
)
from modeling.models.task_model import TaskModel, dense_paths, pooler_paths
from modeling.ops import dropout
from modeling.ops.normalization import LayerNorm

_LONGEST = 2**15  # of a row's tokens


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


class SpanModel(TaskModel):
    """Question answering as in the original's SQuAD head.

    Args:
      start_n_top: S, start beam.
      end_n_top: E, end beam.
      independent: start and end have a logit each, and nothing else.
      use_proj: those logits read the pooler's projection of every token.
    """

    def __init__(
        self,
        config,
        start_n_top: int = 5,
        end_n_top: int = 5,
        independent: bool = False,
        use_proj: bool = False,
        **kwargs,
    ):
        super().__init__(config, **kwargs)
        self.start_n_top = start_n_top
        self.end_n_top = end_n_top
        self.independent = independent
        self.use_proj = use_proj
        d = self.config.d_model
        if independent:
            self.pooler = None
            if use_proj:
                self.pooler = build_pooler(self.config, "first")
            self.span_dense = self.dense(2, "span_logits")
            return
        if use_proj:
            raise ValueError("`use_proj` is for `independent` logits")
        self.start_dense = self.dense(1, "start_logits")
        self.end_dense_0 = self.dense(d, "end_logits_0", 2 * d)
        self.end_norm = LayerNorm(name="end_norm", dtype="float32")
        self.end_norm.build([None, d])
        self.end_dense_1 = self.dense(1, "end_logits_1")
        self.answer_dense_0 = self.dense(
            d, "answer_0", 2 * d, activation="tanh"
        )
        self.answer_dense_1 = self.dense(1, "answer_1", use_bias=False)

    @classmethod
    def options_of(cls, shape):
        conditioned = ("start_logits/dense/kernel", "start_dense/kernel")
        own = (f"{SPAN_LOGIT}/kernel", "span_dense/kernel")
        if shape(own) is None or shape(conditioned) is not None:
            return {}
        return {"independent": True, "use_proj": has_prediction_head(shape)}

    def call(
        self,
        input_ids,
        paragraph_mask=None,
        cls_index=None,
        start_positions=None,
        training=False,
        seed=None,
        longest=None,
        **arguments,
    ):
        """`SpanTrainingOutput` with `start_positions`, else `SpanOutput`.

        Args:
          input_ids: int [B, T].
          paragraph_mask: [B, T], 1 = may hold an answer; None = all.
          cls_index: int [B], position of CLS; None = the last or the first
            real token, by the encoder's layout.
          start_positions: int [B], true starts; None = search by beams.
          seed: int32 [2].
          longest: tokens of the longest span that `independent` logits search,
            an int; None = any.
        """
        hidden = self.encode(
            input_ids, training=training, seed=seed, **arguments
        ).sequence_output
        hidden = tf.cast(hidden, tf.float32)  # [B, T, D]
        if cls_index is None:
            cls_index = self._cls_index(hidden, arguments.get("input_mask"))
        if self.independent:
            trained = start_positions is not None
            return self._independent(
                hidden, paragraph_mask, cls_index, trained, longest
            )

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
        return self._beams(top, index, end_top, end_index, cls_logits)

    def _beams(self, top, index, end_top, end_index, cls_logits):
        """`SpanOutput` of ends [B, S, E]."""
        flat = [-1, self.start_n_top * self.end_n_top]
        return SpanOutput(
            top,
            index,
            tf.reshape(end_top, flat),
            tf.reshape(end_index, flat),
            cls_logits,
        )

    def _independent(
        self, hidden, paragraph_mask, cls_index, training, longest
    ):
        """`call` of two logits per token, hidden states float32 [B, T, D].

        Starts are those of the best spans whose end is not before the start,
        of at most `longest` tokens, and without CLS; ends are theirs.
        """
        longest = longest or _LONGEST
        if self.pooler is not None:
            hidden = self.pooler.projection(hidden)
        pair = self.span_dense(hidden)  # [B, T, 2]
        starts = tf.nn.log_softmax(_hide(pair[..., 0], paragraph_mask))
        ends = tf.nn.log_softmax(_hide(pair[..., 1], paragraph_mask))
        position = tf.range(tf.shape(ends)[1])
        at_cls = tf.equal(position, cls_index[:, tf.newaxis])  # [B, T]
        inside = tf.where(at_cls, MASK_VALUE, ends)
        best = starts + _best_from_here(inside, longest)
        best = tf.where(at_cls, MASK_VALUE, best)
        cls = tf.where(at_cls, starts + ends, 0.0)
        cls_logits = tf.reduce_sum(cls, 1) - tf.reduce_max(best, 1)
        if training:
            return SpanTrainingOutput(starts, ends, cls_logits)
        _, index = tf.math.top_k(best, self.start_n_top)  # [B, S]
        size = position - index[..., tf.newaxis] + 1  # [B, S, T]
        fits = (size > 0) & (size <= longest)
        fitting = tf.where(fits, inside[:, tf.newaxis], MASK_VALUE)
        end_top, end_index = tf.math.top_k(fitting, self.end_n_top)
        top = tf.gather(starts, index, batch_dims=1)
        return self._beams(top, index, end_top, end_index, cls_logits)

    def _cls_index(self, hidden, input_mask):
        """int32 [B]."""
        kind = spec_of(self.config.model_type).capabilities.summary_type
        if input_mask is None:
            batch, length = tf.shape(hidden)[0], tf.shape(hidden)[1]
            return tf.fill([batch], length - 1 if kind == "last" else 0)
        return end_of_row(input_mask, kind)

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
        if self.independent:
            own = dense_paths(SPAN_LOGIT, "span_dense")
            if self.pooler is None:
                return own
            return own | pooler_paths(SPAN_LOGIT, self.pooler)
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


def _best_from_here(scores, longest):
    """[B, T] -> [B, T]: the largest of `longest` places from each one on."""
    length, best, covered = tf.shape(scores)[1], scores, 1
    while covered < longest:  # twice as far in every step
        step = min(covered, longest - covered)
        gap = tf.minimum(step, length)
        moved = tf.pad(
            best[:, gap:], [[0, 0], [0, gap]], constant_values=MASK_VALUE
        )
        best = tf.maximum(best, moved)
        covered += step
    return best


def _hide(logits, paragraph_mask):
    """-1e30 where no answer may be; equal there, so ties go by position."""
    if paragraph_mask is None:
        return logits
    allowed = tf.cast(paragraph_mask, tf.float32)
    return logits * allowed + MASK_VALUE * (1.0 - allowed)
