"""Targets lost and flatness of the target rate on any text, as JSON.

    python -m studies.target_rates --input_glob=wikitext-2/train.txt \\
        --spiece_model_file=spiece.model --seq_lens=32,64,128,512

For each T: P, the rate that was wanted and found over all text tokens, and the
found rate, over the mean one, by pieces per word, by place in the sentence (from
its start and from its end) and at the edges of a segment's parts. Segments are
drawn again until --targets were seen; deviations of a class with n targets are
about 2 / sqrt(n).
"""

import json

import numpy as np
from absl import flags

from common.errors import UserError
from data.corpus import corpus_plan
from data.corpus import documents as corpus
from data.pretraining.options import BuildOptions
from data.pretraining.sampling import record_arrays
from data.pretraining.sampling import segments as segments_lib
from data.pretraining.sampling.token_stream import Stream, make_stream, tokenize
from data.text.tokenizer import Tokenizer
from flags import app, flag_values

FLAGS = flags.FLAGS
_PLACES = 4  # from the start and the end of a sentence
_EDGE = 2  # positions at the edges of a part
_MOST_PIECES = 5  # and more


def define() -> None:
    """Registers the benchmark's flags."""
    flags.DEFINE_string("input_glob", None, "Text to measure.", required=True)
    flags.DEFINE_string(
        "spiece_model_file", None, "Vocabulary to measure with.", required=True
    )
    flags.DEFINE_list("seq_lens", ["32", "64", "128", "512"], "Values of T.")
    flags.DEFINE_integer("num_predict", None, "P; by default the builder's.")
    flags.DEFINE_integer("targets", 1_000_000, "Targets to see, at least.")
    flags.DEFINE_float("megabytes", 4.0, "Text that is read, in 1e6 bytes.")


def read_stream(tokenizer: Tokenizer) -> Stream:
    """The first --megabytes of the text; UserError: there is none."""
    paths = corpus.list_files(FLAGS.input_glob)
    runs = corpus_plan.plan_corpus(paths, int(FLAGS.megabytes * 1e6))
    documents = []
    if runs:
        documents, _ = corpus.read_run(runs[0], corpus.BlockReader())
    if not documents:
        raise UserError(
            f"--input_glob={FLAGS.input_glob}: wanted text in the first "
            f"--megabytes={FLAGS.megabytes:g}, found none"
        )
    return make_stream(*tokenize(documents, tokenizer), tokenizer.word_starts)


class Tally:
    """Counts of one T.

    Attributes:
      hit, seen: float [N], how often a token was a target and was there.
      hit_at, seen_at: float [T], the same by position.
      empty: segments with text and without a target.
    """

    def __init__(self, stream: Stream, options: BuildOptions, targets: int):
        self.hit, self.seen = np.zeros(len(stream)), np.zeros(len(stream))
        self.hit_at = np.zeros(options.seq_len)
        self.seen_at = np.zeros(options.seq_len)
        self.empty = self.segments = 0
        rng = np.random.default_rng(options.seed)
        while self.hit.sum() < targets:
            cut = segments_lib.make_segments(
                stream, len(stream), options.seq_len, options.reuse_len, rng
            )
            for first in range(0, len(cut), record_arrays.CHUNK):
                part = cut.slice(first, first + record_arrays.CHUNK)
                self._add(stream, part, options, rng)

    def _add(self, stream, part, options, rng) -> None:
        token_places = segments_lib.places(
            part, options.seq_len, options.reuse_len
        )
        is_target = record_arrays.draw_targets(stream, part, options, rng)
        there = np.zeros(is_target.size, bool)
        there[token_places.position] = True
        self.hit_at += is_target.sum(0)
        self.seen_at += there.reshape(is_target.shape).sum(0)
        inside = is_target.reshape(-1)[token_places.position]
        n = len(stream)
        self.hit += np.bincount(token_places.token, inside, n)
        self.seen += np.bincount(token_places.token, minlength=n)
        self.empty += int((is_target.sum(1) == 0).sum())
        self.segments += len(part)

    def rate(self, where=slice(None)) -> float:
        """Targets per token of a class of tokens."""
        return float(self.hit[where].sum() / max(self.seen[where].sum(), 1))


def _report(stream: Stream, tally: Tally, options: BuildOptions) -> dict:
    mean = tally.rate()
    wanted = options.mask_beta / options.mask_alpha
    starts = np.flatnonzero(stream.words)
    sizes = np.diff(np.append(starts, len(stream)))
    pieces = np.minimum(np.repeat(sizes, sizes), _MOST_PIECES)
    length = np.diff(np.append(stream.sentences, len(stream)))
    position = np.arange(len(stream)) - np.repeat(stream.sentences, length)
    left = np.repeat(length, length) - 1 - position
    at = tally.hit_at / np.maximum(tally.seen_at, 1) / mean
    reuse = options.reuse_len
    edges = {
        "reuse_start": at[:_EDGE],
        "reuse_end": at[reuse - _EDGE : reuse],
        "a_start": at[reuse : reuse + _EDGE],
        "b_end": at[options.seq_len - 2 - _EDGE : options.seq_len - 2],
    }
    return {
        "seq_len": options.seq_len,
        "num_predict": options.num_predict,
        "targets": int(tally.hit.sum()),
        "wanted": wanted,
        "found": mean,
        "lost_percent": 100 * (1 - mean / wanted),
        "segments_without_targets": tally.empty / tally.segments,
        "by_pieces_per_word": {
            str(k): tally.rate(pieces == k) / mean
            for k in range(1, _MOST_PIECES + 1)
        },
        "by_place_from_start": [
            tally.rate(position == k) / mean for k in range(_PLACES)
        ],
        "by_place_from_end": [
            tally.rate(left == k) / mean for k in range(_PLACES)
        ],
        "by_position": {k: v.tolist() for k, v in edges.items()},
    }


def main() -> None:
    """Measures every T and prints JSON."""
    if FLAGS.targets < 1 or FLAGS.megabytes <= 0:
        raise UserError("--targets and --megabytes must be positive")
    seq_lens = flag_values.whole_numbers("seq_lens", FLAGS.seq_lens)
    tokenizer = Tokenizer(FLAGS.spiece_model_file)
    stream = read_stream(tokenizer)
    results = []
    for seq_len in seq_lens:
        options = BuildOptions(
            FLAGS.input_glob,
            FLAGS.spiece_model_file,
            "",
            seq_len=seq_len,
            reuse_len=seq_len // 2,
            num_predict=FLAGS.num_predict,
        )
        tally = Tally(stream, options, FLAGS.targets)
        results.append(_report(stream, tally, options))
    words = np.count_nonzero(stream.words)
    print(
        json.dumps(
            {
                "vocab_size": tokenizer.vocab_size,
                "tokens": len(stream),
                "pieces_per_word": len(stream) / words,
                "results": results,
            },
            indent=2,
        )
    )


if __name__ == "__main__":
    define()
    app.run(main)
