"""Tagged text -> windows of pieces with a label each, and back.

Pieces do not respect tokens: one can cross a boundary, and a token can lie
inside another's piece. The rule, by characters that are no white space:

- A token (CoNLL) is told by the first piece that holds its first character.
  Where a piece holds the first character of several, the first of them gives
  its label in training, and all of them get its answer.
- A span (JSON lines) has the pieces of which it covers at least half; the first
  of them is B-, the others I-. A span without such a piece has the one that
  holds its first character, if no other span does.

Other pieces of a token have no label (-1). A text of more than T - 2 pieces is
cut into windows that start `doc_stride` pieces apart, and each piece counts in
the window where it has most context (as in SQuAD).
"""

import dataclasses
from collections.abc import Sequence

import numpy as np

from common.contract import symbols
from data.finetuning.features import table as finetune_table
from data.finetuning.features.pair_features import join_segments, padding
from data.finetuning.features.table import FeatureTable
from data.finetuning.squad.features import TokenizedParagraph, doc_windows
from data.finetuning.squad.predictions import max_context
from data.finetuning.tagging.examples import OUTSIDE, TaggedText, join_tags

NO_LABEL = -1


@dataclasses.dataclass(frozen=True)
class TaggingWindows:
    """Every window of a split."""

    # the model's inputs, padded on the right; `label_ids` per piece
    table: FeatureTable
    text: np.ndarray  # window -> its text, int32 [W]
    start: np.ndarray  # window -> its first piece, int32 [W]
    pieces: list[TokenizedParagraph]  # text -> its pieces
    shared: int  # tokens or spans that have no piece of their own
    units: int
    first: int = 0  # place of a window's first piece


def first_characters(text: str, pieces: TokenizedParagraph) -> np.ndarray:
    """First character of each piece that is no white space, int [n].

    Pieces of white space alone have the length of the text.
    """
    blank = np.fromiter((c.isspace() for c in text), bool, len(text))
    position = np.where(blank, len(text), np.arange(len(text)))
    position = np.append(position, len(text))
    following = np.minimum.accumulate(position[::-1])[::-1]
    start, end = pieces.start.astype(int), pieces.end.astype(int)
    first = following[np.minimum(start, len(text))]
    return np.where(first < end, first, len(text))


def unit_pieces(
    units: Sequence[tuple[int, int]], pieces: TokenizedParagraph
) -> np.ndarray:
    """The piece that holds each unit's first character; -1 for none."""
    with_text = np.flatnonzero(pieces.end > pieces.start)
    if not len(with_text):
        return np.full(len(units), -1)
    starts = np.array([s for s, _ in units], np.int64)
    # Of pieces that share characters the first one.
    at = np.searchsorted(pieces.end[with_text], starts, side="right")
    at = np.minimum(at, len(with_text) - 1)
    piece = with_text[at]
    # Behind the last piece lies what the tokenizer drops.
    holds = (pieces.start[piece] <= starts) & (starts < pieces.end[piece])
    return np.where(holds, piece, -1)


def told_by(
    units: Sequence[tuple[int, int]], pieces: TokenizedParagraph
) -> np.ndarray:
    """The piece whose answer each token gets: its own, else the one before."""
    places = np.maximum(unit_pieces(units, pieces), 0)
    return np.maximum.accumulate(places)


def word_labels(
    example: TaggedText, pieces: TokenizedParagraph, ids: dict[str, int]
) -> tuple[np.ndarray, int]:
    """Label ids [n] of a text's pieces, and tokens without their own piece."""
    labels = np.full(len(pieces.ids), NO_LABEL, np.int32)
    shared = 0
    places = unit_pieces(example.units, pieces)
    tags = example.tags or (None,) * len(places)
    taken = -1
    for piece, tag in zip(places.tolist(), tags, strict=True):
        if piece < 0 or piece == taken:
            shared += 1
            continue
        taken = piece
        if tag is not None:
            labels[piece] = ids.get(tag, NO_LABEL)
    return labels, shared


