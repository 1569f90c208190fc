"""Fine-tuning on documents of more than T tokens, segment by segment.

As in pretraining no gradient flows into memory, so a step costs one backward
pass and S forward passes. How a row is read: `modeling.models.long_document`.
"""

import functools

import tensorflow as tf

from common.errors import UserError
from modeling.encoders.contract import EncoderConfig
from modeling.models.long_document import LongDocument
from training.objectives.contract import Batch
from training.objectives.finetuning import INPUTS, FinetuneObjective


class RecurrentObjective(FinetuneObjective):
    """Reads S segments, not one as `FinetuneObjective`; memory of T slots."""

    def __init__(
        self,
        config: EncoderConfig,
        num_segments: int = 1,
        segment_len: int = 512,
        **options,
    ):
        super().__init__(config, **options)
        self.num_segments = num_segments
        self.segment_len = segment_len
        self.config = config.with_memory(segment_len)

    def pack_rows(self) -> None:
        """See `Objective`; memory is of one document per row."""
        raise UserError(
            "--pack: the segments of --segment_recurrence carry memory and are "
            "not packed; give one of them"
        )

    def forward(self, model, batch: Batch, training=False, seed=None):
        """The head's output on the last segment, [B, ...]."""
        width = self.num_segments * self.segment_len
        inputs = {}
        for name in INPUTS:
            lead = batch[name].shape[:-1]
            inputs[name] = tf.ensure_shape(batch[name], [*lead, width])
        reader = LongDocument(model, self.segment_len)
        return reader(**inputs, training=training, seed=seed)


@functools.cache
def recurrent(objective: type) -> type[RecurrentObjective]:
    """The objective that reads S segments where this one reads a row."""
    return type(
        f"Recurrent{objective.__name__}", (objective, RecurrentObjective), {}
    )
