"""What query and document consist of for K-NRM: pieces or words."""

from collections.abc import Hashable, Sequence

import numpy as np

from common.errors import UserError
from data.finetuning.features import cache
from data.text.opening import AnyTokenizer
from data.text.released.released_tokenizer import ReleasedTokenizer
from data.text.tokenizer import WORD_MARK
from training.finetuning.ranking.options import PIECE, WORD


class Units:
    """Makes units of pieces.

    A word is a run of pieces up to the next one that starts a word; punctuation
    stands alone. Its vector is the mean of its pieces'. Scripts without spaces
    have no such words: keep to pieces there. Stop words, in lower case, are
    left out, but of a text of nothing else. Features depend on `key`. Raises
    UserError: words of a vocabulary that does not mark where they start.
    """

    def __init__(
        self,
        tokenizer: AnyTokenizer,
        unit: str = PIECE,
        stop_words: Sequence[str] = (),
    ):
        self._unit, self._stop_words = unit, frozenset(stop_words)
        self._plain = unit == PIECE and not self._stop_words
        self.key = [unit, cache.hash_texts(sorted(self._stop_words))]
        if self._plain:
            return
        if isinstance(tokenizer, ReleasedTokenizer):
            raise UserError(
                "--unit=word and --stopwords need a SentencePiece vocabulary, "
                f"which marks where words start; found {tokenizer.path}: leave "
                "them out"
            )
        self._text = [
            tokenizer.id_to_piece(i).replace(WORD_MARK, "").lower()
            for i in range(tokenizer.vocab_size)
        ]
        mark = np.array([len(t) == 1 and not t.isalnum() for t in self._text])
        # A mark of a word's start may come with the punctuation, too.
        self._alone = mark
        self._starts = tokenizer.word_starts | mark

    def _words(self, ids: np.ndarray) -> tuple[np.ndarray, list[str]]:
        """Where words start [m], and their texts."""
        begins = self._starts[ids]
        begins[:1] = True
        begins[1:] |= self._alone[ids[:-1]]
        starts = np.flatnonzero(begins)
        ends = [*starts[1:], len(ids)]
        texts = [
            "".join(self._text[i] for i in ids[a:b].tolist())
            for a, b in zip(starts, ends, strict=True)
        ]
        return starts, texts

    def _cut(self, ids: np.ndarray):
        """Starts [w] and sizes [w] of the words, their texts, which count."""
        starts, texts = self._words(ids)
        kept = np.array([t not in self._stop_words for t in texts], bool)
        if not kept.any():
            kept = ~kept
        return starts, np.diff([*starts, len(ids)]), texts, kept

    def names(self, ids: np.ndarray) -> list[Hashable]:
        """The units [m] of a text's pieces [n]: piece ids or words."""
        if self._plain or not len(ids):
            return ids.tolist()
        _, sizes, texts, kept = self._cut(ids)
        if self._unit == WORD:
            return [t for t, keep in zip(texts, kept, strict=True) if keep]
        return ids[np.repeat(kept, sizes)].tolist()

    def pool(self, ids: np.ndarray, states: np.ndarray) -> np.ndarray:
        """Vectors [Y, m, D] of the units: pieces [n], states [Y, n, D]."""
        if self._plain or not len(ids):
            return states
        starts, sizes, _, kept = self._cut(ids)
        if self._unit == PIECE:
            return states[:, np.repeat(kept, sizes)]
        sums = np.add.reduceat(states, starts, axis=1)
        return (sums / sizes[:, np.newaxis].astype(np.float32))[:, kept]
