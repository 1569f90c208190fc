"""Fine-tuning on documents of more than T tokens, segment by segment.

As in pretraining no gradient flows into memory, so a step costs one backward
pass and S forward passes. How a row is read: `modeling.long_document`.
"""

import tensorflow as tf

from common.errors import UserError
from modeling.encoders.xlnet.config import XLNetConfig
from modeling.long_document import LongDocument
from training.objectives import finetuning as finetune
from training.objectives.contract import Batch


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
        width = self.num_segments * self.segment_len
        inputs = {}
        for name in finetune.INPUTS:
            lead = batch[name].shape[:-1]
            inputs[name] = tf.ensure_shape(batch[name], [*lead, width])
        reader = LongDocument(model, self.segment_len)
        return reader(**inputs, training=training, seed=seed)


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
