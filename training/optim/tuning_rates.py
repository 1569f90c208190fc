"""Rates with which models of a width learn a task.

Released models of widths from 768 on are fine-tuned with 1e-5 to 5e-5 (Table 8
of XLNet's paper, appendix A.3 of BERT's), and the default of `--learning_rate`
is one of those. Small models hardly move with it.
"""

from collections.abc import Callable

# Widths up to 256: measured (docs/explanation/results/ten_tasks.md): TREC, AG
# News and IMDB take 1e-3, STS-B, CoLA and spans 3e-4. Up to 512: in the middle
# of what Turc et al. (2019) tried for BERTs of these widths.
_UP_TO = {256: 1e-3, 512: 1e-4}
_WIDER = 3e-5


def of_width(d_model: int) -> float:
    """A peak rate to begin with for hidden states of width D."""
    return next(
        (rate for width, rate in _UP_TO.items() if d_model <= width), _WIDER
    )


def say_if_low(rate: float, d_model: int, say: Callable[[str], None]) -> None:
    """A line about a rate of at most a tenth of `of_width`."""
    usual = of_width(d_model)
    if rate * 10 <= usual:
        say(
            f"rate         --learning_rate={rate:g} is low for a model of width "
            f"{d_model}: {usual:g} is a rate to begin with"
        )
