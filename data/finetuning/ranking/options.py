"""What is ranked and how it is judged: files, candidates, folds (L0)."""

import dataclasses
import os

from common.checks import one_of, within
from common.errors import UserError

TOPICS_FORMATS = ("auto", "trec", "web", "tsv", "jsonl", "smart", "cranfield")
DOCUMENTS_FORMATS = ("auto", "trec", "jsonl", "tsv", "smart", "cranfield")
QRELS_FORMATS = ("auto", "trec", "prels", "cranfield", "cisi")
RETRIEVERS = ("bm25",)
UNJUDGED = ("zero", "skip")

# Test sets by name: files below --data_dir, and their forms.
COLLECTIONS = {
    "cranfield": {
        "topics_file": "cran.qry",
        "topics_format": "cranfield",
        "documents": "cran.all.1400*",
        "documents_format": "cranfield",
        "qrels_file": "cranqrel*",
        "qrels_format": "cranfield",
    },
    "cisi": {
        "topics_file": "CISI.QRY",
        "topics_format": "smart",
        "documents": "CISI.ALL*",
        "documents_format": "smart",
        "qrels_file": "CISI.REL",
        "qrels_format": "cisi",
    },
}


@dataclasses.dataclass(frozen=True)
class RankingDataOptions:
    """A collection, its candidates and how results are judged.

    Attributes:
      topics_file, documents, qrels_file: the files; `documents` may hold
        comma-separated patterns.
      dataset: instead of the three files an id of `ir_datasets`.
      topics_format, documents_format, qrels_format: their forms; "auto" tells
        them by their first lines.
      topic_fields: what makes the text of a TREC query.
      run_file: candidates of another system; empty = `retriever` finds them.
      retriever: "bm25".
      depth: candidates per query.
      bm25_k1, bm25_b: of BM25.
      stop_words: that BM25 leaves out: English ones ("en"), none (""), or
        those of a file.
      folds: parts of the cross-validation over queries.
      folds_file: read the folds from here instead of drawing them.
      fold_seed: of the draw.
      unjudged: a candidate without judgement has grade 0 ("zero") or makes no
        pair ("skip").
      max_pairs_per_query: pairs to train on per query; 0 = all.
      cutoff: of gdeval's measures.
      err_max_grade: G of ERR; higher grades are refused.
      trec_measures: trec_eval's measures beside them.
    """

    topics_file: str = ""
    documents: str = ""
    qrels_file: str = ""
    dataset: str = ""
    topics_format: str = "auto"
    documents_format: str = "auto"
    qrels_format: str = "auto"
    topic_fields: tuple[str, ...] = ("title",)
    run_file: str = ""
    retriever: str = "bm25"
    depth: int = 100
    bm25_k1: float = 0.9
    bm25_b: float = 0.4
    stop_words: str = "en"
    folds: int = 5
    folds_file: str = ""
    fold_seed: int = 0
    unjudged: str = "zero"
    max_pairs_per_query: int = 200
    cutoff: int = 20
    err_max_grade: int = 4
    trec_measures: tuple[str, ...] = (
        "ndcg_cut_20",
        "map",
        "recip_rank",
        "recall_100",
    )

    def __post_init__(self) -> None:
        for flag in ("topics_file", "documents", "qrels_file"):
            if self.dataset and getattr(self, flag):
                raise UserError(
                    f"--dataset={self.dataset} has its own files: leave "
                    f"--{flag} out"
                )
            if not self.dataset and not getattr(self, flag):
                raise UserError(
                    f"--{flag} must be given (or --collection with "
                    "--data_dir, or --dataset)"
                )
        one_of(
            self,
            topics_format=TOPICS_FORMATS,
            documents_format=DOCUMENTS_FORMATS,
            qrels_format=QRELS_FORMATS,
            retriever=RETRIEVERS,
            unjudged=UNJUDGED,
        )
        within(self, ">= 1", "depth", "cutoff", "err_max_grade")
        within(self, ">= 0", "max_pairs_per_query", "fold_seed", "bm25_k1")
        within(self, "[0, 1]", "bm25_b")
        if not self.folds_file and self.folds < 3:
            raise UserError(
                "--folds must be at least 3 (train, validation, test), "
                f"received {self.folds}; fixed splits go into --folds_file"
            )


def collection_files(name: str, folder: str) -> dict[str, str]:
    """File and format options of a test set of `COLLECTIONS`.

    Args:
      name: of the set.
      folder: where its files lie.

    Raises:
      UserError: no such set, no folder, a file is missing.
    """
    if name not in COLLECTIONS:
        raise UserError(
            f"--collection must be one of {', '.join(COLLECTIONS)}, received "
            f"{name!r}"
        )
    if not folder:
        raise UserError(f"--collection={name} needs --data_dir, its folder")
    found = dict(COLLECTIONS[name])
    for flag in ("topics_file", "documents", "qrels_file"):
        pattern = found[flag]
        names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
        start, star = pattern.rstrip("*"), pattern.endswith("*")
        fits = [n for n in names if n == start or star and n.startswith(start)]
        if not fits:
            raise UserError(
                f"--data_dir={folder} has no file {pattern} of {name}: give "
                f"--{flag}"
            )
        found[flag] = os.path.join(folder, fits[0])
    return found
