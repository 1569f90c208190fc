"""What `run_lm.py` says of an evaluation, in which units."""

from collections.abc import Callable

from common.errors import UserError
from training import loop
from training.checkpointing.checkpoints import weights_to_read
from training.jobs.pretraining_job import train

__all__ = ["evaluate", "evaluation_lines", "train"]

Rates = Callable[[float], dict[str, float]]


def evaluate(
    request: loop.TrainRequest, split: str, tokens: int, rates: Rates
) -> dict[str, float]:
    """Evaluates the folder's weights on a split and prints the units.

    Unit -> value, and `predicted_tokens`; `rates` has unit -> value of nats per
    predicted token.
    """
    source = weights_to_read(request.options)
    request.say(source.line)
    result = loop.evaluate(
        request.objective,
        request.eval_input_fn,
        request.options,
        checkpoint=source,
    )
    predicted = round(result.counts["lm_loss"])
    values, lines = evaluation_lines(
        result.metrics["lm_loss"], predicted, split, tokens, rates
    )
    for line in lines:
        request.say(line)
    return values


def evaluation_lines(
    loss: float, predicted: int, split: str, tokens: int, rates: Rates
) -> tuple[dict[str, float], list[str]]:
    """(unit -> value, lines to print) of a loss in units that the split counts.

    Raises UserError: no predicted token has a loss.
    """
    if not predicted:
        raise UserError(f"the split {split} holds no token to predict")
    values = {"predicted_tokens": predicted, "nats_per_token": loss}
    values |= {k: v for k, v in rates(loss).items() if v == v}
    lines = [f"{split}: predicted {predicted} of {tokens} tokens"]
    lines += [
        f"{split}: {name} {value:.6g}"
        for name, value in values.items()
        if name != "predicted_tokens"
    ]
    return values, lines
