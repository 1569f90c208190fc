"""The rule for pieces that cross a boundary, and windows."""

import numpy as np
import pytest

from data.finetuning.features import tokens as task_tokens
from data.finetuning.squad.features import TokenizedParagraph
from data.finetuning.tagging import answers as tagging_answers
from data.finetuning.tagging import features
from data.text.tokenizer import Tokenizer
from tests.data.finetuning.tagging.tagged_texts import (
    spans_example,
    words_example,
)


def pieces(*spans):
    """Pieces 10, 11, ... with these characters."""
    start, end = np.array(spans, np.int32).reshape(-1, 2).T
    ids = np.arange(10, 10 + len(start), dtype=np.int32)
    return TokenizedParagraph(ids, start, end)


def test_a_piece_across_tokens_is_the_first_tokens():
    """Text "ab cd e": pieces "ab c" | "d" | " e", and a lone word mark."""
    example = words_example(["ab", "cd", "e"], ["X", "Y", "Z"])
    cut = pieces((0, 0), (0, 4), (4, 5), (6, 7))
    ids = {"X": 0, "Y": 1, "Z": 2}
    labels, shared = features.word_labels(example, cut, ids)
    assert labels.tolist() == [-1, 0, -1, 2]
    assert shared == 1
    scores = np.eye(3)[[2, 0, 1, 2]]
    # "cd" is answered by the piece that holds its first character.
    assert features.word_answers(example, cut, scores).tolist() == [0, 0, 2]


def test_a_span_has_the_pieces_it_covers_by_half():
    """Text "New York-based": pieces "New", " Yor", "k-b", "ased"."""
    example = spans_example("New York-based", (0, 8, "LOC"))
    cut = pieces((0, 3), (4, 7), (7, 10), (10, 14))
    ids = {"O": 0, "B-LOC": 1, "I-LOC": 2}
    labels, shared = features.span_labels(example, cut, ids)
    assert labels.tolist() == [1, 2, 0, 0]  # a third of "k-b" is inside
    assert shared == 0
    half = pieces((0, 3), (4, 7), (7, 9), (9, 14))
    assert features.span_labels(example, half, ids)[0].tolist() == [1, 2, 2, 0]
    inside = spans_example("abcdef", (1, 2, "LOC"))
    labels, shared = features.span_labels(inside, pieces((0, 6)), ids)
    assert labels.tolist() == [1] and shared == 1


def test_answers_give_back_the_spans_of_clean_pieces():
    """I- after O or another label begins a span; blanks are no part of it."""
    labels = ("O", "B-A", "I-A", "B-B", "I-B")
    text = "aa bb cc dd ee"
    cut = pieces((0, 2), (2, 5), (5, 8), (8, 11), (11, 14))
    example = spans_example(text)
    for tags, wanted in (
        ((1, 2, 0, 3, 0), [(0, 5, "A"), (9, 11, "B")]),
        ((2, 1, 2, 4, 4), [(0, 2, "A"), (3, 8, "A"), (9, 14, "B")]),
        ((0, 0, 0, 0, 0), []),
    ):
        scores = np.eye(5)[list(tags)]
        spans = features.span_answers(example, cut, scores, labels)
        assert spans == wanted


@pytest.mark.parametrize("last, only", ["ES", "LU"])
def test_last_and_only_pieces_end_their_spans(last, only):
    labels = ("O", "B-A", "I-A", f"{last}-A", f"{only}-A", f"{last}-B")
    cut = pieces((0, 2), (3, 5), (6, 8), (9, 11))
    example = spans_example("aa bb cc dd")
    for tags, wanted in (
        ((1, 2, 3, 0), [(0, 8)]),
        ((1, 3, 2, 3), [(0, 5), (6, 11)]),
        ((1, 3, 3, 0), [(0, 5), (6, 8)]),
        ((4, 4, 2, 4), [(0, 2), (3, 5), (6, 8), (9, 11)]),
        ((1, 4, 1, 5), [(0, 2), (3, 5), (6, 8), (9, 11)]),
    ):
        scores = np.eye(6)[list(tags)]
        spans = features.span_answers(example, cut, scores, labels)
        assert [s[:2] for s in spans] == wanted, tags


@pytest.mark.shared
@pytest.mark.parametrize(
    "text",
    [
        "It cost 12,000 francs in 1998, naïve café “quoted”",
        "東京は日本の首都で、人口は1,400万人です。",
        "Кто живёт в Нью-Йорке?  two  blanks",
        "नमस्ते दुनिया",
    ],
)
def test_gold_labels_score_as_gold(spiece_model, text):
    """Random spans on piece boundaries come back from their own labels."""
    tokenizer = Tokenizer(spiece_model)
    cut = task_tokens.encode_with_offsets(tokenizer, [text])[0]
    first = features.first_characters(text, cut)
    starts_in_text = np.flatnonzero(first < len(text))
    rng = np.random.default_rng(7)
    labels = ("O", "B-A", "I-A", "B-B", "I-B")
    ids = {name: i for i, name in enumerate(labels)}
    for _ in range(20):
        a, b = np.sort(rng.choice(starts_in_text, 2, replace=False))
        # Pieces of one raw character share it: no boundary lies between.
        if (cut.start[a] < cut.end[:a]).any() or (
            cut.start[b + 1 :] < cut.end[b]
        ).any():
            continue
        end = len(text[: cut.end[b]].rstrip())
        example = spans_example(text, (int(first[a]), end, "A"))
        piece_labels, shared = features.span_labels(example, cut, ids)
        scores = np.eye(5)[np.maximum(piece_labels, 0)]
        spans = features.span_answers(example, cut, scores, labels)
        assert spans == [(first[a], end, "A")] and shared == 0


@pytest.mark.long
@pytest.mark.shared
@pytest.mark.parametrize("layout", ["cls_last", "cls_first"])
def test_windows_count_each_piece_once(spiece_model, layout):
    """Labels of all windows together are the text's; scores go back so."""
    tokenizer = Tokenizer(spiece_model)
    rng = np.random.default_rng(3)
    examples = [
        words_example(
            rng.choice(["red", "tower", "winter", "sea"], n).tolist(),
            rng.choice(["X", "Y", "Z"], n).tolist(),
        )
        for n in (1, 40, 9)
    ]
    cut = task_tokens.encode_with_offsets(tokenizer, [e.text for e in examples])
    names = ("X", "Y", "Z")
    for length, stride in ((12, 3), (12, 10), (64, 5), (9, 1)):
        windows = features.build_windows(
            examples, cut, names, length, stride, tokenizer.symbols, layout
        )
        labels = windows.table.token_columns["label_ids"]
        counted = sum(len(e.units) for e in examples) - windows.shared
        assert (labels >= 0).sum() == counted
        batch = windows.table.batch(np.arange(windows.table.num_rows), length)
        assert batch["label_ids"].shape == batch["input_ids"].shape
        assert (batch["label_ids"][batch["input_mask"] == 0] == -1).all()
        # A model that says each window's own labels, noise elsewhere.
        known = batch["label_ids"][..., None] == np.arange(3)
        logits = np.where(
            batch["label_ids"][..., None] >= 0,
            known * 9.0,
            rng.normal(size=known.shape),
        )
        scores = features.piece_scores(windows, logits)
        answers = tagging_answers.answer_pieces(
            examples, windows.pieces, scores, names
        )
        assert [tuple(t) for t in answers.tags] == [e.tags for e in examples]
