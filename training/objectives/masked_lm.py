"""Masked language modelling (BERT) for every encoder, with or without memory.

Batches are those of `data.pretraining.sampling.masking`: rows are corrupted there.
"""

import tensorflow as tf

from common.errors import UserError
from modeling.attention import masks
from modeling.encoders.contract import EncoderConfig
from modeling.encoders.registry import require, spec_of
from training.objectives.contract import Batch, Memory
from training.objectives.language_model import TwoSegmentObjective


class MaskedLMObjective(TwoSegmentObjective):
    """The targets' pieces from corrupted rows.

    With XLNet's backbone this is the denoising objective of the paper's
    ablation (Table 6, row 2): no query stream, the plain tied head, memory of
    the corrupted rows. A target is predicted in the "content" `stream`, as in
    BERT, or in the "query" stream of an encoder that has one. A query row sees
    what its content row sees but the token in its own place. `next_sentence` is
    NSP or SOP.

    Raises UserError: backward rows with an encoder that reads one direction, or
    the query stream of one without.
    """

    # Never beside the perplexity of permutation LM: other contexts.
    perplexity = "masked_lm_perplexity"
    shown_metrics = {"masked_lm_perplexity": "mlm-ppl", "accuracy": "acc"}

    def __init__(
        self,
        config: EncoderConfig,
        bi_data: bool = False,
        stream: str = "content",
        **options,
    ):
        self.able = spec_of(config.model_type).capabilities
        if bi_data and self.able.directions < 2:
            raise UserError(
                f"{config.model_type} takes no backward rows, and the data "
                "have some: build them with --nobi_data"
            )
        self.query_stream = stream == "query"
        if self.query_stream:
            require(config, "query_stream", "--mlm_stream=query")
        super().__init__(config, bi_data, **options)

    def predicting_states(self, output, batch):
        if self.query_stream:
            return output.query_output
        return tf.gather(
            output.sequence_output, batch["target_positions"], batch_dims=1
        )

    def pair_weights(self, batch):
        return batch["pair_weight"]

    def more_arguments(self, batch: Batch, memory: Memory | None) -> dict:
        """What only encoders with memory, two directions or streams take."""
        arguments = {}
        if "packing" in batch:
            arguments["packing"] = batch["packing"]
        if self.able.directions > 1:
            arguments["bi_data"] = self.bi_data
        if self.memory_len:
            arguments["memory"] = memory.layers if memory else None
            arguments["memory_length"] = memory.length if memory else None
        if not (self.memory_len or self.query_stream):
            return arguments
        # No token is a target of the mask: only what ranks hide is hidden.
        ranks = batch["ranks"]
        hidden = masks.rank_mask(ranks, tf.zeros_like(ranks))
        if self.query_stream:  # content rows see their own token all the same
            hidden |= tf.eye(ranks.shape[1], dtype=tf.bool)
            arguments["target_positions"] = batch["target_positions"]
        arguments["perm_mask"] = hidden
        return arguments
