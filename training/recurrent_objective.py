"""Fine-tuning on documents of more than T tokens, segment by segment.

A row of S * T tokens, padded on the left, is read as S segments of T; each
one attends to the memory that the segments before it left (Transformer-XL
section 3.2, XLNet paper section 2.4). The head sees the last segment, which
holds CLS. As in pretraining no gradient flows into memory, so a step costs one
backward pass and S forward passes.

Because padding is on the left, the tokens of earlier segments are at the right
end of the memory: `memory_length` is how many of them there are, and a short
document gives what it gives without recurrence. Memory counts as segment 0.
"""

import tensorflow as tf

from common.errors import UserError
from modeling.config import XLNetConfig
from training import finetune_objectives as finetune
from training.objectives import Batch


class RecurrentObjective(finetune.FinetuneObjective):
    """Reads S segments where `FinetuneObjective` reads one.

    Args:
      config: the architecture.
      num_segments: S.
      segment_len: T; the memory keeps so many slots.
      **options: of the head's own objective.
    """

    def __init__(
        self,
        config: XLNetConfig,
        num_segments: int = 1,
        segment_len: int = 512,
        **options,
    ):
        super().__init__(config, **options)
        self.num_segments = num_segments
        self.segment_len = segment_len
        self.config = config.replace(mem_len=segment_len, reuse_len=None)

    def forward(self, model, batch: Batch, training=False, seed=None):
        """The head's output on the last segment, [B, ...]."""
        length = self.segment_len
        memory, memory_length = None, None
        for s in range(self.num_segments):
            part = {
                name: batch[name][..., s * length : (s + 1) * length]
                for name in finetune.INPUTS
            }  # [B, T] or [B, C, T]
            part_seed = seed
            if seed is not None:
                part_seed = tf.random.experimental.stateless_fold_in(seed, s)
            carried = {}
            if memory is not None:
                carried = {"memory": memory, "memory_length": memory_length}
            if s == self.num_segments - 1:
                return model(
                    **part, **carried, training=training, seed=part_seed
                )
            # Options are rows of their own: [B * C, T].
            rows = {k: tf.reshape(v, [-1, length]) for k, v in part.items()}
            output = model.encoder(
                **rows, **carried, training=training, seed=part_seed
            )
            memory = output.new_memory
            read = tf.cast(tf.reduce_sum(rows["input_mask"], 1), tf.int32)
            if memory_length is not None:
                read += memory_length
            memory_length = tf.minimum(read, length)  # [B * C]


class RecurrentClassification(
    finetune.ClassificationObjective, RecurrentObjective
):
    """Classes of a long document."""


class RecurrentMultiLabel(finetune.MultiLabelObjective, RecurrentObjective):
    """Independent labels of a long document."""


class RecurrentRegression(finetune.RegressionObjective, RecurrentObjective):
    """One value of a long document."""


class RecurrentMultipleChoice(
    finetune.MultipleChoiceObjective, RecurrentObjective
):
    """RACE on passages of any length."""


OBJECTIVES = {
    objective.name: objective
    for objective in (
        RecurrentClassification,
        RecurrentMultiLabel,
        RecurrentRegression,
        RecurrentMultipleChoice,
    )
}


def build_objective(
    head: str,
    config: XLNetConfig,
    num_segments: int,
    segment_len: int,
    **options,
) -> RecurrentObjective:
    """The recurrent objective of a head.

    Raises:
      UserError: the head reads no long documents.
    """
    if head not in OBJECTIVES:
        raise UserError(
            f"--segment_recurrence is for {', '.join(OBJECTIVES)}, "
            f"received {head!r}"
        )
    return OBJECTIVES[head](
        config, num_segments=num_segments, segment_len=segment_len, **options
    )
