"""An estimate of the memory of one replica, printed before step 1.

Weights, slots and memory are exact; activations are counted from the shapes of
what the backward pass keeps. Letters as in docs/explanation/architecture.md.
"""

import itertools
import math

import tensorflow as tf

from common.process.memory import GIB
from modeling.heads import cluster_losses
from training.step.learner import Learner


def activation_bytes(
    config, rows: int, length: int, targets: int, element: int, recompute: bool
) -> int:
    """Bytes that the backward pass keeps of one micro-batch.

    `targets` is P of the query stream, 0 without one, `element` bytes of an
    activation. With `recompute` only layer inputs are kept, and one layer's
    insides.
    """
    d, f, n, h = config.d_model, config.d_inner, config.n_head, config.d_head
    keys = (config.mem_len or 0) + length
    # Of a position: inputs and outputs of both sublayers, the queries and the
    # attention's result, the inner layer before its activation; of a pair of
    # query and key the probability.
    position = (6 * d + 3 * n * h + f + n * keys) * element
    shared = (keys * 2 + length) * n * h * element
    streams = length + targets
    layer = streams * position + shared
    # The last content stream is not read in pretraining.
    last = (targets or length) * position + shared
    # While a layer is differentiated: half of the heads (two groups of four),
    # three tensors by key and one by relative position.
    passing = n // 2 * length * (4 * keys + length) * 4
    if recompute:
        boundary = streams * d * element
        return rows * (config.n_layer * boundary + layer + passing)
    return rows * ((config.n_layer - 1) * layer + last + passing)


def logit_count(config, rows: int, chunk_size: int | None) -> int:
    """Logits that are alive at a time.

    Of an adaptive softmax the head's, and those of one chunk of the largest
    tail. None = all at once, of tails as many as
    `modeling.heads.cluster_losses` takes.
    """
    ends = getattr(config, "cluster_ends", None) or (0, config.vocab_size)
    tails = [b - a for a, b in itertools.pairwise(ends[1:])]
    head = min(rows, chunk_size or rows) * (ends[1] + len(tails))
    alive = (
        min(rows, chunk_size or cluster_losses.chunk_rows(size)) * size
        for size in tails
    )
    return head + max(alive, default=0)


def estimate(learner: Learner, element_spec: dict) -> dict[str, int]:
    """Bytes by class for one replica."""
    objective, split = learner.objective, learner.split
    optimizer, config = learner.optimizer, objective.config
    weights = sum(math.prod(v.shape) for v in learner.variables.values()) * 4
    trained = sum(math.prod(v.shape) for v in optimizer.trained) * 4
    element = tf.as_dtype(learner.model.compute_dtype).size
    shape = element_spec["input_ids"].shape
    length = shape[-1] or config.mem_len or 512
    rows = split.micro_batch_rows
    if len(shape) == 3:  # multiple choice [B, C, T]
        rows *= shape[1]
    targets = objective.num_targets(element_spec)
    targets = length if targets is None else targets  # lengths vary
    parts = {
        "weights": weights,
        "slots": trained * (3 if optimizer.averages.by_name else 2),
        "gradients": trained * (2 if split.accumulation_steps > 1 else 1),
        "activations": activation_bytes(
            config,
            rows,
            length,
            targets if objective.query_stream else 0,
            element,
            objective.recompute_layers,
        ),
    }
    if targets:
        parts["logits"] = (
            3
            * 4
            * logit_count(config, rows * targets, objective.loss_chunk_size)
        )
    if learner.memory:
        # Old and new, and the saved copy on the chief.
        slots = objective.memory_len * config.d_model * config.n_layer
        parts["memory"] = 3 * split.replica_rows * slots * element
    return parts


def estimate_lines(learner: Learner, element_spec) -> tuple[int, list[str]]:
    """(total bytes with TensorFlow itself, lines for the summary)."""
    parts = estimate(learner, element_spec)
    gpus = tf.config.list_physical_devices("GPU")
    total = sum(parts.values())
    shares = ", ".join(f"{k} {v / GIB:.2f}" for k, v in parts.items())
    if not gpus:
        # On a CPU the replicas share one process with TensorFlow's code.
        total = total * learner.split.replicas + int(0.9 * GIB)
    return total, [f"memory       about {total / GIB:.2f} GiB ({shares})"]
