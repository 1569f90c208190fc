"""What every kind of build is told."""

import dataclasses
from typing import Protocol

from common.checks import follows, one_of, within

RUNNERS = ("local", "beam")


class FactoryOptions(Protocol):
    """The options of a build that `data.records` itself reads."""

    output_dir: str
    text_field: str
    block_megabytes: float
    seed: int
    num_workers: int
    runner: str
    beam_options: str


def identity(options: FactoryOptions, *apart: str) -> dict:
    """What equal data share: the options but for how a build was run.

    Without the fields `apart`, most of them paths.
    """
    value = dataclasses.asdict(options)
    for name in ("output_dir", "num_workers", "runner", "beam_options", *apart):
        del value[name]
    return value


def check_factory(options: FactoryOptions) -> None:
    """Refuses values that no build can have."""
    within(options, ">= 0", "seed")
    within(options, ">= 1", "num_workers")
    within(options, "> 0", "block_megabytes")
    one_of(options, runner=RUNNERS)
    given, runner = options.beam_options, options.runner
    follows(given, "beam_options", "runner", ("beam",), runner)
