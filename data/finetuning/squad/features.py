"""Tokenized paragraphs and questions -> windows `P SEP Q SEP CLS`.

A paragraph of more tokens than fit beside the question is cut into windows
that start `doc_stride` tokens apart. One window, T 10, ids 3 = CLS, 4 = SEP:

    input_ids       11 12 13 14  4 21 22  4  3  0
    segment_ids      0  0  0  0  0  1  1  1  2  3
    input_mask       1  1  1  1  1  1  1  1  1  0
    paragraph_mask   1  1  1  1  0  0  0  0  1  0     (CLS = "no answer here")

Padding is on the right with segment 3, as in the original.

Encoders that want CLS first get `CLS Q SEP P SEP`, as BERT does it: segments
0 and 1, padding in segment 0. Positions of answers are the row's in both.
"""

import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np

from common.contract import symbols
from data.finetuning.features.table import FeatureTable
from data.finetuning.squad import predictions as squad_predictions


@dataclasses.dataclass(frozen=True)
class TokenizedParagraph:
    """Token ids `[n]`, first character of each and the one after its last."""

    ids: np.ndarray
    start: np.ndarray
    end: np.ndarray


@dataclasses.dataclass(frozen=True)
class AnswerSpan:
    """Characters of the gold answer; first = -1 for an unanswerable question."""

    first: int
    last: int


@dataclasses.dataclass(frozen=True)
class SquadWindows:
    """Every window of a split."""

    # the model's inputs; columns cls_index, paragraph_length and, when
    # training, start_positions, end_positions, is_impossible; with CLS first
    # also paragraph_start, the place of its first token
    table: FeatureTable
    question: np.ndarray  # window -> index of its question, int32 `[W]`
    doc_start: np.ndarray  # window -> its first paragraph token, int32 `[W]`


def doc_windows(
    num_tokens: int, room: int, doc_stride: int
) -> list[tuple[int, int]]:
    """(start, length) of the windows of a paragraph; at least one.

    >>> doc_windows(10, 6, 3)
    [(0, 6), (3, 6), (6, 4)]
    """
    windows = []
    start = 0
    while True:
        length = min(room, num_tokens - start)
        windows.append((start, length))
        if start + length >= num_tokens:
            return windows
        start += min(length, doc_stride)


def answer_tokens(
    paragraph: TokenizedParagraph, span: AnswerSpan
) -> tuple[int, int] | None:
    """First and last token that touch the answer's characters.

    None when no token does (an answer of nothing but dropped characters).
    """
    first = int(np.searchsorted(paragraph.end, span.first, side="right"))
    last = int(np.searchsorted(paragraph.start, span.last, side="right")) - 1
    # Tokens without characters of their own (a lone word mark) never count.
    while last >= first and paragraph.end[last] <= paragraph.start[last]:
        last -= 1
    if first > last or first >= len(paragraph.ids):
        return None
    return first, last


