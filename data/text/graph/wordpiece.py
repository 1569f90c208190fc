"""WordPiece inside a TensorFlow graph, equal to the package `tokenizers`.

    raw bytes -> code points -> symbols -> tables -> words -> pieces -> ids

The package itself fills the tables when the graph is made: its normalizer says
what each code point becomes, its pre-tokenizer which ones are blanks and which
stand alone. `tensorflow_text` cuts the words. The graph then needs neither the
package nor a file.

Source: Devlin et al., 2019, and the rules of BERT's released vocabularies.
"""

import functools
import importlib
import json
import types
from typing import NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_text as tf_text

from common.errors import UserError
from common.vocabularies.frames import rule_parts
from data.text.graph import added_tokens, graph_text
from data.text.graph.added_tokens import AddedToken
from data.text.graph.composed import rewritten
from data.text.graph.graph_base import RawTokenizer, Spans
from data.text.graph.graph_text import CODE_POINTS, PAGE, Flat, code_pages
from data.text.released.released_tokenizer import ReleasedTokenizer

# How the pre-tokenizer sees a code point.
_LETTER, _BLANK, _ALONE = 0, 1, 2
# Bytes that a code point takes at most.
_WIDEST = 4
# Rows of `normalizer` and `pre_tokenizer` in tokenizer.json that change each
# code point for itself, so that a table can stand for them.
_NORMALIZERS = ("BertNormalizer", "Lowercase", "StripAccents", "NFD", "NFKD")
_PRE_TOKENIZERS = ("BertPreTokenizer",)
_RULES = ("normalizer", "pre_tokenizer")


# A model of the package that cuts nothing: only its rules are asked.
_NO_PIECES = {
    "type": "WordPiece",
    "unk_token": "[UNK]",
    "continuing_subword_prefix": "##",
    "max_input_chars_per_word": 100,
    "vocab": {},
}


class WordPieceFile(NamedTuple):
    """What the graph needs of a `tokenizer.json`."""

    pieces: list[str]  # by id; "" where an id has none
    unknown: int  # id of the piece for words that cannot be cut
    prefix: str  # of pieces inside a word
    longest: int  # code points of a word at most; longer ones are unknown
    symbols: list[AddedToken]  # `[CLS]` say, in raw or in normalised text
    rules: str  # JSON of `normalizer` and `pre_tokenizer`


def parse(offline: ReleasedTokenizer) -> WordPieceFile:
    """Reads a WordPiece `tokenizer.json`.

    Raises UserError: it holds a rule that the graph does not have.
    """
    tokenizer, content, path = offline.package, offline.rules, offline.path
    _check_rules(content, path)
    model = content["model"]
    flags = ("single_word", "lstrip", "rstrip")
    tokens = added_tokens.read(content, tokenizer, path, flags)
    return WordPieceFile(
        [tokenizer.id_to_token(i) or "" for i in range(offline.vocab_size)],
        tokenizer.token_to_id(model["unk_token"]),
        model["continuing_subword_prefix"],
        model["max_input_chars_per_word"],
        tokens,
        json.dumps({name: content.get(name) for name in _RULES}),
    )


def _check_rules(content: dict, path: str) -> None:
    for field, parts, known in (
        ("normalizer", "normalizers", _NORMALIZERS),
        ("pre_tokenizer", "pretokenizers", _PRE_TOKENIZERS),
    ):
        kinds = [
            row.get("type") for row in rule_parts(content.get(field), parts)
        ]
        if not kinds and field == "pre_tokenizer":
            kinds = [None]  # words are cut by something
        for kind in kinds:
            if kind not in known:
                raise UserError(
                    f"{path}: wanted a {field} of {', '.join(known)}, found "
                    f"{kind}; a graph of WordPiece has no other: predict with "
                    "--do_predict"
                )


# --- Tables, made by the package ---------------------------------------------


