"""What every kind of build and every reader of lanes is told."""

import dataclasses
from typing import Protocol

from common.checks import FIELD, one_of, within

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
    """Refuses values that no build can have.

    Raises:
      UserError: names the flag.
    """
    within(options, ">= 0", "seed")
    within(options, ">= 1", "num_workers")
    within(options, "> 0", "block_megabytes")
    one_of(options, runner=RUNNERS)


@dataclasses.dataclass(frozen=True)
class LaneOptions:
    """Which batches a reader of lanes gives.

    Attributes:
      global_batch: rows of a batch over all replicas.
      seed: of the lane order (and of what is drawn again).
      start_step: the first batch given is the one of this step.
      repeat: False ends where the first epoch's last lanes end.
      prefetch: batches kept ready; 0 = none.
      rows: rows of the global batch that are read, in this order; None = all.
    """

    global_batch: int
    seed: int = 0
    start_step: int = 0
    split: str = "train"
    repeat: bool = True
    verify: bool = True
    read_ahead: int = 16
    prefetch: int = 8
    rows: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        within(self, ">= 1", "global_batch", "read_ahead", form=FIELD)
        within(self, ">= 0", "seed", "start_step", "prefetch", form=FIELD)
