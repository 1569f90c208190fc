"""First-stage retrieval by BM25."""

import logging
import re
import unicodedata
from collections.abc import Iterable

import numpy as np

from common.errors import UserError
from data.finetuning.ranking import lines
from data.finetuning.ranking.documents import Document, select
from data.finetuning.ranking.runs import Run


class Bm25:
    """An index of a collection (Lucene's form of BM25, by `bm25s`).

    Of the documents their ids and words are kept, not their texts. Stop words
    are left out (`read_stop_words`); `split` cuts a text into words. Raises
    UserError: no document, a document id twice, the package is missing.
    """

    def __init__(
        self,
        documents: Iterable[Document],
        k1: float = 0.9,
        b: float = 0.4,
        stop_words: str = "en",
    ):
        tool = lines.package("bm25s")
        logging.getLogger("bm25s").setLevel(logging.WARNING)
        self._tokenizer = tool.tokenization.Tokenizer(
            splitter=split,
            stopwords=list(map(_one_form, read_stop_words(stop_words))) or None,
        )
        self._names: list[str] = []
        scored = [
            np.asarray(ids, np.int32)
            for ids in self._tokenizer.streaming_tokenize(
                self._texts(documents), allow_empty=False
            )
        ]
        if not self._names:
            raise UserError("--documents holds no document")
        if not any(map(len, scored)):
            raise UserError(
                "--documents holds no word besides stop words: check the "
                "files and --documents_format"
            )
        self._index = tool.BM25(k1=k1, b=b)
        self._index.index(
            (scored, self._tokenizer.get_vocab_dict()),
            show_progress=False,
            leave_progress=False,
        )

    def _texts(self, documents: Iterable[Document]):
        for document in select(documents):
            self._names.append(document.id)
            yield document.text

    def _scores(self, topics: dict[str, str]):
        """(query, scores [documents]) of queries with a known word."""
        asked = self._tokenizer.streaming_tokenize(
            topics.values(), update_vocab="never", allow_empty=False
        )
        for query, ids in zip(topics, asked, strict=True):
            if ids:
                yield query, np.asarray(self._index.get_scores(ids))

    def search(self, topics: dict[str, str], depth: int) -> Run:
        """The best documents of each query that have a word of it."""
        run: Run = {}
        for query, scores in self._scores(topics):
            matches = np.flatnonzero(scores > 0)
            best = sorted(
                ((float(scores[i]), self._names[i]) for i in matches),
                reverse=True,
            )
            if best:
                run[query] = {name: score for score, name in best[:depth]}
        return run

    def rescore(self, topics: dict[str, str], run: Run) -> Run:
        """BM25's scores of a run's documents; UserError: one is not there."""
        row_of = {name: i for i, name in enumerate(self._names)}
        rescored = {
            q: dict.fromkeys(documents, 0.0) for q, documents in run.items()
        }
        for documents in run.values():
            missing = next((d for d in documents if d not in row_of), None)
            if missing is not None:
                raise UserError(
                    f"--documents lacks the candidate {missing!r}: are run "
                    "and documents of one collection?"
                )
        for query, scores in self._scores({q: topics[q] for q in run}):
            for name in run[query]:
                rescored[query][name] = float(scores[row_of[name]])
        return rescored


FLAG = "--stop_words"
ENGLISH = "en"
# Scripts that leave no space between words: a run of their characters is read
# as its overlapping pairs, as Lucene's analyser of them does.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
    "\u3040-\u30ff\u31f0-\u31ff"  # Hiragana, Katakana
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # Chinese characters
    "\U00020000-\U0003ffff"
)
# Vowel signs and accents that stand alone belong to their word; \w lacks them.
_MARKS = "".join(
    chr(code)
    for code in range(0x300, 0xFFFF)
    if unicodedata.category(chr(code)) in ("Mn", "Mc")
)
_RUN = re.compile(rf"[{_UNSPACED}]+|(?:[^\W{_UNSPACED}][{_MARKS}]*)+")
_FIRST = re.compile(rf"[{_UNSPACED}]")


def _one_form(text: str) -> str:
    """The text without case and in one of Unicode's forms.

    An accent may be a character of its own, and a letter of full width.
    """
    return unicodedata.normalize("NFKC", text).casefold()


def split(text: str) -> list[str]:
    """Words of at least two letters; pairs where no spaces are written.

    A run of one such character is a word.
    """
    words = []
    for run in _RUN.findall(_one_form(text)):
        if not _FIRST.match(run):
            if len(run) > 1:
                words.append(run)
        elif len(run) == 1:
            words.append(run)
        else:
            words += [run[i : i + 2] for i in range(len(run) - 1)]
    return words


def read_stop_words(name: str) -> tuple[str, ...]:
    """Words to leave out, in lower case.

    Of "" none, of "en" English ones, else of a file with a word per line.
    Raises UserError: no such file, or a line of several words.
    """
    if not name:
        return ()
    if name == ENGLISH:
        tool = lines.package("bm25s.stopwords")
        return tuple(tool.STOPWORDS_EN)
    words = []
    for number, line in lines.read(name, FLAG):
        if line.strip():
            word = lines.check_id(name, number, "stop word", line.strip())
            words.append(word.lower())
    if not words:
        raise UserError(
            f"{FLAG}={name} holds no word: give en, a file with a word per "
            "line, or an empty value for none"
        )
    return tuple(words)
