"""Documents -> one stream of tokens with its sentences and words."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from data.corpus.documents import Document
from data.text.tokenizer import Tokenizer

# A word of more pieces counts as words of one piece each.
MAX_WORD_PIECES = 8


@dataclasses.dataclass(frozen=True)
class Stream:
    """N tokens in reading order of one direction."""

    ids: np.ndarray  # int32 [N]
    sentences: np.ndarray  # int64, ascending places where a sentence starts
    documents: np.ndarray  # int64, ascending places where a document starts
    # bool [N], whether a word (of `spans`' sense) starts here
    words: np.ndarray

    def __len__(self) -> int:
        return len(self.ids)

    def reversed(self) -> "Stream":
        """The same text read backward; words and sentences stay whole."""
        n = len(self)
        words = np.roll(self.words, -1)[::-1] if n else self.words
        if n:
            words = words.copy()
            words[0] = True
        return Stream(
            self.ids[::-1],
            _mirror(self.sentences, n),
            _mirror(self.documents, n),
            words,
        )

    def typed(self, dtype: str) -> "Stream":
        """With ids of another type, one after the other in memory."""
        ids = np.ascontiguousarray(self.ids, dtype)
        return dataclasses.replace(self, ids=ids)

    def joined(self, other: "Stream") -> "Stream":
        """This stream and then another."""
        n = len(self)
        return Stream(
            np.concatenate([self.ids, other.ids]),
            np.concatenate([self.sentences, other.sentences + n]),
            np.concatenate([self.documents, other.documents + n]),
            np.concatenate([self.words, other.words]),
        )


def _mirror(starts: np.ndarray, n: int) -> np.ndarray:
    if not len(starts):
        return starts
    return np.sort(n - np.append(starts[1:], n))


def split_long_words(words: np.ndarray, limit: int = MAX_WORD_PIECES):
    """Word starts bool [N], with all pieces of words of more than `limit`."""
    if not len(words):
        return words
    starts = np.flatnonzero(words)
    if not len(starts) or starts[0]:
        starts = np.insert(starts, 0, 0)
    sizes = np.diff(np.append(starts, len(words)))
    if sizes.max() <= limit:
        return words
    return words | np.repeat(sizes > limit, sizes)


def tokenize(
    documents: Sequence[Document], tokenizer: Tokenizer
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Tokenizes documents, each ending with `<eod>`.

    ids int32 [N], sentence lengths int64 (symbols belong to the sentence before
    them), number of sentences per document int64.
    """
    symbols = tokenizer.symbols
    texts, counts, paragraph_ends = [], [], []
    for document in documents:
        if document.paragraph_ends:
            paragraph_ends += [len(texts) + i for i in document.paragraph_ends]
        texts += document.lines
        counts.append(len(document.lines))
    counts = np.asarray(counts, np.int64)
    if not len(counts):
        return np.zeros(0, np.int32), np.zeros(0, np.int64), counts
    ids, lengths = tokenizer.encode_flat(texts)
    tails = np.zeros(len(texts), np.int64)
    tails[paragraph_ends] = 1
    tails[np.cumsum(counts) - 1] += 1
    sizes = lengths + tails
    ends = np.cumsum(sizes)
    out = np.full(int(ends[-1]), symbols.eop, np.int32)
    keep = np.ones(len(out), bool)
    keep[ends[tails > 0] - 1] = False
    keep[ends[tails > 1] - 2] = False
    out[keep] = ids
    out[ends[np.cumsum(counts) - 1] - 1] = symbols.eod
    return out, sizes, counts


def make_stream(
    ids: np.ndarray,
    sentence_sizes: np.ndarray,
    sentence_counts: np.ndarray,
    word_starts: np.ndarray,
) -> Stream:
    """Puts tokenized documents, ids int32 [N], into a stream.

    `word_starts`: bool [V], which pieces begin a word.
    """
    starts = np.cumsum(sentence_sizes) - sentence_sizes
    first = np.cumsum(sentence_counts) - sentence_counts
    documents = starts[first] if len(starts) else starts
    words = word_starts[ids]
    words[starts[sentence_sizes > 0]] = True
    return Stream(
        ids,
        np.unique(starts[sentence_sizes > 0]),
        np.unique(documents),
        split_long_words(words),
    )
