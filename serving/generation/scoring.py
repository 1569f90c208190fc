"""Log-probability of a text under factorization orders.

A text of more than T tokens is read in segments; each leaves its content
stream as memory for the next one. Within a segment the order decides who sees
whom; the memory is seen by all.
"""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from modeling import PretrainingModel


class Score(NamedTuple):
    """One text under one order.

    Attributes:
      log_probs: float32 [n] per token, in text order.
      orders: the order of each segment, as positions in the segment.
    """

    log_probs: np.ndarray
    orders: list[np.ndarray]

    @property
    def total(self) -> float:
        """Log-probability of the text."""
        return float(np.sum(self.log_probs, dtype=np.float64))


class Scorer:
    """Scores token ids.

    Args:
      model: with all weights, built without memory of its own.
      segment_len: T.
      memory_len: M kept from segment to segment; 0 = none.
    """

    def __init__(
        self, model: PretrainingModel, segment_len: int, memory_len: int
    ):
        self.model = model
        self.segment_len = segment_len
        self.memory_len = memory_len
        self._run = tf.function(self._segment, reduce_retracing=True)

    def score(
        self, ids: np.ndarray, order: str, seed: int, context: int = 0
    ) -> Score:
        """Scores one text.

        Args:
          ids: int32 [n].
          order: "left_to_right", "right_to_left" or "random".
          seed: of "random".
          context: so many first tokens are given, not scored (they must lie
            in the first segment).
        """
        rng = np.random.default_rng(seed & 0xFFFFFFFF)
        config = self.model.config
        memory = tf.zeros([config.n_layer, 1, 0, config.d_model])
        log_probs, orders = [], []
        for begin in range(0, len(ids), self.segment_len):
            part = ids[begin : begin + self.segment_len]
            given = min(max(context - begin, 0), len(part))
            places = np.arange(given, len(part))
            if order == "right_to_left":
                places = places[::-1]
            elif order == "random":
                places = rng.permutation(places)
            ranks = np.full(len(part), -1, np.int32)
            ranks[places] = np.arange(len(places))
            found, memory = self._run(
                tf.constant(part[np.newaxis], tf.int32),
                tf.constant(ranks[np.newaxis]),
                memory,
            )
            log_probs.append(found.numpy()[0][given:])
            orders.append(places)
        return Score(np.concatenate(log_probs), orders)

    def _segment(self, ids, ranks, memory):
        length = tf.shape(ids)[1]
        past = tuple(tf.unstack(memory))
        output = self.model(
            ids,
            ranks=ranks,
            is_target=ranks >= 0,
            target_positions=tf.range(length)[tf.newaxis],
            memory=past,
            training=False,
            output_hidden_states=True,
        )
        logits = self.model.lm_logits(output.query_output)  # [1, T, V]
        log_probs = tf.gather(
            tf.nn.log_softmax(logits), ids, batch_dims=2
        )  # [1, T]
        if not self.memory_len:
            return log_probs, memory
        states = tf.cast(tf.stack(output.hidden_states[:-1]), memory.dtype)
        memory = tf.concat([memory, states], 2)[:, :, -self.memory_len :]
        return log_probs, memory
