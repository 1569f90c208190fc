"""Records as text, and statistics of many."""

import os
from collections.abc import Iterator

import numpy as np

from common import files
from common.errors import UserError
from common.vocabularies import vocabulary
from data.pretraining.build_report import rate_line, source_lines
from data.pretraining.manifest import LaneFile, PretrainingManifest
from data.pretraining.options import SPLITS, InspectOptions
from data.pretraining.sampling import permutation
from data.pretraining.sampling import segments as segments_lib
from data.pretraining.sampling.record_arrays import part_lengths, targets_of
from data.text.tokenizer import Tokenizer

_READ = 512
_BAR = 40


def read_records(
    manifest: PretrainingManifest, file: LaneFile, first: int, count: int
) -> dict[str, np.ndarray]:
    """Records of a file; UserError: it ends before or a checksum is wrong."""
    return _read(manifest, file.name, first, count)


def _read(manifest, name: str, first: int, count: int):
    path = os.path.join(manifest.data_dir, name)
    with files.open_binary(path) as f:
        raw = manifest.format.read(f, path, first, count)
    bad = manifest.format.find_corrupt(raw)
    if bad is not None:
        manifest.refuse_record(name, first + bad[0], bad[1])
    return manifest.format.decode(raw)


def chosen_files(
    manifest: PretrainingManifest, options: InspectOptions
) -> list[LaneFile]:
    """Files of the split, direction and pass that the options name.

    Raises UserError where there are none.
    """
    chosen = manifest.select(
        options.split, options.direction, options.pass_number
    )
    if chosen:
        return chosen
    splits = ", ".join(s for s in SPLITS if manifest.lanes(s))
    directions = "forward, backward" if manifest.bi_data else "forward"
    raise UserError(
        f"{manifest.data_dir}: wanted --split={options.split} --direction="
        f"{options.direction} --pass_number={options.pass_number}, found splits "
        f"{splits}, directions {directions}, passes 0..{manifest.num_passes - 1}"
    )


def all_records(
    manifest: PretrainingManifest, options: InspectOptions
) -> Iterator[dict[str, np.ndarray]]:
    """Runs of records of one split, direction and pass."""
    left = options.max_records or 1 << 62
    chosen = chosen_files(manifest, options)
    per_lane = manifest.segments_per_lane[options.split]
    for file in chosen:
        total = file.lanes * per_lane
        for first in range(0, total, _READ):
            count = min(_READ, total - first, left)
            if count <= 0:
                return
            left -= count
            yield read_records(manifest, file, first, count)


# --- One record ---------------------------------------------------------------


def find_record(manifest: PretrainingManifest, options: InspectOptions):
    """The arrays of the record that the options name, n = 1.

    Raises UserError where there is no such lane or segment.
    """
    chosen = chosen_files(manifest, options)
    per_lane = manifest.segments_per_lane[options.split]
    if options.segment >= per_lane:
        raise UserError(
            f"--segment={options.segment}: lanes have segments "
            f"0..{per_lane - 1}"
        )
    lane = options.lane
    for file in chosen:
        if lane < file.lanes:
            number = lane * per_lane + options.segment
            return file, read_records(manifest, file, number, 1)
        lane -= file.lanes
    raise UserError(
        f"--lane={options.lane}: found {sum(f.lanes for f in chosen)} "
        f"{options.direction} lanes in split {options.split}, pass "
        f"{options.pass_number} of {manifest.data_dir}"
    )


def describe_record(
    manifest: PretrainingManifest, options: InspectOptions
) -> str:
    """One record as words, with its targets, order and mask."""
    file, row = find_record(manifest, options)
    tokenizer = _tokenizer(manifest, options.spiece_model_file)
    meta = row["meta"][0]
    layout = _layout(row["meta"], manifest)
    real = layout.input_mask[0]
    target = targets_of(row)[0]
    ranks = row["ranks"][0].astype(int)
    ids = row["input_ids"][0]
    pieces = [
        tokenizer.id_to_piece(int(i)) if tokenizer else str(i) for i in ids
    ]
    label = "B follows A" if meta["label"] else "B is of another document"
    lines = [
        f"{file.name}: lane {meta['lane']}, segment {meta['segment']}, "
        f"{options.direction}",
        f"reuse part {meta['reuse_tokens']}, A {meta['a_tokens']}, B "
        f"{meta['b_tokens']} tokens; {label}; {meta['targets']} of "
        f"{manifest.num_predict} targets",
        "",
        "text, with [targets] and | between the parts:",
        _text(pieces, target, real, manifest.reuse_len),
        "",
        "order of prediction (rank: position piece):",
    ]
    lines += _order(pieces, target, ranks, manifest.reuse_len)
    lines += ["", *_mask(row, target, pieces, options.mask_size, real)]
    return "\n".join(lines)


def _layout(
    meta: np.ndarray, manifest: PretrainingManifest
) -> segments_lib.Layout:
    return segments_lib.layout(
        *part_lengths(meta), manifest.seq_len, manifest.reuse_len
    )


