"""Token vectors with character spans, and pooled text vectors.

A text of any length is read from its beginning, and every token gets one
vector. For an encoder that has CLS last it becomes `pieces SEP CLS`, cut into
segments of T tokens that carry memory; for one that has CLS first, rows `CLS
pieces SEP` of up to T tokens, each by itself. Padding is on the right and
masked: it changes nothing.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from common.contract import symbols
from common.contract.symbols import CLS_FIRST
from common.errors import UserError
from common.heads import TEXT_POOLINGS
from data.text.opening import AnyTokenizer
from modeling.encoders.base import Encoder
from modeling.encoders.registry import spec_of
from serving.generation.sentence_folder import SentenceFolder

_WINDOW = 64  # batches whose texts are sorted by length


class Embedded(NamedTuple):
    """One text."""

    vectors: np.ndarray  # float32 [n, D], one per piece
    # float32 [D], vector of CLS; of the first row's where there are many
    cls: np.ndarray
    pieces: list[str]
    starts: list[int]  # characters of the raw text that each piece came from
    ends: list[int]  # characters of the raw text that each piece came from

    def pooled(self, pooling: str) -> np.ndarray:
        """float32 [D]: "mean" or "max" over the pieces, the "last", or "cls"."""
        if pooling == "cls" or not len(self.vectors):
            return self.cls
        if pooling == "last":
            return self.vectors[-1]
        if pooling == "mean":
            return self.vectors.mean(0, dtype=np.float64).astype(np.float32)
        if pooling == "max":
            return self.vectors.max(0)
        raise ValueError(
            f"`pooling` must be one of {TEXT_POOLINGS}, received {pooling!r}"
        )


class Embedder:
    """Embeds texts.

    Args:
      encoder: a backbone whose config keeps `memory_len` slots (or none).
      segment_len: T; at most the encoder's positions.
      layer: which content stream: 0 = word embeddings, L or -1 = the last.

    Attributes:
      cut: texts that `sentences` has cut.
    """

    def __init__(
        self,
        encoder: Encoder,
        tokenizer: AnyTokenizer,
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
        able = spec_of(encoder.config.model_type).capabilities
        self._memory = able.memory
        self._cls_first = able.layout == CLS_FIRST
        longest = getattr(encoder.config, "max_position_embeddings", None)
        self.segment_len = min(segment_len, longest or segment_len)
        if self._cls_first and self.segment_len < 3:
            raise ValueError(
                "`segment_len` must hold CLS, a piece and SEP, received "
                f"{self.segment_len}"
            )
        self.layer = layer
        self.cut = 0
        self._run = tf.function(
            self._segment, reduce_retracing=True, autograph=False
        )

    def embed(
        self, texts: Sequence[str], batch_size: int = 8
    ) -> Iterator[Embedded]:
        """Embeds texts in order, `batch_size` at a time."""
        for at in range(0, len(texts), batch_size):
            yield from self._batch(texts[at : at + batch_size])

    def sentences(
        self,
        texts: Sequence[str],
        rule: SentenceFolder,
        batch_size: int = 8,
    ) -> Iterator[np.ndarray]:
        """float32 [D] of each text, as its folder makes sentence vectors.

        A text is one row `CLS pieces SEP`; what does not fit is cut off, and
        `cut` counts it. Raises UserError: the encoder does not have CLS first.
        """
        if not self._cls_first:
            raise UserError(
                "sentence vectors are of an encoder that has CLS first (bert, "
                f"albert, modernbert), found {self.encoder.config.model_type}; "
                "give --pooling"
            )
        special = self.tokenizer.symbols
        length = min(self.segment_len, rule.max_seq_length or self.segment_len)
        window = batch_size * _WINDOW
        for at in range(0, len(texts), window):
            encoded = self.tokenizer.encode_batch(texts[at : at + window])
            self.cut += sum(len(ids) > length - 2 for ids in encoded)
            rows = [
                np.asarray([special.cls, *ids[: length - 2], special.sep])
                for ids in encoded
            ]
            vectors = [np.empty(0)] * len(rows)
            # Rows of one length share a batch: padding costs what text costs.
            order = np.argsort([len(row) for row in rows], kind="stable")
            for begin in range(0, len(rows), batch_size):
                chosen = order[begin : begin + batch_size]
                read = self._rows([rows[i] for i in chosen])
                for i, states in zip(chosen, read, strict=True):
                    vectors[i] = rule.vector(states)
            yield from vectors

    def _batch(self, texts: Sequence[str]) -> list[Embedded]:
        encoded = [self.tokenizer.encode_with_offsets(t) for t in texts]
        vectors = self._read([ids for ids, _, _ in encoded])
        return [
            Embedded(
                own,
                cls,
                [self.tokenizer.id_to_piece(i) for i in ids],
                starts,
                ends,
            )
            for (own, cls), (ids, starts, ends) in zip(
                vectors, encoded, strict=True
            )
        ]

    def _read(self, texts: list) -> list[tuple[np.ndarray, np.ndarray]]:
        """([n, D] of the pieces, [D] of CLS) of each text's ids [n]."""
        special = self.tokenizer.symbols
        if self._cls_first:
            return self._windows(texts)
        tail = [special.sep, special.cls]
        rows = [np.asarray([*ids, *tail], np.int32) for ids in texts]
        return [(v[:-2], v[-1]) for v in self._rows(rows)]

    def _windows(self, texts: list) -> list[tuple[np.ndarray, np.ndarray]]:
        """Rows `CLS pieces SEP` of up to T tokens; CLS is the first row's."""
        special, room = self.tokenizer.symbols, self.segment_len - 2
        rows, counts = [], []
        for ids in texts:
            begins = range(0, max(len(ids), 1), room)
            counts.append(len(begins))
            for begin in begins:
                part = ids[begin : begin + room]
                row = [special.cls, *part, special.sep]
                rows.append(np.asarray(row, np.int32))
        windows = []
        for at in range(0, len(rows), len(texts)):
            windows += self._rows(rows[at : at + len(texts)])
        vectors = []
        for count in counts:
            own, windows = windows[:count], windows[count:]
            vectors.append((np.concatenate([v[1:-1] for v in own]), own[0][0]))
        return vectors

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
            ids, segments, mask = self._inputs(rows, begin, length)
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

    def _inputs(self, rows: list[np.ndarray], begin: int, length: int):
        """Ids, segments and mask, int32 [B, `length`], of rows from `begin`."""
        ids = np.zeros((len(rows), length), np.int32)
        mask = np.zeros_like(ids)
        if self._cls_first:
            segments = np.full_like(ids, symbols.SEGMENT_A)
        else:
            segments = np.full_like(ids, symbols.SEGMENT_PAD)
        for i, row in enumerate(rows):
            part = row[begin : begin + length]
            ids[i, : len(part)] = part
            mask[i, : len(part)] = 1
            segments[i, : len(part)] = symbols.SEGMENT_A
            ends = begin < len(row) <= begin + length
            if ends and not self._cls_first:
                segments[i, len(part) - 1] = symbols.SEGMENT_CLS
        return ids, segments, mask

    def _segment(self, ids, segments, mask, memory, valid, keep):
        past = {}
        if self._memory:
            past = {
                "memory": tuple(tf.unstack(memory)),
                "memory_length": valid,
            }
        output = self.encoder(
            ids,
            segment_ids=segments,
            input_mask=mask,
            training=False,
            output_hidden_states=True,
            **past,
        )
        states = tf.cast(output.states_of(self.layer), tf.float32)
        if not keep:
            return states, memory, valid
        new_memory = tf.cast(tf.stack(output.new_memory), memory.dtype)
        return states, new_memory, output.new_memory_length