@functools.lru_cache(maxsize=4)
def _tables(rules: str) -> tuple[tuple[np.ndarray, ...], ...]:
    """(what code points become, how they are classed) by some rules."""
    content = {"version": "1.0", "model": _NO_PIECES, **json.loads(rules)}
    package = importlib.import_module("tokenizers")
    tokenizer = package.Tokenizer.from_str(json.dumps(content))
    normalizer, changes = tokenizer.normalizer, {}
    if normalizer is not None:
        changes = rewritten(normalizer.normalize_str)
    return (
        graph_text.rewrite_tables(changes),
        _class_tables(tokenizer.pre_tokenizer),
    )


def _class_tables(pre_tokenizer) -> tuple[np.ndarray, np.ndarray]:
    """Two-stage table of `_LETTER`, `_BLANK`, `_ALONE`."""
    dense = np.zeros(CODE_POINTS, np.int32)
    for first, chars in code_pages():
        text = " ".join(f"a{char}a" for char in chars)
        spans = {span for _, span in pre_tokenizer.pre_tokenize_str(text)}
        for i in range(PAGE):
            at = 4 * i + 1  # of the character in `text`
            if (at, at + 1) in spans:
                dense[first + i] = _ALONE
            elif (at - 1, at + 2) not in spans:
                dense[first + i] = _BLANK
    return graph_text.two_stage(dense)


# --- The graph ---------------------------------------------------------------