def span_labels(
    example: TaggedText, pieces: TokenizedParagraph, ids: dict[str, int]
) -> tuple[np.ndarray, int]:
    """Label ids [n] of a text's pieces, and spans without a piece."""
    text = example.text
    solid = np.fromiter((not c.isspace() for c in text), np.int64, len(text))
    before = np.concatenate([[0], np.cumsum(solid)])
    labels = np.full(len(pieces.ids), ids[OUTSIDE], np.int32)
    free = np.ones(len(labels), bool)
    shared = 0
    start, end = pieces.start.astype(int), pieces.end.astype(int)
    size = before[np.maximum(end, start)] - before[start]  # [n]
    fallback = unit_pieces(example.units, pieces)
    for number, ((s, e), tag) in enumerate(
        zip(example.units, example.tags or (), strict=True)
    ):
        low, high = np.maximum(start, s), np.minimum(end, e)
        inside = before[np.maximum(high, low)] - before[low]
        mine = np.flatnonzero((inside * 2 >= size) & (inside > 0) & free)
        if not len(mine):
            shared += 1
            piece = int(fallback[number])
            if piece < 0 or not free[piece]:
                continue
            mine = np.array([piece])
        free[mine] = False
        inside = ids.get(f"I-{tag}", NO_LABEL)
        labels[mine] = inside
        labels[mine[0]] = ids.get(f"B-{tag}", inside)
    # A lone word mark has no character: it says nothing.
    labels[size == 0] = NO_LABEL
    return labels, shared


def build_windows(
    examples: Sequence[TaggedText],
    tokenized: Sequence[TokenizedParagraph],
    labels: Sequence[str],
    max_seq_length: int,
    doc_stride: int,
    ids: symbols.SymbolIds,
    layout: str = symbols.CLS_LAST,
) -> TaggingWindows:
    """Windows `pieces SEP CLS` of all texts, with a label per piece.

    With CLS first they are `CLS pieces SEP`.
    """
    first = int(symbols.is_cls_first(layout))  # pieces begin after CLS
    label_ids = {name: i for i, name in enumerate(labels)}
    rows, row_labels, origin = [], [], []
    shared = units = 0
    for number, (example, pieces) in enumerate(
        zip(examples, tokenized, strict=True)
    ):
        aligned = word_labels if example.words else span_labels
        labels_of, alone = aligned(example, pieces, label_ids)
        shared, units = shared + alone, units + len(example.units)
        spans = doc_windows(len(labels_of), max_seq_length - 2, doc_stride)
        for k, (start, length) in enumerate(spans):
            stop = start + length
            sequence = join_segments(
                [pieces.ids[start:stop].tolist()], max_seq_length, ids, layout
            )
            tags = labels_of[start:stop]
            if len(spans) > 1:
                tags = np.where(max_context(spans, k), tags, NO_LABEL)
            rows.append(sequence)
            row_labels.append(
                np.pad(tags, (first, 2 - first), constant_values=NO_LABEL)
            )
            origin.append((number, start))
    table = finetune_table.from_sequences(
        rows,
        **(padding(layout) | {"pad_left": False}),
        token_columns={
            "label_ids": np.concatenate(
                [np.zeros(0, np.int32), *row_labels]
            ).astype(np.int32)
        },
    )
    places = np.array(origin, np.int32).reshape(-1, 2)
    return TaggingWindows(
        table,
        places[:, 0],
        places[:, 1],
        list(tokenized),
        shared,
        units,
        first,
    )


def piece_scores(
    windows: TaggingWindows, logits: np.ndarray
) -> list[np.ndarray]:
    """Logits [n, Y] of each text's pieces, from the windows [W, T, Y]."""
    result: list[np.ndarray] = []
    lengths = windows.table.lengths() - 2
    bounds = np.searchsorted(windows.text, np.arange(len(windows.pieces) + 1))
    for number, pieces in enumerate(windows.pieces):
        mine = np.arange(bounds[number], bounds[number + 1])
        scores = np.zeros((len(pieces.ids), logits.shape[-1]), logits.dtype)
        spans = [(int(windows.start[w]), int(lengths[w])) for w in mine]
        for k, w in enumerate(mine):
            start, _ = spans[k]
            scored = np.flatnonzero(max_context(spans, k))
            scores[start + scored] = logits[w, scored + windows.first]
        result.append(scores)
    return result


def word_answers(
    example: TaggedText, pieces: TokenizedParagraph, scores: np.ndarray
) -> np.ndarray:
    """Label id of every token, int [number of tokens].

    A token without any piece gets the answer of the piece before it.
    """
    if not len(scores):
        return np.zeros(len(example.units), np.int64)
    return scores.argmax(-1)[told_by(example.units, pieces)]


def span_answers(
    example: TaggedText,
    pieces: TokenizedParagraph,
    scores: np.ndarray,
    labels: Sequence[str],
) -> list[tuple[int, int, str]]:
    """(start, end, label) of the spans that a text's pieces tell.

    Tags join as in `join_tags`.
    """
    first = first_characters(example.text, pieces)
    parts = []
    for i, best in enumerate(scores.argmax(-1).tolist()):
        if first[i] >= len(example.text):
            continue  # no character of its own
        end = int(pieces.end[i])
        end -= len(example.text[:end]) - len(example.text[:end].rstrip())
        parts.append((int(first[i]), end, labels[best]))
    return join_tags(parts)
