"""Failures of a run in one line each."""

import contextlib
import re

import numpy as np
import tensorflow as tf

from common.errors import UserError
from training.checkpointing import saving
from training.checkpointing.run_state import RunState

# Flags that need less memory.
_TRAINING = (
    "--train_batch_size with --grad_accumulation_steps, --recompute_layers, or "
    "--precision=mixed_bfloat16"
)
EVALUATION = "--eval_batch_size or, for predictions, --predict_batch_size"
# What collectives raise when another process is gone.
_PEER_ERRORS = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.DeadlineExceededError,
    tf.errors.CancelledError,
    tf.errors.InternalError,
)


def check_finite(
    rows: np.ndarray, names: list[str], first_step: int, run: RunState
) -> None:
    """Stops at a loss or gradient norm of NaN or inf.

    With a loss scale such a norm only leaves a step out, until the scale is as
    small as it can be: from then on nothing would be trained. UserError has the
    steps, the value and the last good checkpoint.
    """
    columns = ["loss"]
    scale = run.learner.loss_scale
    last = rows[-1, names.index("gradient_norm")]
    if scale is None or (not np.isfinite(last) and scale.is_least):
        columns.append("gradient_norm")
    for column in columns:
        values = rows[:, names.index(column)]
        bad = np.flatnonzero(~np.isfinite(values))
        if not len(bad):
            continue
        good = run.checkpoints.latest()
        kept = f"last good checkpoint {good}" if good else "nothing was saved"
        raise UserError(
            f"{column} is {values[bad[0]]} at step {first_step + bad[0]} "
            f"(steps {first_step}-{first_step + len(rows) - 1}); {kept}; lower "
            "--learning_rate, lengthen --warmup_steps or check the data"
        )


@contextlib.contextmanager
def memory_of(advice: str):
    """Turns full memory into a `UserError` with the flags that need less."""
    try:
        yield
    except tf.errors.ResourceExhaustedError as e:
        if saving.of_disk(e):
            raise
        raise UserError(
            f"out of memory: take a smaller {advice} ({_first_line(e)})"
        ) from e


@contextlib.contextmanager
def translate_errors(processes: int, checkpoints):
    """Turns what TensorFlow raises for a user's error into `UserError`."""
    try:
        with memory_of(_TRAINING):
            yield
    except tf.errors.OpError as e:
        inner = re.search(r"UserError: (.*)", e.message or "")
        if inner:
            raise UserError(inner[1].strip()) from e
        if saving.of_disk(e):
            raise
        if processes > 1 and _is_about_a_peer(e):
            latest = checkpoints.latest() if checkpoints else None
            raise UserError(
                "another process of the run is gone "
                f"({_first_line(e)}); start the same command in all processes "
                f"again, it resumes from {latest or 'the beginning'}"
            ) from e
        if isinstance(e, tf.errors.DataLossError):
            raise UserError(
                f"an input file is damaged: {_first_line(e)}"
            ) from e
        raise


def _is_about_a_peer(error: tf.errors.OpError) -> bool:
    if isinstance(error, _PEER_ERRORS):
        return True
    # The step's own op only says that its collective was given up.
    text = (error.message or "").lower()
    return any(
        word in text for word in ("collective", "connection", "socket", "grpc")
    )


def _first_line(error: tf.errors.OpError) -> str:
    text = (error.message or "").strip().splitlines()
    # The cause stands behind the place in the graph.
    text = [t for t in text if "aborted by" in t] or text
    return text[0][:160] if text else type(error).__name__
