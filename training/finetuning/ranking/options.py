"""How candidates are ranked."""

import dataclasses

from common.checks import within
from common.errors import UserError
from common.settings import check, setting

RANKERS = ("bm25", "cosine", "knrm", "cross_encoder")
LOSSES = ("hinge", "ranknet", "softmax", "pointwise")
ENCODER, RANDOM = "encoder", "random"
AUTO = "auto"
# Pieces where neither a flag nor the encoder says less.
LENGTHS = {"max_doc_length": 512, "max_query_length": 64}
PIECE, WORD = "piece", "word"
UNITS = (PIECE, WORD)
EMBEDDING_DTYPES = ("float32", "float16")


@dataclasses.dataclass(frozen=True)
class RankerOptions:
    """One run of run_ranking.py."""

    ranker: str = setting(
        "knrm", "How candidates are ranked.", choices=RANKERS, often=True
    )
    seeds: int = setting(
        5,
        "Rankers with other initial weights and orders.",
        bounds=">= 1",
        often=True,
    )
    vectors: str = setting(
        ENCODER,
        "encoder (frozen hidden states; random weights without "
        "--init_checkpoint), random (one per piece) or an .npy table [V, "
        "D].",
    )
    vector_size: int = setting(192, "D of random vectors.", bounds=">= 1")
    layer: str = setting(
        AUTO,
        "0 = embeddings, ... L; auto: each fold's validation queries choose.",
    )
    center: bool = setting(False, "Subtract the mean vector of all pieces.")
    idf: bool = setting(False, "Weigh query pieces by idf.")
    unit: str = setting(
        PIECE,
        "What has a vector: a piece, or a word, the mean of its pieces.",
        choices=UNITS,
    )
    stopwords: bool = setting(
        False, "Leave --stop_words out of K-NRM's queries and documents, too."
    )
    train_embeddings: bool = setting(
        False,
        "K-NRM whose piece vectors are trained, too, beside the frozen one.",
    )
    bins: int = setting(
        10,
        "Kernels besides the exact-match one.",
        bounds=">= 1",
        flag="kernel_bins",
    )
    exact_sigma: float = setting(
        0.001, "Width of the exact-match kernel.", bounds="> 0"
    )
    max_doc_length: int | None = setting(
        None,
        "First pieces of a document; default: 512, or as many as the encoder "
        "has positions for.",
        bounds=">= 1",
    )
    max_query_length: int | None = setting(
        None,
        "First pieces of a query; default: 64, or as many as the encoder has "
        "positions for (cross-encoder: half of rows too short for 64).",
        bounds=">= 1",
    )
    embed_batch_size: int = setting(
        16, "Texts per encoder step.", bounds=">= 1"
    )
    embedding_dtype: str = setting(
        "float32",
        "Of stored vectors; cosines are float64 always.",
        choices=EMBEDDING_DTYPES,
    )
    with_candidate_score: bool = setting(
        True, "The candidates' score is one more feature of K-NRM."
    )
    control: bool = setting(True, "K-NRM on random vectors beside it.")
    learning_rate: float = setting(
        0.001, "Rate of its Adam.", bounds="> 0", flag="knrm_learning_rate"
    )
    adam_epsilon: float = setting(
        1e-05, "Epsilon of it.", bounds="> 0", flag="knrm_adam_epsilon"
    )
    batch_size: int = setting(
        16, "Pairs per step of K-NRM.", bounds=">= 1", flag="knrm_batch_size"
    )
    epochs: int = setting(20, "Most passes over the pairs.", bounds=">= 1")
    patience: int = setting(
        3,
        "Stop after this many passes without a better validation NDCG.",
        bounds=">= 1",
    )
    rank_loss: str = setting(
        "hinge", "Loss of the cross-encoder.", choices=LOSSES
    )
    list_size: int = setting(
        2, "Documents per query in its batches.", bounds=">= 2"
    )
    passage_stride: int = setting(
        0,
        "Pieces between the windows of a long document, whose best score "
        "counts; 0 = the first window alone.",
        bounds=">= 0",
    )
    max_passages: int = setting(4, "Most windows of a document.", bounds=">= 1")
    # instead of windows read rows in up to so many segments that carry memory;
    # 0 = do not
    segment_recurrence: int = 0

    def __post_init__(self) -> None:
        check(self)
        within(self, ">= 0", "segment_recurrence")
        if self.layer != AUTO and not self.layer.isdigit():
            raise UserError(
                f"--layer must be a number from 0 or auto, received "
                f"{self.layer!r}"
            )
        self._check_together()

    def _check_together(self) -> None:
        if self.segment_recurrence and self.passage_stride:
            raise UserError(
                "--segment_recurrence reads a long document whole, "
                "--passage_stride in windows: give one of them"
            )
        if not self.train_embeddings:
            return
        for name, value, wanted in (
            ("ranker", self.ranker, "knrm"),
            ("unit", self.unit, PIECE),
            ("center", self.center, False),
        ):
            if value != wanted:
                raise UserError(
                    "--train_embeddings trains one vector per piece for "
                    f"--ranker=knrm, received --{name}={value}: leave it out"
                )

    def row_length(self, max_seq_length: int) -> int:
        """Most tokens of the cross-encoder's rows, of all their segments."""
        return max_seq_length * max(1, self.segment_recurrence)
