"""Log-probabilities of given texts by a left-to-right language model.

Every text is read by itself from an empty memory, in segments of T tokens, many
texts at a time; neither their order nor their company changes a number beyond
rounding.

Letters: B texts at a time, T segment length, M memory slots, D model.
"""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from modeling.heads.causal_lm import CausalLanguageModel


class CausalScorer:
    """Scores token ids."""

    def __init__(
        self,
        model: CausalLanguageModel,
        segment_len: int = 128,
        batch_size: int = 8,
    ):
        self.model = model
        self.segment_len = segment_len
        self.batch_size = batch_size
        self._run = tf.function(self._segment, autograph=False)

    def score(self, texts: Sequence[np.ndarray]) -> list[np.ndarray]:
        """float32 [n - 1] for each text int [n]: all tokens but the first.

        A token that the first one shall be predicted from (`<eos>`, the end
        of a line before) goes in front of the text.
        """
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        scores: list = [None] * len(texts)
        for start in range(0, len(order), self.batch_size):
            chosen = order[start : start + self.batch_size]
            rows = self._batch([texts[i] for i in chosen])
            for i, row in zip(chosen, rows, strict=False):
                scores[i] = row[: max(len(texts[i]) - 1, 0)]
        return scores

    def _batch(self, texts):
        """[B, segments * T] log-probabilities; what is no text counts not."""
        length = self.segment_len
        longest = max(len(text) for text in texts) - 1
        steps = max(-(-longest // length), 1)
        ids = np.zeros([self.batch_size, steps * length + 1], np.int32)
        for row, text in zip(ids, texts, strict=False):
            row[: len(text)] = text
        layers, valid = self.model.empty_memory(self.batch_size)
        by_segment = []
        for step in range(steps):
            begin = step * length
            part = tf.constant(ids[:, begin : begin + length + 1])
            log_probs, layers, valid = self._run(part, layers, valid)
            by_segment.append(log_probs.numpy())
        return np.concatenate(by_segment, 1)

    def _segment(self, ids, layers, valid):
        inputs, targets = ids[:, :-1], ids[:, 1:]
        if not self.model.config.mem_len:
            output = self.model(inputs)
        else:
            output = self.model.read_on(inputs, layers, valid)
            layers, valid = output.new_memory, output.new_memory_length
        losses = self.model.token_losses(output.sequence_output, targets)
        return -losses, layers, valid
