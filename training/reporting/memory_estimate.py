"""An estimate of the memory of one replica, printed before step 1.

Weights, slots and memory are exact; activations are counted from the shapes of
what the backward pass keeps. Letters as in docs/architecture.md.
"""

import math

import tensorflow as tf

from training.session import Session

GIB = 1024.0**3


def activation_bytes(
    config, rows: int, length: int, targets: int, element: int, recompute: bool
) -> int:
    """Bytes that the backward pass keeps of one part.

    Args:
      config: `XLNetConfig`.
      rows: rows of the part.
      length: T.
      targets: P, 0 without a query stream.
      element: bytes of an activation.
      recompute: only layer inputs are kept, and one layer's insides.
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


def estimate(session: Session, element_spec: dict) -> dict[str, int]:
    """Bytes by class for one replica."""
    options, config = session.options, session.objective.config
    variables = session.objective.named_variables(session.model)
    weights = sum(math.prod(v.shape) for v in variables.values()) * 4
    trained = sum(math.prod(v.shape) for v in session.optimizer.trained) * 4
    element = 4 if options.strategy.precision == "float32" else 2
    shape = element_spec["input_ids"].shape
    length = shape[-1] or config.mem_len or 512
    replicas = session.strategy.num_replicas_in_sync
    rows = options.train_batch_size // replicas
    part = rows // options.grad_accumulation_steps
    if len(shape) == 3:  # multiple choice [B, C, T]
        part *= shape[1]
    targets = 0
    if "target_ids" in element_spec:
        targets = element_spec["target_ids"].shape[-1]
    recompute = getattr(session.objective, "recompute_layers", False)
    found = {
        "weights": weights,
        "slots": trained * (3 if options.optimizer.ema_decay else 2),
        "gradients": trained
        * (2 if options.grad_accumulation_steps > 1 else 1),
        "activations": activation_bytes(
            config, part, length, targets, element, recompute
        ),
    }
    if targets:
        chunk = getattr(session.objective, "loss_chunk_size", None)
        logits = min(part * targets, chunk or part * targets)
        found["logits"] = 3 * logits * config.vocab_size * 4
    if session.memory:
        # Old and new, and the saved copy on the chief.
        slots = session.objective.memory_len * config.d_model * config.n_layer
        found["memory"] = 3 * rows * slots * element
    return found


def estimate_lines(session: Session, element_spec) -> tuple[int, list[str]]:
    """(total bytes with TensorFlow itself, lines for the summary)."""
    found = estimate(session, element_spec)
    replicas = session.strategy.num_replicas_in_sync
    gpus = tf.config.list_physical_devices("GPU")
    total = sum(found.values())
    parts = ", ".join(f"{k} {v / GIB:.2f}" for k, v in found.items())
    if not gpus:
        # On a CPU the replicas share one process with TensorFlow's code.
        total = total * replicas + int(0.9 * GIB)
    return total, [f"memory       about {total / GIB:.2f} GiB ({parts})"]
