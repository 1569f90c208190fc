"""Streams as words: a record, a check of all, what a split is made of."""

import os

import numpy as np

from common.errors import UserError
from data.language_modeling.manifest import StreamManifest
from data.language_modeling.options import SPLITS
from data.language_modeling.stream import TokenStream
from data.pretraining.options import InspectOptions

_READ = 512  # records read at once
_SHOWN = 10  # most frequent symbols
_BAR = 40


def check_directory(manifest: StreamManifest, log=print) -> int:
    """Checks every record, file and the vocabulary; returns the records."""
    manifest.vocabulary()
    total = 0
    for split in SPLITS:
        if not manifest.has(split):
            continue
        stream = TokenStream(manifest, split)
        for file in stream.record_files:
            sentences = 0
            for first in range(0, file.records, _READ):
                last = min(first + _READ, file.records)
                arrays = stream.records(file, np.arange(first, last))
                sentences += int(np.bitwise_count(arrays["line_ends"]).sum())
            path = os.path.join(manifest.data_dir, file.name)
            if sentences != file.sentences:
                raise UserError(
                    f"{path}: wanted {file.sentences} line ends, found "
                    f"{sentences}; build the data again"
                )
            manifest.check_content(file.name, file.sha256)
            total += file.records
            log(f"{file.name}: {file.tokens} tokens: good")
    return total


def describe_record(manifest: StreamManifest, options: InspectOptions) -> str:
    """One record of a split as words."""
    split, left = options.split, options.record_number
    stream = TokenStream(manifest, split)
    for file in stream.record_files:
        if left < file.records:
            break
        left -= file.records
    else:
        total = sum(f.records for f in stream.record_files)
        raise UserError(
            f"--record_number={options.record_number}: the {split} split has "
            f"records 0..{total - 1}"
        )
    arrays = stream.records(file, np.asarray([left]))
    used = int(arrays["meta"]["tokens"][0])
    ids = arrays["input_ids"][0, :used]
    vocabulary = manifest.vocabulary()
    symbols = [vocabulary.symbol(int(i)) for i in ids]
    return "\n".join(
        [
            f"{file.name}: record {left} of {file.records}, {used} tokens",
            "",
            "tokens:",
            " ".join(symbols),
            "",
            "text:",
            vocabulary.decode(ids),
        ]
    )


def describe_statistics(
    manifest: StreamManifest, options: InspectOptions
) -> str:
    """What a split counts, its frequent symbols and lengths of lines."""
    split = options.split
    stream = TokenStream(manifest, split)
    counts = manifest.split_counts(split)
    size = manifest.options["record_tokens"]
    limit = min(options.max_records * size or len(stream), len(stream))
    seen = np.zeros(manifest.vocab_size, np.int64)
    lengths, before = [], 0
    done = 0
    for file in stream.record_files:
        taken = min(file.tokens, limit - done)
        if taken <= 0:
            break
        ids = stream.read_file(file, 0, taken)
        seen += np.bincount(ids, minlength=len(seen))
        ends = np.flatnonzero(stream.read_file(file, 0, taken, "line_ends"))
        if len(ends):
            line_lengths = np.diff(ends, prepend=-1)
            line_lengths[0] += before
            lengths.append(line_lengths)
            before = taken - 1 - int(ends[-1])
        else:
            before += taken
        done += taken
    p = seen[seen > 0] / done
    vocabulary = manifest.vocabulary()
    top = np.argsort(-seen, kind="stable")[:_SHOWN]
    lines = [
        f"{split}: {counts.tokens} tokens, {counts.words} words, "
        f"{counts.lines} lines, {counts.characters} characters, "
        f"{counts.bytes} bytes; {counts.unknown / counts.tokens:.2%} unknown",
        f"of the first {done} tokens: {np.count_nonzero(seen)} of "
        f"{manifest.vocab_size} symbols occur; entropy "
        f"{-(p * np.log(p)).sum():.4f} nats per token without context",
        "most frequent: "
        + ", ".join(
            f"{vocabulary.symbol(int(i))} {seen[i] / done:.2%}"
            for i in top
            if seen[i]
        ),
    ]
    return "\n".join(lines + _histogram(lengths))


def _histogram(lengths: list[np.ndarray]) -> list[str]:
    if not lengths:
        return ["no line ends"]
    sizes = np.concatenate(lengths)
    edges = 2 ** np.arange(int(np.log2(sizes.max())) + 2)
    counts = np.histogram(sizes, edges)[0]
    return ["tokens per line, its end included:"] + [
        f"  {low:8d}.. {count:9d} " + "#" * int(count / counts.max() * _BAR)
        for low, count in zip(edges, counts, strict=False)
    ]
