"""Fewer rows per step at first (ModernBERT), in the shapes that there are.

A step goes through its batch in accumulation steps; while the batch size warms
up only the first few of them run. Sizes rise by one micro-batch; each takes a
share of the tokens as large as itself, so that each gets as many steps.
"""

import dataclasses
import math

import tensorflow as tf

from common.errors import UserError
from training.run_options import RunOptions


def thresholds(sizes: list[int], tokens: int) -> list[int]:
    """Tokens after which a size is over; the last size is not over."""
    total, done, ends = sum(sizes[:-1]), 0, []
    for size in sizes[:-1]:
        done += size
        ends.append(math.ceil(tokens * done / total))
    return ends


@dataclasses.dataclass(frozen=True)
class BatchWarmup:
    """From `smallest` rows per step to `batch_size`.

    Raises UserError: `smallest` is no number of micro-batches.
    """

    batch_size: int
    accumulation_steps: int
    smallest: int
    tokens: int  # positions after which steps are whole

    def __post_init__(self):
        unit = self.batch_size // self.accumulation_steps
        if self.smallest % unit or not unit <= self.smallest < self.batch_size:
            raise UserError(
                "--min_batch_size must be a multiple of the "
                f"{unit} rows of one of the {self.accumulation_steps} "
                f"--grad_accumulation_steps, below {self.batch_size}, received "
                f"{self.smallest}"
            )

    def sizes(self) -> list[int]:
        """Rows per step, rising by a micro-batch."""
        unit = self.batch_size // self.accumulation_steps
        return list(range(self.smallest, self.batch_size + 1, unit))

    def starts(self, length: int) -> list[int]:
        """First step of each size but the smallest, for rows of `length`."""
        sizes = self.sizes()
        step = seen = 0
        firsts = []
        for size, end in zip(
            sizes, thresholds(sizes, self.tokens), strict=False
        ):
            steps = max(0, -(-(end - seen) // (size * length)))
            step += steps
            seen += steps * size * length
            firsts.append(step)
        return firsts

    def micro_batches(self, step: tf.Tensor, length: int) -> tf.Tensor:
        """int32 scalar: how many of a step's micro-batches run."""
        first = self.smallest * self.accumulation_steps // self.batch_size
        begun = tf.cast(step, tf.int64) >= tf.constant(
            self.starts(length), tf.int64
        )
        return first + tf.reduce_sum(tf.cast(begun, tf.int32))


def of_run(options: RunOptions, memory_len: int) -> BatchWarmup | None:
    """The warm-up that a run asks for, None without.

    Raises UserError: it does not fit the batch, or rows carry memory.
    """
    if not options.min_batch_size:
        return None
    if memory_len:
        raise UserError(
            "--min_batch_size leaves rows of a batch out, whose memory would "
            "be of an older text: give --mem_len=0"
        )
    return BatchWarmup(
        options.train_batch_size,
        options.grad_accumulation_steps,
        options.min_batch_size,
        options.batch_size_warmup_tokens,
    )
