"""Ids and texts in a graph are those of the vocabulary."""

import tensorflow as tf

from data.text.lm_vocabulary import PieceVocabulary, SymbolVocabulary
from serving.signatures.graph_symbols import tokenizer_of

TEXTS = [
    "It cost 12 francs, he said.",
    "Nobody  asked twice",
    "é",
    "asked\n\nhe cost\n",
]


def vocabularies(spiece):
    yield PieceVocabulary(spiece, "eos")
    yield PieceVocabulary(spiece, "none")
    words = ["<eos>", "It", "<unk>", "cost", "asked", "he", "francs,"]
    yield SymbolVocabulary("word", words, "eos")
    letters = ["\n", "<unk>", *"It cosfranhekd12,.e"]
    yield SymbolVocabulary("char", dict.fromkeys(letters), "newline")
    yield SymbolVocabulary("byte", map(str, range(256)), "newline")


def test_ids_and_texts_are_the_vocabulary_s(spiece_model):
    for vocabulary in vocabularies(spiece_model):
        graph = tokenizer_of(vocabulary)
        rows = graph.tokenize(tf.constant(TEXTS))
        first = [] if vocabulary.eos_id is None else [vocabulary.eos_id]
        encoded = [[*first, *vocabulary.encode(text)] for text in TEXTS]
        assert rows.to_list() == encoded
        # Lines end in what comes after, and at its end.
        more = vocabulary.encode("It asked\nIt\n" if first else "It asked")
        found = graph.continuation(rows, tf.constant([more] * len(TEXTS)))
        for row, text in zip(encoded, found.numpy(), strict=True):
            head = vocabulary.decode(row[len(first) :])
            whole = vocabulary.decode([*row[len(first) :], *more])
            assert text.decode() == whole[len(head) :]


def test_no_graph_reads_what_differs():
    marks = SymbolVocabulary("word", ["<S>", "a", "<UNK>"], "marks")
    lower = SymbolVocabulary("char", ["\n", "<unk>", "a"], "newline", True)
    strict = SymbolVocabulary("char", ["\n", "a"], "newline", unknown="error")
    for vocabulary in (marks, lower, strict):
        assert tokenizer_of(vocabulary) is None


def test_symbols_that_a_graph_would_read_as_others():
    """enwik8's counted bytes have no `<unk>`; a graph cannot refuse."""
    counted = SymbolVocabulary("byte", ["32", "101", "97"], "none")
    assert tokenizer_of(counted) is None
    whole = SymbolVocabulary("byte", map(str, range(256)), "none")
    letters = SymbolVocabulary("char", ["e", "<unk>", "a"], "none")
    words = SymbolVocabulary("word", ["<S>", "a", "<unk>"], "mark")
    for vocabulary in (whole, letters, words):
        texts = ["e\na z", "\n\né", "a\n", ""]
        rows = tokenizer_of(vocabulary).tokenize(tf.constant(texts))
        first = [] if vocabulary.eos_id is None else [vocabulary.eos_id]
        wanted = [[*first, *vocabulary.encode(text)] for text in texts]
        assert rows.to_list() == wanted
