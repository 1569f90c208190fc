"""What is measured: sizes of a workload and its synthetic batches.

Letters as in docs/explanation/architecture.md. Only numpy is imported: the PyTorch peer
runs in an environment without TensorFlow.
"""

import dataclasses

import numpy as np

from common.process import cores

# E of ALBERT, in all sizes of its paper.
ALBERT_EMBEDDING = 128
# F of ModernBERT's base size, whose feed-forward has two halves.
MODERNBERT_INNER = 1152
# Keys of a local layer, and every which layer is global.
MODERNBERT_WINDOW = 128
MODERNBERT_GLOBAL = 3
KINDS = (
    "pretrain",
    "finetune",
    "inference",
    "lengths",
    "train_lengths",
    "embed",
    "language_model",
    "peak",
    "toy",
)


@dataclasses.dataclass(frozen=True)
class Workload:
    """Sizes of one measurement, the same for every system.

    Attributes:
      kind: one of `KINDS`.
      layers: L.
      batch: B.
      length: T.
      memory: M; pretraining and language models.
      predict: P; pretraining only.
      vocab: V.
      width: D.
      heads: N.
      inner: F.
      dropout: of activations and attention.
      labels: classes of fine-tuning and inference.
      seed: of batches and weights.
      lengths: file with one number of pieces per line, of "lengths",
        "train_lengths" and "embed" only.
      model_type: of the encoder; pretraining is XLNet's only.
      cutoffs: of an adaptive softmax; () = one softmax. Language models only.
    """

    kind: str = "pretrain"
    layers: int = 3
    batch: int = 4
    length: int = 512
    memory: int = 384
    predict: int = 85
    vocab: int = 32000
    width: int = 768
    heads: int = 12
    inner: int = 3072
    dropout: float = 0.1
    labels: int = 2
    seed: int = 7
    lengths: str = ""
    model_type: str = "xlnet"
    cutoffs: tuple[int, ...] = ()

    def __post_init__(self):
        object.__setattr__(self, "cutoffs", tuple(self.cutoffs))  # from JSON
        if self.kind not in KINDS:
            raise ValueError(
                f"`kind` must be one of {KINDS}, received {self.kind!r}"
            )

    @property
    def head_size(self) -> int:
        """H = D / N."""
        return self.width // self.heads

    @property
    def reuse(self) -> int:
        """Tokens of a segment that enter memory: half of it."""
        return self.length // 2

    @property
    def examples(self) -> int:
        """Rows of a step."""
        return len(row_lengths(self)) if self.lengths else self.batch

    def replace(self, **changes) -> "Workload":
        """A copy with other sizes."""
        return dataclasses.replace(self, **changes)


def threads() -> int:
    """Cores that this process may use; TensorFlow starts as many threads."""
    return len(cores.usable())


def row_lengths(workload: Workload) -> np.ndarray:
    """int64 [N], whole batches of rows of real lengths, at most T."""
    lengths = np.loadtxt(workload.lengths, dtype=np.int64, ndmin=1)
    lengths = np.minimum(lengths, workload.length)
    return lengths[: len(lengths) - len(lengths) % workload.batch]


def texts(workload: Workload) -> list[np.ndarray]:
    """Piece ids of texts of these lengths, without special symbols."""
    random = np.random.default_rng(workload.seed)
    return [
        random.integers(9, workload.vocab, n).astype(np.int32)
        for n in row_lengths(workload)
    ]


def pretrain_batch(workload: Workload, step: int = 0) -> dict[str, np.ndarray]:
    """One pretraining batch in the names of `common.contract.schema.PRETRAIN_BATCH`.

    Ranks: context of the reuse part has -1, its targets
    0.., context of the second part `reuse`, its targets from `reuse` + 1.
    """
    w = workload
    random = np.random.default_rng([w.seed, step])
    half = w.reuse
    ids = random.integers(9, w.vocab, [w.batch, w.length])
    ranks = np.zeros([w.batch, w.length], np.int32)
    positions = np.zeros([w.batch, w.predict], np.int32)
    for row in range(w.batch):
        first = w.predict // 2
        chosen = [
            np.sort(random.choice(half, first, replace=False)),
            half
            + np.sort(
                random.choice(w.length - half, w.predict - first, replace=False)
            ),
        ]
        ranks[row, :half], ranks[row, half:] = -1, half
        ranks[row, chosen[0]] = random.permutation(first)
        ranks[row, chosen[1]] = half + 1 + random.permutation(len(chosen[1]))
        positions[row] = np.concatenate(chosen)
    segments = np.zeros([w.batch, w.length], np.int32)
    segments[:, half + (w.length - half) // 2 : -1] = 1
    segments[:, -1] = 2
    return {
        "input_ids": ids.astype(np.int32),
        "segment_ids": segments,
        "input_mask": np.ones([w.batch, w.length], np.int32),
        "ranks": ranks,
        "target_positions": positions,
        "target_ids": np.take_along_axis(ids, positions, 1).astype(np.int32),
        "target_weights": np.ones([w.batch, w.predict], np.float32),
        "reset_memory": np.full([w.batch], step == 0),
        "next_sentence_label": np.ones([w.batch], np.int32),
        "row_weight": np.ones([w.batch], np.float32),
    }


def explicit_masks(batch: dict, length: int) -> dict[str, np.ndarray]:
    """`perm_mask` [B, T, T] and `target_mapping` [B, P, T], for the peers."""
    ranks, positions = batch["ranks"], batch["target_positions"]
    is_target = np.zeros(ranks.shape, np.int32)
    np.put_along_axis(is_target, positions, 1, 1)
    limit = ranks + 1 - is_target
    return {
        "perm_mask": (limit[:, :, None] <= ranks[:, None, :]).astype(
            np.float32
        ),
        "target_mapping": np.eye(length, dtype=np.float32)[positions],
        "is_target": is_target,
    }


def finetune_batch(workload: Workload, step: int = 0) -> dict[str, np.ndarray]:
    """One full classification batch (no padding), `common.contract.schema` names."""
    w = workload
    random = np.random.default_rng([w.seed, 1, step])
    segments = np.zeros([w.batch, w.length], np.int32)
    segments[:, w.length // 2 :] = 1
    if w.model_type == "xlnet":
        segments[:, -1] = 2  # CLS
    return {
        "input_ids": random.integers(9, w.vocab, [w.batch, w.length]).astype(
            np.int32
        ),
        "segment_ids": segments,
        "input_mask": np.ones([w.batch, w.length], np.int32),
        "example_weight": np.ones([w.batch], np.float32),
        "example_index": np.arange(w.batch, dtype=np.int32),
        "label_ids": random.integers(0, w.labels, [w.batch]).astype(np.int32),
    }


def lm_batch(workload: Workload) -> dict[str, np.ndarray]:
    """One batch of a left-to-right model, `common.contract.schema` names.

    Ids are as frequent as words: id i with probability about 1 / (i + 1), so
    that an adaptive softmax has as much to do as on a text.
    """
    w = workload
    random = np.random.default_rng([w.seed, 2])
    uniform = random.random([w.batch, w.length + 1])
    ids = (np.exp(uniform * np.log(w.vocab)) - 1).astype(
        np.int32
    )  # log-uniform
    return {
        "input_ids": ids[:, :-1],
        "target_ids": ids[:, 1:],
        "target_weights": np.ones([w.batch, w.length], np.float32),
        "reset_memory": np.zeros([w.batch], bool),
    }
