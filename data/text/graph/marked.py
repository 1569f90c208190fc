"""Text of SentencePiece's models inside a TensorFlow graph.

    code points -> added tokens -> text rules -> words -> pieces -> ids

What graphs of Unigram and of BPE by characters share, equal to the package
`tokenizers`: all but how words become pieces.
"""

import functools
import importlib
import json
import types

import numpy as np
import tensorflow as tf

from data.text.graph import added_tokens, graph_text
from data.text.graph.added_tokens import AddedToken, TokenFinder
from data.text.graph.charsmap import CharsMap
from data.text.graph.composed import Composer, rewritten
from data.text.graph.graph_base import RawTokenizer, Spans
from data.text.graph.graph_text import CODE_POINTS, Flat, code_pages
from data.text.released import marked_file
from data.text.released.marked_file import MarkedFile

_MARK = 0x2581
_SPACE = ord(" ")


@functools.lru_cache(maxsize=1)
def _white() -> tuple[np.ndarray, np.ndarray]:
    """Two-stage table: 1 where the package divides words."""
    package = importlib.import_module("tokenizers")
    split = package.pre_tokenizers.WhitespaceSplit()
    dense = np.ones(CODE_POINTS, np.int32)
    for first, chars in code_pages():
        for _, (start, end) in split.pre_tokenize_str("".join(chars)):
            dense[first + start : first + end] = 0
    return graph_text.two_stage(dense)


@functools.lru_cache(maxsize=8)
def _tables(rules: str) -> tuple[np.ndarray, ...]:
    """`graph_text.rewrite_tables` of a normalizer, by the package."""
    package = importlib.import_module("tokenizers")
    model = {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0.0]]}
    content = {"version": "1.0", "model": model}
    content["normalizer"] = json.loads(rules)
    normalizer = package.Tokenizer.from_str(json.dumps(content)).normalizer
    return graph_text.rewrite_tables(rewritten(normalizer.normalize_str))


