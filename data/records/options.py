"""What every kind of build is told."""

from typing import Protocol

from common.checks import one_of, within

RUNNERS = ("local", "beam")


class FactoryOptions(Protocol):
    """The options of a build that `data.records` itself reads.

    Attributes:
      block_megabytes: text per block, the unit of work.
      num_workers: processes; any number gives the same bytes.
    """

    output_dir: str
    text_field: str
    block_megabytes: float
    seed: int
    num_workers: int
    runner: str
    beam_options: str


def check_factory(options: FactoryOptions) -> None:
    """Refuses values that no build can have."""
    within(options, ">= 0", "seed")
    within(options, ">= 1", "num_workers")
    within(options, "> 0", "block_megabytes")
    one_of(options, runner=RUNNERS)
