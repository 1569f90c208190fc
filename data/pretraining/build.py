"""Raw text -> lanes of two segments, with the factory of `data.records`."""

import base64
import dataclasses
import hashlib
import math
import os
import zlib

import numpy as np

from common import files
from common.errors import UserError
from common.vocabularies import vocabulary
from data.corpus import corpus_plan, sources
from data.corpus import documents as corpus
from data.pretraining import build_report
from data.pretraining.block_builder import BlockBuilder, Plan
from data.pretraining.lanes import LaneReader
from data.pretraining.manifest import LaneFile, PretrainingManifest
from data.pretraining.options import SPLITS, BuildOptions, ReaderOptions
from data.records import build as factory
from data.records import build_plan
from data.records.layout import BuildLayout
from data.text.tokenizer import Tokenizer

_BYTES_PER_TOKEN = 4.5  # English; only for the choice of the lanes' length
_LANES_WANTED = {"train": 128, "dev": 32}
_MAX_SEGMENTS = 64
# A block's last lane is half empty on average: lanes of so small a share of a
# block's segments cost half of that.
_LANE_SHARE = {"train": 1 / 16, "dev": 1 / 4}


def build(options: BuildOptions, log=print) -> PretrainingManifest:
    """Builds a data directory, or goes on where a build was interrupted."""
    return factory.build(TwoSegments(options), log)


class TwoSegments(BuildLayout):
    """The layout `[reuse | A SEP B SEP CLS]` in lanes, with targets and orders.

    Raises UserError where the vocabulary or the input files cannot be read.
    """

    block_builder = BlockBuilder
    manifest = PretrainingManifest
    token_count = "train_tokens"

    def __init__(self, options: BuildOptions):
        self._tokenizer = Tokenizer(options.spiece_model_file, options.text)
        # The workers read the same, whatever lies beside the file then.
        self.options = dataclasses.replace(
            options, text=self._tokenizer.settings
        )
        self._sources = sources.find(options.input_glob, options.source_weights)
        self.paths = [p for source in self._sources for p in source.paths]
        corpus.check_text_field(options.text_field, self.paths)
        self._readings = ()

    def text_line(self) -> str:
        tokenizer = self._tokenizer
        return tokenizer.vocabulary.describe(tokenizer.settings)

    def identity(self) -> dict:
        return {
            "options": self._options(),
            "spiece_sha256": self._tokenizer.sha256,
            "text_settings": self._tokenizer.settings.as_dict(),
        }

    def _options(self) -> dict:
        """What equal data share, the names of sources among it."""
        named = {s.name: len(s.paths) for s in self._sources if s.name}
        return self.options.identity() | ({"sources": named} if named else {})

    def plan_blocks(self) -> list[tuple[corpus.Block, ...]]:
        """Runs of whole documents."""
        size = int(self.options.block_megabytes * 1e6)
        blocks, self._readings = sources.plan(
            self._sources, lambda paths: corpus_plan.plan_corpus(paths, size)
        )
        if not blocks:
            raise UserError(
                f"--input_glob={self.options.input_glob}: all files empty"
            )
        return blocks

    def make_plan(self, blocks, stored, save, log) -> Plan:
        """Lengths of lanes; duplicates, where they are left out."""
        if "segments_per_lane" not in stored:
            stored["segments_per_lane"] = segments_per_lane(
                self.options, blocks
            )
            save()
        repeated = {}
        if self.options.dedup:
            again = [r.first != n for n, r in enumerate(self._readings)]
            once = blocks[: len(blocks) - sum(again)]
            shares = [r.share for r in self._readings[: len(once)]]
            repeated = build_plan.find_duplicates(
                self.options, once, stored, save, log, shares
            )
        return Plan(
            tuple(blocks), stored["segments_per_lane"], repeated, self._readings
        )

    def check(self, summaries) -> None:
        """Refuses a corpus of which nothing is left."""
        if self.tokens(summaries):
            return
        documents = sum(s["counts"]["documents"] for s in summaries)
        raise corpus.CorpusError(
            f"--input_glob={self.options.input_glob}: no text is left for "
            f"training of {documents} documents; check the files and the "
            "filters"
        )

    def make_manifest(self, plan, summaries, text_sha256):
        counts, targets = {}, {}
        apart = {s.name: {"weight": s.weight} for s in self._sources if s.name}
        for summary in summaries:
            source_counts = apart.get(plan.reading(summary["block"]).source, {})
            for name, value in summary["counts"].items():
                counts[name] = counts.get(name, 0) + value
                source_counts[name] = source_counts.get(name, 0) + value
            for split, packed in summary["targets"].items():
                raw = zlib.decompress(base64.b64decode(packed))
                target_counts = np.frombuffer(raw, "<u4").astype(np.int64)
                targets[split] = targets.get(split, 0) + target_counts
        tokenizer = self._tokenizer
        return PretrainingManifest(
            data_dir=self.options.output_dir,
            options=self._options(),
            spiece_sha256=tokenizer.sha256,
            vocab_size=tokenizer.vocab_size,
            symbols=tokenizer.symbols,
            word_starts=tokenizer.word_starts,
            versions=build_plan.versions(),
            segments_per_lane=plan.segments_per_lane,
            counts=counts,
            unigram=unigram_entropy(targets["train"], targets.get("dev")),
            files=tuple(LaneFile(**f) for s in summaries for f in s["files"]),
            text_sha256=text_sha256,
            text_settings=tokenizer.settings.as_dict(),
            sources=apart,
        )

    def finish(self, manifest, log):
        build_report.check_empty(manifest, self.options)
        build_report.check_targets(manifest)
        rows = self.options.materialize_batches
        if rows:
            log(f"writing batches of {rows} rows")
            manifest = write_batches(manifest)
        build_report.report(manifest, log)
        vocabulary.copy(
            self._tokenizer.vocabulary,
            self._tokenizer.settings,
            self.options.output_dir,
        )
        return manifest