class GraphMarked(RawTokenizer):
    """Raw UTF-8 strings -> ids; a subclass has `_best`.

    Text must be valid UTF-8: TensorFlow raises InvalidArgumentError otherwise.
    """

    def __init__(self, file: MarkedFile, name: str):
        super().__init__(name=name)
        self.vocab_size = len(file.pieces)
        # A module would save tuples and dictionaries as objects of their own.
        self._rules = types.SimpleNamespace(
            marks=file.marks,
            strip=file.strip,
            unknown=file.unknown,
            fuse=file.fuse,
            bytes=bool(file.bytes),
        )
        with tf.init_scope():
            self._pieces = tf.constant(file.pieces)
            self._text = tf.constant(file.texts)
            self._byte_ids = tf.constant(file.bytes or [0], tf.int32)
            raw, late, self._token_ids = added_tokens.finders(file.tokens)
            code = CODE_POINTS + len(file.tokens)
            self._parts = types.SimpleNamespace(
                white=tuple(map(tf.constant, _white())),
                blanks=tf.constant(graph_text.white_space()),
                raw=raw,
                late=late,
                steps=[self._step(step, code) for step in file.steps],
            )

    def _step(self, step, code: int):
        """Flat -> Flat of one step of the normalizer."""
        if step.kind == marked_file.COMPOSE:
            return Composer(compatible=step.rules == "NFKC")
        if step.kind == marked_file.COLLAPSE:
            return functools.partial(_collapse, ord(step.new))
        if step.kind == marked_file.PREPEND:
            return _with_marks
        if step.kind == marked_file.REPLACE:
            token = AddedToken(step.old, 0, False, False, False)
            finder = TokenFinder([token], code)
            return functools.partial(_replace, finder, code, ord(step.new))
        if step.kind == marked_file.CHARSMAP:
            table = CharsMap(step.rules)
            return lambda flat: table(flat, _segments(flat))
        if step.kind == marked_file.STRIP:
            return functools.partial(self._stripped, step.rules)
        return graph_text.Rewriting(_tables(step.rules))

    def _best(self, flat: Flat, word: tf.Tensor, begins: tf.Tensor):
        """(ids, first code points, last ones) of the pieces of words.

        Args:
          flat: code points, those of added tokens above all others.
          word: int32 [n], of each code point.
          begins: bool [n], code points at which a word begins.
        """
        raise NotImplementedError

    def detokenize(self, ids: tf.RaggedTensor) -> tf.Tensor:
        """int32 [B, (pieces)] -> [B] text; special tokens are left out."""
        text = tf.strings.reduce_join(tf.gather(self._text, ids), 1)
        if self._rules.bytes:
            # Bytes of a character that are not all there.
            text = tf.strings.unicode_transcode(text, "UTF-8", "UTF-8")
        if self._rules.strip:
            text = tf.strings.regex_replace(text, "^ ", "")
        return text

    def tokenize_with_offsets(self, texts: tf.Tensor) -> Spans:
        """See the base; a lone mark has the span of the character behind it."""
        raw = graph_text.decode(texts)
        flat, begins = self._words(self._prepare(raw))
        word = tf.cumsum(tf.cast(begins, tf.int32)) - 1  # of code points
        ids, first, last = self._best(flat, word, begins)
        ids = self._with_tokens(flat, ids, first)
        ids, first, last = self._fused(flat, word, ids, first, last)
        white = tf.reduce_any(
            tf.equal(raw.points[:, tf.newaxis], self._parts.blanks), 1
        )
        return graph_text.trimmed_rows(raw, white, flat, ids, first, last)

    def _prepare(self, raw: Flat) -> Flat:
        """Code points after the text rules, with added tokens."""
        flat, parts = raw, self._parts
        if parts.raw:
            flat = parts.raw(flat, self._is_white(flat))
        for step in parts.steps:
            flat = step(flat)
        if parts.late:
            flat = parts.late(flat, self._is_white(flat))
        return flat

    def _stripped(self, sides: str, flat: Flat) -> Flat:
        """Texts without white space at their ends: "left", "right" or both."""
        solid = ~self._is_white(flat)
        segment = tf.cumsum(tf.cast(_segments(flat), tf.int32)) - 1
        position = tf.range(tf.size(segment))
        texts = tf.reduce_max(tf.concat([[-1], segment], 0)) + 1
        keep = tf.ones_like(solid)
        if "left" in sides:
            at = tf.where(solid, position, tf.int32.max)
            first = tf.math.unsorted_segment_min(at, segment, texts)
            keep &= position >= tf.gather(first, segment)
        if "right" in sides:
            at = tf.where(solid, position, -1)
            last = tf.math.unsorted_segment_max(at, segment, texts)
            keep &= position <= tf.gather(last, segment)
        source = tf.cast(tf.where(keep)[:, 0], tf.int32)
        return flat.take(source, tf.gather(flat.points, source))

    def _is_white(self, flat: Flat) -> tf.Tensor:
        """bool [n]: code points that divide words."""
        return graph_text.lookup(self._parts.white, flat.points) > 0

    def _words(self, flat: Flat) -> tuple[Flat, tf.Tensor]:
        """Code points with the marks of words, and which begin a word."""
        rules = self._rules.marks
        begins = _segments(flat)
        if rules.split_white:
            white = self._is_white(flat)
            begins |= graph_text.behind(white)
            source = tf.cast(tf.where(~white)[:, 0], tf.int32)
            flat = flat.take(source, tf.gather(flat.points, source))
            begins = tf.gather(begins, source)
        else:
            points = tf.where(flat.points == _SPACE, _MARK, flat.points)
            flat = flat._replace(points=points)
        mark = tf.equal(flat.points, _MARK)
        bare = begins & ~mark & (flat.points < CODE_POINTS)
        if rules.prepend == "never":
            bare = tf.zeros_like(bare)
        elif rules.prepend == "first":
            bare &= tf.equal(flat.starts, 0)
        if rules.split_mark:
            begins |= mark
        source, offset = graph_text.expand(1 + tf.cast(bare, tf.int32))
        ahead = tf.equal(offset, 0)
        points = tf.gather(flat.points, source)
        points = tf.where(ahead & tf.gather(bare, source), _MARK, points)
        return flat.take(source, points), tf.gather(begins, source) & ahead

    def _with_tokens(self, flat: Flat, ids, first) -> tf.Tensor:
        """Ids with those of the added tokens."""
        point = tf.gather(flat.points, first)
        token = tf.gather(self._token_ids, tf.maximum(point - CODE_POINTS, 0))
        return tf.where(point >= CODE_POINTS, token, ids)

    def _fused(self, flat: Flat, word, ids, first, last):
        """Unknown pieces side by side become one, or bytes."""
        rules = self._rules
        unknown = tf.equal(ids, rules.unknown)
        unknown &= tf.gather(flat.points, first) < CODE_POINTS
        word = tf.gather(word, first)
        joins = unknown & graph_text.behind(unknown)
        joins &= ~graph_text.changes(word)
        if not rules.fuse:
            joins = tf.zeros_like(joins)
        keep = tf.cast(tf.where(~joins)[:, 0], tf.int32)
        ends = tf.concat([keep, [tf.size(ids)]], 0)[1:] - 1
        ids, first = tf.gather(ids, keep), tf.gather(first, keep)
        last = tf.gather(last, ends)
        if not rules.bytes:
            return ids, first, last
        unknown = tf.gather(unknown, keep)
        sizes = graph_text.utf8_sizes(flat.points)
        before = tf.concat([[0], tf.cumsum(sizes)], 0)
        first_byte = tf.gather(before, first)
        counts = tf.gather(before, last + 1) - first_byte
        source, offset = graph_text.expand(tf.where(unknown, counts, 1))
        byte_number = tf.gather(first_byte, source) + offset
        at = tf.searchsorted(before, byte_number, side="right") - 1
        byte = graph_text.byte(
            tf.gather(flat.points, at),
            tf.gather(sizes, at),
            byte_number - tf.gather(before, at),
        )
        unknown = tf.gather(unknown, source)
        byte_ids = tf.gather(self._byte_ids, tf.where(unknown, byte, 0))
        return (
            tf.where(unknown, byte_ids, tf.gather(ids, source)),
            tf.gather(first, source),
            tf.gather(last, source),
        )


