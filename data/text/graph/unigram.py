"""Unigram inside a TensorFlow graph, equal to the package `tokenizers`.

    code points -> added tokens -> text rules -> words -> best pieces -> ids

The best pieces of all words are found at once: all pieces that begin at each
code point, then the best way to each end from the left (Viterbi), by 64 bit as
the package does; of equal ways the one whose last piece begins first. A place
that no piece crosses divides the work: between two such places the ways are
independent.

Source: Kudo, 2018, "Subword Regularization", section 3.2.
"""

import functools
import importlib
import json
import types

import numpy as np
import tensorflow as tf

from data.text.graph import added_tokens, graph_text
from data.text.graph.added_tokens import AddedToken, TokenFinder, Trie
from data.text.graph.composed import Composer, rewritten
from data.text.graph.graph_base import RawTokenizer, Spans
from data.text.graph.graph_text import CODE_POINTS, Flat, code_pages
from data.text.released import unigram_file

_MARK = 0x2581
_SPACE = ord(" ")
_NEVER = -np.inf


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


class GraphUnigram(RawTokenizer):
    """Raw UTF-8 strings -> ids, equal to those of the package `tokenizers`.

    Text must be valid UTF-8: TensorFlow raises InvalidArgumentError otherwise.
    """

    def __init__(self, file: unigram_file.UnigramFile):
        super().__init__(name="graph_unigram")
        self.vocab_size = len(file.pieces)
        # A module would save tuples and dictionaries as objects of their own.
        self._rules = types.SimpleNamespace(
            split_white=file.split_white,
            prepend=file.prepend,
            split_mark=file.split_mark,
            unknown=file.unknown,
            bytes=bool(file.bytes),
        )
        rows = list(file.scores.values())
        scores = np.asarray([score for _, score in rows], np.float64)
        # Sums of such numbers are exact, in any order.
        self._exact = bool((scores == scores.astype(np.float32)).all())
        with tf.init_scope():
            self._pieces = tf.constant(file.pieces)
            self._text = tf.constant(unigram_file.texts_of(file))
            self._ids = tf.constant([number for number, _ in rows], tf.int32)
            self._scores = tf.constant(scores)
            self._unknown_score = tf.constant(file.unknown_score, tf.float64)
            self._byte_ids = tf.constant(file.bytes or [0], tf.int32)
            raw, late, self._token_ids = added_tokens.finders(file.tokens)
            code = CODE_POINTS + len(file.tokens)
            self._parts = types.SimpleNamespace(
                white=tuple(map(tf.constant, _white())),
                blanks=tf.constant(graph_text.white_space()),
                raw=raw,
                late=late,
                steps=[self._step(step, code) for step in file.steps],
                trie=Trie(list(file.scores)),
            )
        self._longest = max(map(len, file.scores))

    def _step(self, step, code: int):
        """Flat -> Flat of one step of the normalizer."""
        if step.kind == unigram_file.COMPOSE:
            return Composer(compatible=step.rules == "NFKC")
        if step.kind == unigram_file.COLLAPSE:
            return _collapse
        if step.kind == unigram_file.REPLACE:
            token = AddedToken(step.old, 0, False, False, False)
            finder = TokenFinder([token], code)
            return functools.partial(_replace, finder, code, ord(step.new))
        rewriting = graph_text.Rewriting(_tables(step.rules))
        if step.kind == unigram_file.TABLE:
            return rewriting
        return functools.partial(_charsmap, rewriting)

    def detokenize(self, ids: tf.RaggedTensor) -> tf.Tensor:
        """int32 [B, (pieces)] -> [B] text; special tokens are left out."""
        text = tf.strings.reduce_join(tf.gather(self._text, ids), 1)
        return tf.strings.regex_replace(text, "^ ", "")

    def tokenize_with_offsets(self, texts: tf.Tensor) -> Spans:
        """See the base; a lone mark has the span of the character behind it."""
        raw = graph_text.decode(texts)
        flat, begins = self._words(self._prepare(raw))
        word = tf.cumsum(tf.cast(begins, tf.int32)) - 1  # of code points
        ids, first, last = self._best(flat, word, begins)
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

    def _is_white(self, flat: Flat) -> tf.Tensor:
        """bool [n]: code points that divide words."""
        return graph_text.lookup(self._parts.white, flat.points) > 0

    def _words(self, flat: Flat) -> tuple[Flat, tf.Tensor]:
        """Code points with the marks of words, and which begin a word."""
        rules = self._rules
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

    def _matches(self, flat: Flat, word):
        """(scores [L, n] float64, pieces [L, n]) of 1 to L code points."""
        count = tf.size(flat.points)
        points = tf.concat([flat.points, [CODE_POINTS]], 0)
        words = tf.concat([word, [-1]], 0)
        trie = self._parts.trie

        def step(offset, at, state, out):
            position = tf.minimum(at + offset, count)
            state = trie.next(state, tf.gather(points, position))
            live = (state >= 0) & tf.equal(
                tf.gather(words, position), tf.gather(words, at)
            )
            at, state = (tf.boolean_mask(x, live) for x in (at, state))
            piece = tf.tensor_scatter_nd_update(
                tf.fill([count], -1),
                at[:, tf.newaxis],
                tf.gather(trie.ends, state),
            )
            return offset + 1, at, state, out.write(offset, piece)

        out = tf.TensorArray(
            tf.int32, self._longest, element_shape=tf.TensorShape([None])
        )
        vector = tf.TensorShape([None])
        out = tf.while_loop(
            lambda offset, *_: offset < self._longest,
            step,
            (0, tf.range(count), tf.zeros_like(flat.points), out),
            (tf.TensorShape([]), vector, vector, tf.TensorShape(None)),
        )[-1]
        piece = out.stack()
        scores = tf.where(
            piece < 0,
            tf.constant(_NEVER, tf.float64),
            tf.gather(self._scores, tf.maximum(piece, 0)),
        )
        alone = tf.where(piece[:1] < 0, self._unknown_score, scores[:1])
        return tf.concat([alone, scores[1:]], 0), piece

    def _best(self, flat: Flat, word, begins):
        """(ids, first code points, last ones) of the best pieces."""
        count = tf.size(flat.points)
        scores, piece = self._matches(flat, word)
        starts = tf.where(self._divided(piece, begins))[:, 0]
        starts = tf.cast(starts, tf.int32)
        size = self._sizes(tf.reshape(scores, [-1]), starts, count)
        # From the last place to the one before its piece; 0 is the end.
        before = tf.concat([[0], tf.range(1, count + 1) - size], 0)
        taken = added_tokens.follow(before, count)[1:]
        last = tf.cast(tf.where(taken)[:, 0], tf.int32)
        size = tf.gather(size, last)
        first = last - size + 1
        number = tf.gather(tf.reshape(piece, [-1]), (size - 1) * count + first)
        ids = tf.where(
            number < 0,
            self._rules.unknown,
            tf.gather(self._ids, tf.maximum(number, 0)),
        )
        point = tf.gather(flat.points, first)
        token = tf.gather(self._token_ids, tf.maximum(point - CODE_POINTS, 0))
        return tf.where(point >= CODE_POINTS, token, ids), first, last

    def _divided(self, piece: tf.Tensor, begins: tf.Tensor) -> tf.Tensor:
        """bool [n]: where a word begins, or no piece lies across."""
        if not self._exact:
            return begins
        count = tf.size(begins)
        size = tf.range(1, self._longest + 1)[:, tf.newaxis]
        longest = tf.reduce_max(tf.where(piece < 0, 1, size), 0)  # [n]
        at = tf.range(count)
        across = tf.math.unsorted_segment_sum(
            tf.repeat([1, -1], count),
            tf.concat([at + 1, at + longest], 0),
            count + 1,
        )
        return begins | tf.equal(tf.cumsum(across)[:-1], 0)

    def _sizes(self, scores, starts, count) -> tf.Tensor:
        """int32 [n]: of the best way to each end the size of the last piece."""
        lengths = tf.concat([starts, [count]], 0)[1:] - starts
        sizes = tf.range(self._longest, 0, -1)  # the first to begin wins

        def step(position, best, size):
            live = tf.boolean_mask(starts, lengths > position)
            at = live + position
            start = at[:, tf.newaxis] - sizes + 1  # [A, L]
            fits = start >= live[:, tf.newaxis]
            start = tf.maximum(start, live[:, tf.newaxis])
            before = tf.where(
                start > live[:, tf.newaxis],
                tf.gather(best, tf.maximum(start - 1, 0)),
                tf.constant(0, tf.float64),
            )
            way = before + tf.gather(scores, (sizes - 1) * count + start)
            way = tf.where(fits, way, tf.constant(_NEVER, tf.float64))
            top = tf.reduce_max(way, 1, keepdims=True)
            chosen = tf.reduce_max(tf.where(tf.equal(way, top), sizes, 0), 1)
            at = at[:, tf.newaxis]
            return (
                position + 1,
                tf.tensor_scatter_nd_update(best, at, top[:, 0]),
                tf.tensor_scatter_nd_update(size, at, chosen),
            )

        steps = tf.reduce_max(tf.concat([[0], lengths], 0))
        vector = tf.TensorShape([None])
        return tf.while_loop(
            lambda position, *_: position < steps,
            step,
            (0, tf.zeros([count], tf.float64), tf.ones([count], tf.int32)),
            (tf.TensorShape([]), vector, vector),
        )[-1]

    def _fused(self, flat: Flat, word, ids, first, last):
        """Unknown pieces side by side become one, or bytes."""
        rules = self._rules
        unknown = tf.equal(ids, rules.unknown)
        unknown &= tf.gather(flat.points, first) < CODE_POINTS
        word = tf.gather(word, first)
        joins = unknown & graph_text.behind(unknown)
        joins &= ~graph_text.changes(word)
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