class GraphWordPiece(RawTokenizer):
    """Raw UTF-8 strings -> ids, equal to those of the package `tokenizers`.

    Text must be valid UTF-8: TensorFlow raises InvalidArgumentError otherwise.
    Two combining characters that are not dropped (class Mc) and stand in
    another order than NFD's keep their order here.
    """

    def __init__(self, file: WordPieceFile):
        super().__init__(name="graph_wordpiece")
        self.vocab_size = len(file.pieces)
        # A module would save tuples and dictionaries as objects of their own.
        self._file = types.SimpleNamespace(**file._asdict())
        with tf.init_scope():
            self._pieces = tf.constant(file.pieces)
            rewrite, classes = _tables(file.rules)
            self._rewrite = graph_text.Rewriting(rewrite)
            self._classes = types.SimpleNamespace(
                pages=tuple(map(tf.constant, classes))
            )
            finders = added_tokens.finders(file.symbols)
            self._symbols, self._late, self._symbol_ids = finders
        # Ids without a piece must not be met in words, which are UTF-8.
        vocabulary = [
            piece or b"\xff%d" % i for i, piece in enumerate(file.pieces)
        ]
        try:
            self._wordpiece = tf_text.FastWordpieceTokenizer(
                vocab=vocabulary,
                suffix_indicator=file.prefix,
                max_bytes_per_word=_WIDEST * file.longest,
                token_out_type=tf.int32,
                unknown_token=file.pieces[file.unknown],
                no_pretokenization=True,
            )
        except (RuntimeError, TypeError) as e:
            raise UserError(
                f"the vocabulary has no form in a graph ({str(e)[:120]}): "
                "export is not possible, predict with --do_predict"
            ) from e

    def detokenize(self, ids: tf.RaggedTensor) -> tf.Tensor:
        """int32 [B, (pieces)] -> [B] text, pieces of a word joined."""
        text = tf.strings.reduce_join(self.id_to_piece(ids), 1, separator=" ")
        return tf.strings.regex_replace(text, f" {self._file.prefix}", "")

    def tokenize_with_offsets(self, texts: tf.Tensor) -> Spans:
        flat = graph_text.decode(texts)
        if self._symbols:
            flat = self._symbols(flat, tf.zeros_like(flat.points, tf.bool))
        flat = self._rewrite(flat)
        if self._late:
            flat = self._late(flat, tf.zeros_like(flat.points, tf.bool))
        flat, begins = self._words(flat)
        word_starts = tf.cast(tf.where(begins)[:, 0], tf.int32)  # [W]
        splits = tf.concat([word_starts, [tf.size(flat.points)]], 0)
        pieces, starts, ends = self._cut(flat, splits)
        rows = tf.gather(flat.rows, word_starts)  # of the words
        counts = tf.math.unsorted_segment_sum(
            tf.cast(pieces.row_lengths(), tf.int32), rows, flat.count
        )
        first = tf.gather(flat.starts, starts)
        last = tf.gather(flat.ends, ends - 1)
        return tuple(
            tf.RaggedTensor.from_row_lengths(v, counts, validate=False)
            for v in (pieces.values, first, last)
        )

    def _words(self, flat: Flat) -> tuple[Flat, tf.Tensor]:
        """Code points without blanks, and which of them begin a word."""
        kind = graph_text.lookup(self._classes.pages, flat.points, _ALONE)
        alone = tf.equal(kind, _ALONE)
        blank = tf.equal(kind, _BLANK)
        new_row = tf.not_equal(flat.rows[1:], flat.rows[:-1])
        behind = tf.concat([[True], new_row | (alone | blank)[:-1]], 0)
        begins = alone | behind[: tf.size(kind)]
        source = tf.cast(tf.where(~blank)[:, 0], tf.int32)
        words = flat.take(source, tf.gather(flat.points, source))
        return words, tf.gather(begins, source)

    def _cut(self, flat: Flat, splits: tf.Tensor):
        """Pieces [W, (pieces)] of words, and where each begins and ends.

        Starts and ends are numbers of code points in `flat`.
        """
        points = tf.RaggedTensor.from_row_splits(
            flat.points, splits, validate=False
        )
        lengths = splits[1:] - splits[:-1]  # [W]
        first = tf.gather(flat.points, splits[:-1])
        symbol = first >= CODE_POINTS
        whole = symbol | (lengths > self._file.longest)
        # One letter stands for what is not cut: its pieces are replaced.
        text = tf.strings.unicode_encode(
            tf.ragged.boolean_mask(points, ~whole), "UTF-8", errors="strict"
        )
        cut = tf.cast(tf.where(~whole)[:, 0], tf.int32)
        pieces, first_byte, end = self._wordpiece.tokenize_with_offsets(text)
        counts = tf.tensor_scatter_nd_update(
            tf.ones_like(lengths),
            cut[:, tf.newaxis],
            tf.cast(pieces.row_lengths(), tf.int32),
        )
        # A word that is cut into nothing does not exist; see the vocabulary.
        word, number = graph_text.expand(counts)
        is_cut = ~tf.gather(whole, word)
        rank = tf.cumsum(tf.cast(~whole, tf.int32), exclusive=True)
        piece_at = tf.gather(
            tf.concat([tf.cast(pieces.row_starts(), tf.int32), [0]], 0),
            tf.gather(rank, word),
        )
        piece_at = tf.where(is_cut, piece_at + number, tf.size(pieces.values))
        ids = tf.gather(tf.concat([pieces.values, [0]], 0), piece_at)
        number = tf.where(
            symbol, first - CODE_POINTS, tf.size(self._symbol_ids) - 1
        )
        fixed = tf.where(
            symbol, tf.gather(self._symbol_ids, number), self._file.unknown
        )
        ids = tf.where(is_cut, ids, tf.gather(fixed, word))
        starts, ends = self._points(
            flat, splits, word, is_cut, piece_at, (first_byte, end)
        )
        ragged = tf.RaggedTensor.from_row_lengths(ids, counts, validate=False)
        return ragged, starts, ends

    @staticmethod
    def _points(flat, splits, word, is_cut, piece_at, spans):
        """Byte spans of pieces in their words -> spans of code points."""
        sizes = graph_text.utf8_sizes(flat.points)
        before = tf.concat([[0], tf.cumsum(sizes)], 0)  # bytes before each
        word_at = tf.gather(splits, word)
        word_end = tf.gather(splits, word + 1)
        base = tf.gather(before, word_at)
        first_byte, end = (
            base
            + tf.gather(
                tf.concat([tf.cast(x.values, tf.int32), [0]], 0), piece_at
            )
            for x in spans
        )
        first, last = graph_text.points_of_bytes(sizes, first_byte, end)
        return (
            tf.where(is_cut, first, word_at),
            tf.where(is_cut, last, word_end),
        )


Graph = GraphWordPiece  # what `opening` asks for
