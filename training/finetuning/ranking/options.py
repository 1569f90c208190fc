"""How candidates are ranked (L0)."""

import dataclasses

from common.checks import one_of, within
from common.errors import UserError

RANKERS = ("bm25", "cosine", "knrm", "cross_encoder")
LOSSES = ("hinge", "ranknet", "softmax", "pointwise")
ENCODER, RANDOM = "encoder", "random"
AUTO = "auto"
PIECE, WORD = "piece", "word"
UNITS = (PIECE, WORD)
EMBEDDING_DTYPES = ("float32", "float16")


@dataclasses.dataclass(frozen=True)
class RankerOptions:
    """One run of run_ranking.py.

    Attributes:
      ranker: of `RANKERS`.
      seeds: rankers with initial weights and orders of their own.
      vectors: "encoder" (frozen hidden states), "random" (a Gaussian vector
        per piece) or the path of an .npy table [V, D].
      vector_size: D of random vectors.
      layer: 0 = the embedding table, ... L; "auto" = chosen per fold on its
        validation queries.
      center: subtract the mean vector of all candidates' pieces.
      idf: weigh query pieces by their idf among the candidates.
      unit: what has a vector: a piece, or a word (the mean of its pieces).
      stopwords: leave stop words out of queries and documents.
      train_embeddings: K-NRM whose table of vectors is trained, beside it.
      bins: kernels besides the exact-match one.
      exact_sigma: width of that one.
      max_doc_length, max_query_length: pieces that are read.
      embed_batch_size: texts per step of the encoder.
      embedding_dtype: of stored vectors; cosines are float32 always.
      with_candidate_score: the candidates' score is one more feature.
      control: K-NRM on random vectors beside it.
      learning_rate, adam_epsilon, batch_size: of K-NRM's training.
      epochs: most passes over the pairs.
      patience: stop after so many passes without a better validation NDCG.
      rank_loss: of the cross-encoder.
      list_size: documents per query in its batches.
      passage_stride: pieces between the starts of a document's windows; 0 =
        only the first window.
      max_passages: most windows of a document.
      segment_recurrence: instead of windows read rows in up to so many
        segments that carry memory; 0 = do not.
    """

    ranker: str = "knrm"
    seeds: int = 5
    vectors: str = ENCODER
    vector_size: int = 192
    layer: str = AUTO
    center: bool = False
    idf: bool = False
    unit: str = PIECE
    stopwords: bool = False
    train_embeddings: bool = False
    bins: int = 10
    exact_sigma: float = 1e-3
    max_doc_length: int = 512
    max_query_length: int = 64
    embed_batch_size: int = 16
    embedding_dtype: str = "float32"
    with_candidate_score: bool = True
    control: bool = True
    learning_rate: float = 1e-3
    adam_epsilon: float = 1e-5
    batch_size: int = 16
    epochs: int = 20
    patience: int = 3
    rank_loss: str = "hinge"
    list_size: int = 2
    passage_stride: int = 0
    max_passages: int = 4
    segment_recurrence: int = 0

    def __post_init__(self) -> None:
        one_of(
            self,
            ranker=RANKERS,
            rank_loss=LOSSES,
            embedding_dtype=EMBEDDING_DTYPES,
            unit=UNITS,
        )
        within(
            self,
            ">= 1",
            "seeds",
            "vector_size",
            "bins",
            "max_doc_length",
            "max_query_length",
            "embed_batch_size",
            "batch_size",
            "epochs",
            "patience",
            "max_passages",
        )
        within(self, ">= 2", "list_size")
        within(self, ">= 0", "passage_stride", "segment_recurrence")
        within(self, "> 0", "exact_sigma", "learning_rate", "adam_epsilon")
        if self.layer != AUTO and not self.layer.isdigit():
            raise UserError(
                f"--layer must be a number from 0 or auto, received "
                f"{self.layer!r}"
            )
        self._check_together()

    def _check_together(self) -> None:
        """Refuses what does not go together."""
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