@dataclasses.dataclass
class WindowBuilder:
    """Collects windows as flat arrays."""

    max_seq_length: int
    max_query_length: int
    doc_stride: int
    ids: symbols.SymbolIds
    training: bool
    layout: str = symbols.CLS_LAST

    def __post_init__(self):
        self.cls_first = symbols.is_cls_first(self.layout)
        self._tokens: list[np.ndarray] = []
        self._lengths: list[tuple[int, int]] = []  # of P, of Q
        self._origin: list[tuple[int, int]] = []  # question, doc start
        self._answers: list[tuple[int, int, bool]] = []
        self._tail = np.array([self.ids.sep, self.ids.cls], np.int32)
        self._sep, self._cls = self._tail[:1], self._tail[1:]
        between = symbols.between(self.layout, self.ids)
        self._between = np.array(between, np.int32)
        self._symbols = symbols.row_symbols(self.layout)

    def add(
        self,
        question: int,
        question_ids: Sequence[int],
        paragraph: TokenizedParagraph,
        span: AnswerSpan | None = None,
    ) -> None:
        """Adds all windows of one question."""
        query = np.asarray(question_ids[: self.max_query_length], np.int32)
        before, after, offset = (), (self._sep, query, self._tail), 0
        if self.cls_first:
            before, after = (self._cls, query, self._between), (self._sep,)
            offset = len(query) + self._symbols - 1
        room = self.max_seq_length - len(query) - self._symbols
        answer = None
        if self.training and span is not None and span.first >= 0:
            answer = answer_tokens(paragraph, span)
        for start, length in doc_windows(
            len(paragraph.ids), room, self.doc_stride
        ):
            text = paragraph.ids[start : start + length]
            self._tokens += (*before, text, *after)
            self._lengths.append((length, len(query)))
            self._origin.append((question, start))
            if self.training:
                cls_index = 0 if self.cls_first else length + len(query) + 2
                self._answers.append(
                    _window_answer(answer, start, length, cls_index, offset)
                )

    def finish(self) -> SquadWindows:
        """All windows added so far."""
        lengths = np.array(self._lengths, np.int32).reshape(-1, 2)
        origin = np.array(self._origin, np.int32).reshape(-1, 2)
        # P + SEP + Q + SEP + CLS
        sizes = lengths.sum(axis=1, dtype=np.int64) + self._symbols
        splits = np.concatenate([[0], np.cumsum(sizes)])
        columns = {
            "cls_index": (sizes - 1).astype(np.int32),  # [W]
            "paragraph_length": lengths[:, 0],
        }
        if self.cls_first:
            columns["cls_index"] = np.zeros(len(sizes), np.int32)
            columns["paragraph_start"] = lengths[:, 1] + self._symbols - 1
        if self.training:
            answers = np.array(self._answers, np.int32).reshape(-1, 3)
            columns["start_positions"] = answers[:, 0]
            columns["end_positions"] = answers[:, 1]
            columns["is_impossible"] = answers[:, 2].astype(np.float32)
        tokens = np.concatenate([np.zeros(0, np.int32), *self._tokens])
        table = FeatureTable(
            tokens.astype(np.int32, copy=False),
            self._segment_ids(lengths),
            splits.astype(np.int64),
            columns,
            **padding(self.cls_first),
        )
        return SquadWindows(table, origin[:, 0], origin[:, 1])

    def _segment_ids(self, lengths: np.ndarray) -> np.ndarray:
        """uint8, all rows one after the other: 0 P SEP, 1 Q SEP, 2 CLS.

        With CLS first: 0 CLS Q SEP, 1 P SEP; or 0 alone.
        """
        kinds = [symbols.SEGMENT_A, symbols.SEGMENT_B, symbols.SEGMENT_CLS]
        if self.cls_first:
            kinds = kinds[:2]
            counts = lengths[:, ::-1] + np.array([self._symbols - 1, 1])
        else:
            counts = np.pad(lengths, ((0, 0), (0, 1))) + 1
        if symbols.has_one_segment(self.layout):
            kinds = [symbols.SEGMENT_A] * 2
        rows = np.tile(np.array(kinds, np.uint8), len(lengths))
        return np.repeat(rows, counts.reshape(-1))


def padding(cls_first: bool) -> dict:
    """Where the windows' `FeatureTable` is padded, and with what."""
    segment = symbols.SEGMENT_A if cls_first else symbols.SEGMENT_Q
    return {"pad_left": False, "pad_segment": segment}


def _window_answer(
    answer: tuple[int, int] | None,
    start: int,
    length: int,
    cls_index: int,
    offset: int = 0,
) -> tuple[int, int, bool]:
    """(start, end, impossible) of one window; CLS when it is not inside.

    The paragraph begins at `offset` of the row.
    """
    if answer is None or answer[0] < start or answer[1] >= start + length:
        return cls_index, cls_index, True
    return answer[0] - start + offset, answer[1] - start + offset, False


def expand_batch(batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Adds `paragraph_mask` `[B, T]` and drops what only it needs."""
    batch = dict(batch)
    length = batch.pop("paragraph_length")[:, None]
    start = batch.pop("paragraph_start", np.zeros(1, np.int32))[:, None]
    position = np.arange(batch["input_ids"].shape[1])[None]
    mask = (position >= start) & (position < start + length)
    mask |= position == batch["cls_index"][:, None]
    batch["paragraph_mask"] = mask.astype(np.int32)  # [B, T]
    return batch


def window_texts(
    windows: SquadWindows,
    paragraphs: Sequence[TokenizedParagraph],
    paragraph_of: Sequence[int],
) -> list[tuple[int, squad_predictions.WindowText]]:
    """(question, where its tokens lie) of every window, in order."""
    lengths = windows.table.columns["paragraph_length"].tolist()
    all_spans = zip(windows.doc_start.tolist(), lengths, strict=True)
    result = []
    for question, own in itertools.groupby(windows.question.tolist()):
        spans = list(itertools.islice(all_spans, len(list(own))))
        paragraph = paragraphs[paragraph_of[question]]
        last = paragraph.end - 1
        # A lone word mark before the text has no character of its own. It
        # stands for the first one, as in the original: "" would be no answer.
        last[:1] = np.maximum(last[:1], 0)
        for number, (start, length) in enumerate(spans):
            stop = start + length
            text = squad_predictions.WindowText(
                paragraph.start[start:stop],
                last[start:stop],
                squad_predictions.max_context(spans, number),
            )
            result.append((question, text))
    return result
