"""What language models have in common, whatever they predict from what."""

import math

from common.errors import UserError
from training.objectives.contract import Objective


class LanguageModelObjective(Objective):
    """Predicts `target_ids` [B, P]; its metric `lm_loss` is in nats.

    Args:
      loss_chunk_size: targets whose logits are alive at a time; None = all.

    Raises:
      UserError: `loss_chunk_size` is not positive.
    """

    perplexity = "perplexity"  # the metric's name
    shown_metrics = {"perplexity": "ppl", "accuracy": "acc"}

    def __init__(self, loss_chunk_size: int | None = None):
        if loss_chunk_size is not None and loss_chunk_size < 1:
            raise UserError(
                f"`loss_chunk_size` must be >= 1, received {loss_chunk_size}"
            )
        self.loss_chunk_size = loss_chunk_size

    def predict(self, model, batch):
        """Nothing is predicted per row."""
        raise UserError(f"{self.name} has no mode=predict; use mode=eval")

    def derived_metrics(self, means):
        """Perplexity, exp(loss) without overflow."""
        return {self.perplexity: math.exp(min(means["lm_loss"], 700.0))}

    def num_targets(self, element_spec):
        """P."""
        return element_spec["target_ids"].shape[-1]
