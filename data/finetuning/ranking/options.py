"""What is ranked and how it is judged: files, candidates, folds."""

import dataclasses
import os
from collections.abc import Collection

from common import files
from common.checks import within
from common.errors import UserError
from common.settings import check, setting

TOPICS_FORMATS = ("auto", "trec", "web", "tsv", "jsonl", "smart", "cranfield")
DOCUMENTS_FORMATS = ("auto", "trec", "jsonl", "tsv", "smart", "cranfield")
QRELS_FORMATS = ("auto", "trec", "prels", "beir", "cranfield", "cisi")
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
    """A collection, its candidates and how results are judged."""

    topics_file: str = setting("", "Queries, one file.", often=True)
    documents: str = setting("", "Documents; patterns with commas.", often=True)
    qrels_file: str = setting("", "Relevance judgements of them.", often=True)
    dataset: str = setting(
        "",
        "Instead of files an id of ir_datasets "
        "(requirements-irdatasets.txt), as clueweb09/en/trec-web-2009.",
        often=True,
    )
    topics_format: str = setting(
        "auto",
        "Form of --topics_file; auto: by its first line.",
        choices=TOPICS_FORMATS,
    )
    documents_format: str = setting(
        "auto",
        "Form of --documents; auto: by each file's first line.",
        choices=DOCUMENTS_FORMATS,
    )
    qrels_format: str = setting(
        "auto",
        "Form of --qrels_file; auto: by its columns.",
        choices=QRELS_FORMATS,
    )
    topic_fields: tuple[str, ...] = setting(
        ("title",), "What makes a TREC query's text: title, desc, narr."
    )
    run_file: str = setting("", "Candidates: a TREC run of another system.")
    retriever: str = setting(
        "bm25",
        "What finds the candidates where there is no --run_file.",
        choices=RETRIEVERS,
    )
    depth: int = setting(100, "Candidates per query.", bounds=">= 1")
    bm25_k1: float = setting(0.9, "k1 of BM25, from 0.", bounds=">= 0")
    bm25_b: float = setting(0.4, "b of BM25, in 0..1.", bounds="[0, 1]")
    stop_words: str = setting(
        "en",
        "That BM25 leaves out: en, a file with a word per line, or nothing.",
    )
    folds: int = setting(5, "Of the cross-validation over queries.")
    folds_file: str = setting("", "Folds to use, as folds.json has them.")
    fold_seed: int = 0
    unjudged: str = setting(
        "zero",
        "Candidates without judgement: grade 0, or in no training pair.",
        choices=UNJUDGED,
    )
    max_pairs_per_query: int = setting(
        200, "Training pairs per query; 0 = all.", bounds=">= 0"
    )
    cutoff: int = setting(
        20, "Rank that NDCG and ERR look down to.", bounds=">= 1"
    )
    err_max_grade: int = setting(
        4,
        "Highest grade (G of ERR); higher ones are refused, as by gdeval.",
        bounds="[1, 20]",  # trec_eval keeps a number for each gain up to 2^G
    )
    trec_measures: tuple[str, ...] = setting(
        ("ndcg_cut_20", "map", "recip_rank", "recall_100"),
        "Measures of trec_eval, by its names.",
    )

    def __post_init__(self) -> None:
        check(self)
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
        within(self, ">= 0", "fold_seed")
        if not self.folds_file and self.folds < 3:
            raise UserError(
                "--folds must be at least 3 (train, validation, test), "
                f"received {self.folds}; fixed splits go into --folds_file"
            )


def collection_files(
    name: str, folder: str, given: Collection[str] = ()
) -> dict[str, str]:
    """File and format options of a test set of `COLLECTIONS`.

    Options that are `given` are left out, and their files need not be there.
    Raises UserError: no such set, no folder, a file is missing.
    """
    if name not in COLLECTIONS:
        raise UserError(
            f"--collection must be one of {', '.join(COLLECTIONS)}, received "
            f"{name!r}"
        )
    if not folder:
        raise UserError(f"--collection={name} needs --data_dir, its folder")
    paths = {k: v for k, v in COLLECTIONS[name].items() if k not in given}
    for flag in ("topics_file", "documents", "qrels_file"):
        if flag in given:
            continue
        pattern = paths[flag]
        there = files.is_folder(folder)
        names = sorted(files.list_names(folder)) if there else []
        start, star = pattern.rstrip("*"), pattern.endswith("*")
        fits = [n for n in names if n == start or star and n.startswith(start)]
        if not fits:
            raise UserError(
                f"--data_dir={folder} has no file {pattern} of {name}: give "
                f"--{flag}"
            )
        paths[flag] = os.path.join(folder, fits[0])
    return paths