def _tokenizer(manifest: PretrainingManifest, path: str) -> Tokenizer | None:
    """--spiece_model_file, or the copy in the folder; None without either."""
    if not path:
        path = os.path.join(manifest.data_dir, vocabulary.FILE_NAME)
        if not files.exists(path):
            return None
    digest = vocabulary.read(path).sha256
    if digest != manifest.spiece_sha256:
        raise UserError(
            f"vocabulary {path} is not the one of the data: wanted SHA-256 "
            f"{manifest.spiece_sha256}, found {digest}; restore the copy in "
            "--data_dir, and leave --spiece_model_file out where there is one"
        )
    return Tokenizer(path, manifest.text)


def _text(pieces, target, real, reuse_len) -> str:
    words = []
    for i in np.flatnonzero(real):
        if i == reuse_len and reuse_len:
            words.append("|")
        words.append(f"[{pieces[i]}]" if target[i] else pieces[i])
    return " ".join(words)


def _order(pieces, target, ranks, reuse_len) -> list[str]:
    lines = []
    position = np.arange(len(ranks))
    for name, low, part in (
        ("reuse part", 0, position < reuse_len),
        ("second part", reuse_len + 1, position >= reuse_len),
    ):
        inside = np.flatnonzero(part & (ranks >= low))
        inside = inside[np.argsort(ranks[inside])]
        shown = [
            f"{ranks[i]}: {i} {pieces[i]}{'' if target[i] else ' (no target)'}"
            for i in inside
        ]
        lines.append(f"  {name}: " + ("; ".join(shown) or "none"))
    return lines


def _mask(row, target, pieces, size, real) -> list[str]:
    """Columns are what is seen: # yes, . no; targets are marked with *."""
    count = min(size, int(real.sum()))
    mask = permutation.perm_mask(row["ranks"], target[None])[0]
    lines = [f"who sees whom, first {count} positions (# = sees, * = target):"]
    for i in range(count):
        seen = "".join("." if mask[i, j] else "#" for j in range(count))
        mark = "*" if target[i] else " "
        lines.append(f"  {i:4d}{mark} {seen}  {pieces[i]}")
    return lines


# --- A whole directory --------------------------------------------------------


def check_directory(manifest: PretrainingManifest, log=print) -> int:
    """Checks every record of every file; returns how many there are.

    Raises UserError: a file is damaged, or the vocabulary's copy another one.
    """
    _tokenizer(manifest, "")
    total = 0
    for file in manifest.files:
        path = os.path.join(manifest.data_dir, file.name)
        per_lane = manifest.segments_per_lane[file.split]
        targets = 0
        for first in range(0, file.lanes * per_lane, _READ):
            count = min(_READ, file.lanes * per_lane - first)
            row = read_records(manifest, file, first, count)
            _check_records(manifest, row, file.name, first, per_lane)
            targets += int(row["meta"]["targets"].sum())
            total += count
        if targets != file.targets:
            raise UserError(
                f"{path}: wanted {file.targets} targets, found {targets}; "
                "build the data again"
            )
        manifest.check_content(file.name, file.sha256)
        log(f"{file.name}: {file.lanes} lanes of {per_lane}: good")
    for batches in manifest.batches:
        total += _check_batches(manifest, batches)
        log(f"{batches['name']}: {batches['records']} records: good")
    for split in SPLITS:
        if manifest.lanes(split):
            log(
                f"{split}: {manifest.empty_share(split):.1%} of the records are "
                f"empty; {rate_line(manifest, split)}"
            )
    return total


def _check_batches(manifest: PretrainingManifest, batches: dict) -> int:
    """Checks a file of `--materialize_batches`; returns its records."""
    name, total = batches["name"], batches["records"]
    for first in range(0, total, _READ):
        _read(manifest, name, first, min(_READ, total - first))
    manifest.check_content(name, batches["sha256"])
    return total


