"""A collection as its files say it: queries, judgements, candidates."""

import dataclasses
import os
from collections.abc import Callable

import numpy as np

from common import files
from common.errors import UserError
from data.finetuning.features import cache
from data.finetuning.ranking import (
    candidates,
    catalogue,
    documents,
    folds,
    judgments,
    metrics,
    runs,
    topics,
)
from data.finetuning.ranking.judgments import Qrels
from data.finetuning.ranking.options import RankingDataOptions
from data.finetuning.ranking.runs import Run


@dataclasses.dataclass(frozen=True)
class Collection:
    """Queries with judgements."""

    topics: dict[str, str]
    qrels: Qrels
    options: RankingDataOptions

    def documents(self, wanted: set[str] | None = None):
        """A stream of documents: all, or at least those that are wanted."""
        if self.options.dataset:
            return catalogue.documents(self.options.dataset, wanted)
        return documents.stream(
            self.options.documents, self.options.documents_format
        )


def load(
    options: RankingDataOptions, say: Callable[[str], None] = print
) -> Collection:
    """Reads queries and judgements and says what was read.

    Raises UserError: a bad line; grades too high; no query has a judgement.
    """
    texts, qrels = _read(options, say)
    metrics.check_grades(qrels, options.err_max_grade)
    known = {q: text for q, text in texts.items() if q in qrels}
    if not known:
        raise UserError(
            f"no query of {options.topics_file or options.dataset} "
            f"({next(iter(texts), None)!r}, ...) is judged in "
            f"{options.qrels_file or options.dataset} "
            f"({next(iter(qrels), None)!r}, ...): the two are not of one "
            "collection"
        )
    kept = {q: qrels[q] for q in known}
    count = sum(map(len, kept.values()))
    say(
        f"{len(known)} judged queries of {len(texts)}, {count} judgements"
        + (
            f"; {len(qrels) - len(kept)} judged queries have no topic"
            if len(qrels) > len(kept)
            else ""
        )
    )
    return Collection(known, kept, options)


def _read(options: RankingDataOptions, say) -> tuple[dict[str, str], Qrels]:
    name, fields = options.dataset, options.topic_fields
    if not name:
        texts = topics.read(options.topics_file, options.topics_format, fields)
        form = options.qrels_format
        return texts, judgments.read(options.qrels_file, form, say)
    topics.check_fields(fields)
    return (
        topics.collect(name, catalogue.topics(name, fields)),
        judgments.collect(name, catalogue.qrels(name)),
    )


def find_candidates(
    collection: Collection, path: str, say: Callable[[str], None] = print
) -> Run:
    """The candidates, from `path` if an earlier run of these options made them.

    A TREC run; `path + ".key.json"` says of what it is, and of which bytes.
    Raises UserError: a bad run file, or none of its queries is judged.
    """
    options = collection.options
    if options.run_file:
        run = runs.top(runs.read(options.run_file), options.depth)
        run = {q: run[q] for q in collection.topics if q in run}
        if not run:
            raise UserError(
                f"--run_file={options.run_file} has no judged query: it is "
                "of another collection"
            )
        runs.write(path, run, "candidates")
        say(f"candidates: {_counts(run)} of {options.run_file}")
        return run
    key = _key(collection)
    key_path = path + ".key.json"
    if files.exists(path) and files.exists(key_path):
        # The bytes, too: --run_file, or a run that was killed between both
        # files, leaves another run with this key.
        known = key | {"run": files.sha256_of_file(path)}
        if files.read_json_object(key_path, "remove it") == known:
            run = runs.read(path)
            say(f"candidates: {_counts(run)}, from {path}")
            return run
    run = build_index(collection).search(collection.topics, options.depth)
    if not run:
        raise UserError(
            "no document shares a word with a query: are --documents and "
            "--topics_file of one collection and language?"
        )
    runs.write(path, run, "bm25")
    key["run"] = files.sha256_of_file(path)
    files.write_json(key_path, key)
    say(f"candidates: {_counts(run)} by BM25")
    return run


def build_index(collection: Collection) -> candidates.Bm25:
    """BM25 over all documents."""
    options = collection.options
    return candidates.Bm25(
        collection.documents(),
        options.bm25_k1,
        options.bm25_b,
        options.stop_words,
    )


def _counts(run: Run) -> str:
    return f"{sum(map(len, run.values()))} documents of {len(run)} queries"


def _key(collection: Collection) -> dict:
    options = collection.options
    return {
        "documents": options.dataset or _states(options.documents),
        "format": options.documents_format,
        "topics": cache.hash_texts(collection.topics.items()),
        "bm25": [options.bm25_k1, options.bm25_b],
        "stop_words": cache.hash_texts(
            candidates.read_stop_words(options.stop_words)
        ),
        "depth": options.depth,
    }


def _states(patterns: str) -> list[list]:
    states = []
    for path in documents.paths(patterns):
        changed = None
        if not files.is_remote(path):
            changed = os.stat(path).st_mtime_ns
        states.append([path, files.size(path), changed])
    return states


def find_folds(collection: Collection, run: Run, path: str) -> list[folds.Fold]:
    """The folds over the queries that have candidates; written to `path`."""
    options = collection.options
    names = [q for q in collection.topics if q in run]
    if options.folds_file:
        chosen = folds.read(options.folds_file, names)
    else:
        chosen = folds.make(names, options.folds, options.fold_seed)
    folds.write(path, chosen)
    return chosen


def grades_of(
    collection: Collection, query: str, names: list[str]
) -> np.ndarray:
    """Grades of documents, int64; -1 = unjudged and to be skipped."""
    judged = collection.qrels[query]
    without = -1 if collection.options.unjudged == "skip" else 0
    return np.array(
        [max(judged[d], 0) if d in judged else without for d in names],
        np.int64,
    )


def pairs(grades: np.ndarray, limit: int, seed: int, query: str) -> np.ndarray:
    """(better, worse) places of one query's candidates, int64 [n, 2].

    Grades of -1 make no pair. At most `limit` are drawn without replacement, 0
    = all; the draw depends on seed and query alone.
    """
    judged = np.flatnonzero(grades >= 0)
    better, worse = np.nonzero(
        grades[judged][:, None] > grades[judged][None, :]
    )
    chosen = np.stack([judged[better], judged[worse]], 1)
    if limit and len(chosen) > limit:
        digest = int(cache.hash_texts([query])[:15], 16)
        rng = np.random.default_rng((seed, digest))
        chosen = chosen[np.sort(rng.choice(len(chosen), limit, replace=False))]
    return chosen
