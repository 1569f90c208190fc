"""Token vectors with character spans, and pooled text vectors.

A text becomes `pieces SEP CLS`, cut into segments of T tokens that carry
memory, so a text of any length is read from its beginning; every token gets
one vector. Padding is on the right and masked: it changes nothing.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from data import symbols
from data.text.tokenizer import Tokenizer
from modeling.encoders.base import Encoder

POOLINGS = ("none", "mean", "cls", "last")


class Embedded(NamedTuple):
    """One text.

    Attributes:
      vectors: float32 [n, D], one per piece.
      cls: float32 [D], vector of CLS.
      pieces: the pieces as strings.
      starts, ends: characters of the raw text that each piece came from.
    """

    vectors: np.ndarray
    cls: np.ndarray
    pieces: list[str]
    starts: list[int]
    ends: list[int]

    def pooled(self, pooling: str) -> np.ndarray:
        """float32 [D]: "mean" over the pieces, "last" piece, or "cls"."""
        if pooling == "cls" or not len(self.vectors):
            return self.cls
        if pooling == "last":
            return self.vectors[-1]
        if pooling == "mean":
            return self.vectors.mean(0, dtype=np.float64).astype(np.float32)
        raise ValueError(
            f"`pooling` must be one of {POOLINGS[1:]}, received {pooling!r}"
        )


class Embedder:
    """Embeds texts.

    Args:
      encoder: a backbone whose config keeps `memory_len` slots (or none).
      tokenizer: of the same vocabulary.
      segment_len: T.
      layer: which content stream: 0 = word embeddings, L or -1 = the last.
    """

    def __init__(
        self,
        encoder: Encoder,
        tokenizer: Tokenizer,
        segment_len: int = 512,
        layer: int = -1,
    ):
        count = encoder.config.n_layer + 1
        if not -count <= layer < count:
            raise ValueError(
                f"`layer` must be in {-count}..{count - 1}, received {layer}"
            )
        self.encoder = encoder
        self.tokenizer = tokenizer
        self.segment_len = segment_len
        self.layer = layer
        self._run = tf.function(self._segment, reduce_retracing=True)

    def embed(
        self, texts: Sequence[str], batch_size: int = 8
    ) -> Iterator[Embedded]:
        """Embeds texts in order, `batch_size` at a time."""
        for at in range(0, len(texts), batch_size):
            yield from self._batch(texts[at : at + batch_size])

    def _batch(self, texts: Sequence[str]) -> list[Embedded]:
        tail = [self.tokenizer.symbols.sep, self.tokenizer.symbols.cls]
        encoded = [self.tokenizer.encode_with_offsets(t) for t in texts]
        rows = [np.asarray([*ids, *tail], np.int32) for ids, _, _ in encoded]
        vectors = self._rows(rows)
        return [
            Embedded(
                v[:-2],
                v[-1],
                [self.tokenizer.id_to_piece(i) for i in ids],
                starts,
                ends,
            )
            for v, (ids, starts, ends) in zip(vectors, encoded, strict=True)
        ]

    def _rows(self, rows: list[np.ndarray]) -> list[np.ndarray]:
        """[n, D] of each row, read in segments that carry memory."""
        config = self.encoder.config
        lengths = np.asarray([len(r) for r in rows])
        longest = int(lengths.max())
        slots = config.mem_len or 0
        memory = tf.zeros([config.n_layer, len(rows), 0, config.d_model])
        valid = tf.zeros([len(rows)], tf.int32)
        parts = []
        for begin in range(0, longest, self.segment_len):
            length = min(self.segment_len, longest - begin)
            ids = np.zeros((len(rows), length), np.int32)
            segments = np.full_like(ids, symbols.SEGMENT_PAD)
            mask = np.zeros_like(ids)
            for i, row in enumerate(rows):
                part = row[begin : begin + length]
                ids[i, : len(part)] = part
                mask[i, : len(part)] = 1
                segments[i, : len(part)] = symbols.SEGMENT_A
                if begin < len(row) <= begin + length:
                    segments[i, len(part) - 1] = symbols.SEGMENT_CLS
            states, memory, valid = self._run(
                tf.constant(ids),
                tf.constant(segments),
                tf.constant(mask),
                memory,
                valid,
                keep=bool(slots),
            )
            parts.append(states.numpy())
        states = np.concatenate(parts, 1)
        return [states[i, :n] for i, n in enumerate(lengths)]

    def _segment(self, ids, segments, mask, memory, valid, keep):
        output = self.encoder(
            ids,
            segment_ids=segments,
            input_mask=mask,
            memory=tuple(tf.unstack(memory)),
            memory_length=valid,
            training=False,
            output_hidden_states=True,
        )
        states = tf.cast(output.hidden_states[self.layer], tf.float32)
        if not keep:
            return states, memory, valid
        new_memory = tf.cast(tf.stack(output.new_memory), memory.dtype)
        return states, new_memory, output.new_memory_length
