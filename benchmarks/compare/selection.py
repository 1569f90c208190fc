"""Which systems of a suite take part: `--systems` and `--checkout`."""

import dataclasses
from collections.abc import Iterable, Sequence

from benchmarks.compare.harness import System
from common.errors import UserError
from flags.bench_flags import BenchOptions


def among(
    systems: list[System], module: str, options: BenchOptions
) -> list[System]:
    """All that may be chosen: those of `module` also at `options.checkout`."""
    if not options.checkout:
        return systems
    return systems + [
        dataclasses.replace(
            s, name=f"{s.name} at checkout", folder=options.checkout
        )
        for s in systems
        if s.module == module
    ]


def of(
    systems: list[System], module: str, options: BenchOptions
) -> list[System]:
    """The systems that `options` names, in the suite's order; [] = none."""
    possible = among(systems, module, options)
    if not options.systems:
        return possible
    return [s for s in possible if s.name in options.systems]


def check(systems: dict[str, Sequence[str]], options: BenchOptions) -> None:
    """What `options.systems` names is there, and every suite has one of it.

    Args:
      systems: suite -> names of its systems, for suites with a choice.

    Raises:
      UserError: the line says which names there are.
    """
    given = ", ".join(options.systems)
    for suite in options.suites:
        if suite not in systems:
            raise UserError(
                f"--systems chooses nothing in the suite {suite!r}: leave it "
                "out of --suites, or leave --systems out"
            )
        if not set(options.systems) & set(systems[suite]):
            raise UserError(
                f"--systems must name some of the suite {suite!r}: "
                f"{_listed(systems[suite])}; found {given}"
            )
    known = [name for names in systems.values() for name in names]
    if unknown := [s for s in options.systems if s not in known]:
        raise UserError(
            f"--systems must name some of {_listed(known)}; found "
            f"{', '.join(unknown)}"
        )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(names))