def segments_per_lane(options: BuildOptions, blocks) -> dict[str, int]:
    """S: long lanes where the corpus is large, enough lanes where it is not."""
    if options.segments_per_lane:
        return {split: options.segments_per_lane for split in SPLITS}
    size = sum(part.end - part.start for parts in blocks for part in parts)
    tokens = size / _BYTES_PER_TOKEN
    advance = options.reuse_len or (options.seq_len - 3) / 2
    chosen = {}
    for split, share in (
        ("train", 1 - options.dev_fraction),
        ("dev", options.dev_fraction),
    ):
        segments = tokens * share / advance
        most = min(
            segments / _LANES_WANTED[split],
            segments / len(blocks) * _LANE_SHARE[split],
        )
        chosen[split] = int(np.clip(math.floor(most), 1, _MAX_SEGMENTS))
    return chosen


def unigram_entropy(train: np.ndarray, dev: np.ndarray | None) -> dict:
    """Nats per target token without any context.

    From int [V], how often each id is a target of a split: `train_entropy`, and
    `dev_cross_entropy` under the train distribution with one added to every
    count (None without a dev split).
    """
    total = max(int(train.sum()), 1)
    p = train[train > 0] / total
    result = {
        "train_entropy": float(-(p * np.log(p)).sum()),
        "dev_cross_entropy": None,
    }
    if dev is not None and dev.sum():
        q = (train + 1) / (total + len(train))
        result["dev_cross_entropy"] = float(
            -(dev * np.log(q)).sum() / dev.sum()
        )
    return result


_AHEAD = 8


def write_batches(manifest: PretrainingManifest) -> PretrainingManifest:
    """`--materialize_batches`: records in the order of batches; the manifest.

    One file per pass holds one epoch: record n is row n mod B of step n div B,
    the forward rows first, in the lane order of the build's seed; read in
    sequence it needs no lanes. A row without a lane is an empty record. Raises
    UserError where the batch does not divide by the directions.
    """
    rows = manifest.options["materialize_batches"]
    batch_files = []
    for number in range(manifest.num_passes):
        one_pass = dataclasses.replace(
            manifest,
            options=manifest.options | {"num_passes": 1},
            files=tuple(
                dataclasses.replace(f, number=0)
                for f in manifest.files
                if f.number == number
            ),
        )
        options = ReaderOptions(
            global_batch=rows, seed=manifest.options["seed"], repeat=False
        )
        name = f"batches{rows}-pass{number}.tfrecord"
        path = os.path.join(manifest.data_dir, name)
        records, digest = _write_file(LaneReader(one_pass, options), path)
        batch_files.append(
            {
                "name": name,
                "rows": rows,
                "records": records,
                "bytes": records * manifest.format.record_size,
                "sha256": digest,
            }
        )
    return dataclasses.replace(manifest, batches=tuple(batch_files))


def _write_file(reader: LaneReader, path: str) -> tuple[int, str]:
    layout = reader.format
    empty = layout.encode(layout.zeros(1))
    segments = reader.segments
    digest, records = hashlib.sha256(), 0
    with files.atomic_open(path) as f:
        for period in range(reader.steps_per_epoch // segments):
            for first in range(0, segments, _AHEAD):
                count = min(_AHEAD, segments - first)
                raw, lanes, _ = reader.read_raw(period, first, count)
                for i, lane in enumerate(lanes):
                    if lane is None:
                        raw[i] = empty
                data = np.ascontiguousarray(np.swapaxes(raw, 0, 1)).tobytes()
                f.write(data)
                digest.update(data)
                records += count * reader.rows
    return records, digest.hexdigest()