def _check_records(manifest, row, name, first, per_lane) -> None:
    n = len(row["meta"])
    target = targets_of(row)
    number = first + np.arange(n)
    ids = row["input_ids"]
    functional = np.isin(ids, manifest.symbols.functional())
    meta = row["meta"]
    layout = _layout(meta, manifest)
    second = np.arange(manifest.seq_len) >= manifest.reuse_len
    low = np.where(second, manifest.reuse_len + 1, 0)
    checks = {
        "another lane or segment": (meta["lane"] != number // per_lane)
        | (meta["segment"] != number % per_lane),
        "an id out of range": (ids >= manifest.vocab_size).any(1)
        | (ids < 0).any(1),
        "another number of targets than stored": target.sum(1)
        != meta["targets"],
        "a functional token as target": (target & functional).any(1),
        "padding as target": (target & ~layout.input_mask).any(1),
        "a target without a place in the order": (
            target & (row["ranks"] < low)
        ).any(1),
    }
    for what, wrong in checks.items():
        if wrong.any():
            manifest.refuse_record(name, number[np.argmax(wrong)], what)


class Statistics:
    """What `--mode=statistics` draws.

    `rate` is float [T], targets per real token by position; `span_lengths` int
    [n], spans of 1, 2, ... pieces; `document_lengths` int, tokens between
    `<eod>`s of a lane's reuse parts; `slots` int [P + 1], records by used
    target slots; `empty_share` the share of the split's records without text.
    """

    def __init__(self, manifest: PretrainingManifest, options: InspectOptions):
        seq_len = manifest.seq_len
        hot, real = np.zeros(seq_len), np.zeros(seq_len)
        self.span_lengths = np.zeros(seq_len + 1, np.int64)
        self.slots = np.zeros(manifest.num_predict + 1, np.int64)
        lengths, running = [], 0
        for row in all_records(manifest, options):
            target, meta = targets_of(row), row["meta"]
            layout = _layout(meta, manifest)
            functional = np.isin(
                row["input_ids"], manifest.symbols.functional()
            )
            used = layout.input_mask & ~functional
            hot += target.sum(0)
            real += used.sum(0)
            full = meta["reuse_tokens"] + meta["a_tokens"] > 0
            self.slots += np.bincount(
                meta["targets"][full], minlength=len(self.slots)
            )
            self._add_spans(target, manifest.reuse_len)
            part = _advance_part(row, manifest)
            ends = row["input_ids"] == manifest.symbols.eod
            if options.direction == "forward":
                running = _add_documents(ends, part, running, lengths)
        self.empty_share = manifest.empty_share(options.split)
        self.rate = hot / np.maximum(real, 1)
        self.real = real
        self.document_lengths = np.asarray(lengths, np.int64)

    def _add_spans(self, target, reuse_len) -> None:
        """Runs of targets; the reuse part's end ends a run."""
        for part in (target[:, :reuse_len], target[:, reuse_len:]):
            edge = np.diff(np.pad(part, ((0, 0), (1, 1))).astype(np.int8))
            sizes = np.nonzero(edge < 0)[1] - np.nonzero(edge > 0)[1]
            self.span_lengths += np.bincount(
                sizes, minlength=len(self.span_lengths)
            )


def _advance_part(row, manifest: PretrainingManifest):
    """Positions of the part by which a lane advances: bool [n, T]."""
    meta = row["meta"]
    size = meta["reuse_tokens" if manifest.reuse_len else "a_tokens"]
    return np.arange(manifest.seq_len)[None] < size[:, None]


def _add_documents(ends, part, running: int, lengths: list[int]) -> int:
    text = ends[part]  # one flag per token, in reading order
    places = np.flatnonzero(text)
    if not len(places):
        return running + len(text)
    sizes = np.diff(places, prepend=-1)
    sizes[0] += running
    lengths.extend(sizes.tolist())
    return len(text) - 1 - int(places[-1])


def describe_statistics(
    manifest: PretrainingManifest, options: InspectOptions
) -> str:
    """The statistics of the chosen records as bars of text."""
    statistics = Statistics(manifest, options)
    wanted = manifest.options["mask_beta"] / manifest.options["mask_alpha"]
    lines = ["target rate by position (per token that may be one):"]
    buckets = np.array_split(np.arange(manifest.seq_len), 16)
    for bucket in buckets:
        weight = statistics.real[bucket]
        if weight.sum():
            rate = np.average(statistics.rate[bucket], weights=weight)
            error = np.sqrt(rate * (1 - rate) / weight.sum())
            lines.append(
                f"  {bucket[0]:5d}..{bucket[-1]:5d} {rate:.4f} +- {error:.4f} "
                + "#" * int(rate / wanted * _BAR / 2)
            )
    full, total = statistics.slots[-1], max(statistics.slots.sum(), 1)
    mean = np.average(
        np.arange(len(statistics.slots)), weights=statistics.slots
    )
    lines.append(
        f"target slots used: {mean:.2f} of {manifest.num_predict} on average; "
        f"all of them in {full / total:.1%} of the records"
    )
    overall = np.average(statistics.rate, weights=statistics.real)
    lines.append(
        f"targets wanted {wanted:.4f} of the tokens, found {overall:.4f} "
        f"({overall / wanted - 1:+.1%})"
    )
    lines.append(f"{statistics.empty_share:.1%} of the records are empty")
    lines += source_lines(manifest)
    lines += ["", "runs of neighbouring targets, in pieces:"]
    shown, names = run_bins(statistics.span_lengths)
    for size, count in zip(names, shown, strict=True):
        lines.append(
            f"  {size:>5} {count:9d} "
            + "#" * int(count / max(shown.max(), 1) * _BAR)
        )
    lengths = statistics.document_lengths
    if len(lengths):
        lines += ["", "document lengths in tokens:"]
        edges = 2 ** np.arange(int(np.log2(lengths.max())) + 2)
        counts = np.histogram(lengths, edges)[0]
        for low, count in zip(edges, counts, strict=False):
            lines.append(
                f"  {low:8d}.. {count:9d} "
                + "#" * int(count / counts.max() * _BAR)
            )
    return "\n".join(lines)


def run_bins(span_lengths: np.ndarray) -> tuple[np.ndarray, list[str]]:
    """Runs of 1 to 12 pieces and, together, of more; and the bins' names."""
    counts = np.append(span_lengths[1:13], span_lengths[13:].sum())
    names = [str(size) for size in range(1, len(span_lengths[:13]))]
    return counts, [*names, f"{len(names) + 1}+"]