def _segments(flat: Flat) -> tf.Tensor:
    """bool [n]: a row, an added token or text behind one begins."""
    token = flat.points >= CODE_POINTS
    return token | graph_text.behind(token) | graph_text.changes(flat.rows)


def _with_marks(flat: Flat) -> Flat:
    """A mark before every text, with the place of its first character."""
    ahead = _segments(flat) & (flat.points < CODE_POINTS)
    source, offset = graph_text.expand(1 + tf.cast(ahead, tf.int32))
    mark = tf.gather(ahead, source) & tf.equal(offset, 0)
    points = tf.where(mark, _MARK, tf.gather(flat.points, source))
    return flat.take(source, points)


def _replace(finder: TokenFinder, code: int, new: int, flat: Flat) -> Flat:
    """One text becomes one character, with the place of its last one."""
    flat = finder(flat, tf.zeros_like(flat.points, tf.bool))
    hit = tf.equal(flat.points, code)
    return flat._replace(
        points=tf.where(hit, new, flat.points),
        starts=tf.where(hit, flat.ends - 1, flat.starts),
    )


def _collapse(new: int, flat: Flat) -> Flat:
    """One character of several spaces, with the place of the last one."""
    space = tf.equal(flat.points, _SPACE)
    again = space & ~graph_text.changes(flat.rows)
    again = tf.concat([again[1:], [False]], 0) & space
    again &= tf.concat([space[1:], [False]], 0)
    points = tf.where(graph_text.behind(again), new, flat.points)
    source = tf.cast(tf.where(~again)[:, 0], tf.int32)
    return flat.take(source, tf.gather(points, source))