def _replace(finder: TokenFinder, code: int, new: int, flat: Flat) -> Flat:
    """One text becomes one character, with the place of its last one."""
    flat = finder(flat, tf.zeros_like(flat.points, tf.bool))
    hit = tf.equal(flat.points, code)
    return flat._replace(
        points=tf.where(hit, new, flat.points),
        starts=tf.where(hit, flat.ends - 1, flat.starts),
    )


def _collapse(flat: Flat) -> Flat:
    """One space of several, with the place of the last one."""
    space = tf.equal(flat.points, _SPACE)
    again = space & ~graph_text.changes(flat.rows)
    again = tf.concat([again[1:], [False]], 0) & space
    again &= tf.concat([space[1:], [False]], 0)
    source = tf.cast(tf.where(~again)[:, 0], tf.int32)
    return flat.take(source, tf.gather(flat.points, source))


def _charsmap(rewriting: graph_text.Rewriting, flat: Flat) -> Flat:
    """A table whose places lag behind by what it drops at a text's start.

    The package does not count characters that are dropped before any stays.
    """
    segment = tf.cumsum(tf.cast(_segments(flat), tf.int32)) - 1
    position = tf.range(tf.size(flat.points))
    numbered = flat._replace(starts=position)
    rewritten_text = rewriting(numbered)
    source = rewritten_text.starts
    segments = tf.reduce_max(tf.concat([[-1], segment], 0)) + 1
    none = tf.size(position)
    lead = tf.math.unsorted_segment_min(
        source, tf.gather(segment, source), segments
    ) - tf.math.unsorted_segment_min(position, segment, segments)
    lead = tf.where(lead > none, 0, lead)
    source -= tf.gather(lead, tf.gather(segment, source))
    return rewritten_text._replace(
        starts=tf.gather(flat.starts, source), ends=tf.gather(flat.ends, source)
    )


# What `opening` asks for.
Graph, parse = GraphUnigram, unigram_file.parse
