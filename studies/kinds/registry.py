"""The kinds of studies: what reads a file's entries, its jobs and its report."""

import functools
import os
from typing import Any

from common.errors import UserError
from studies.kinds import multitask, search
from studies.kinds.gains import Gains, GainsOptions
from studies.kinds.learning import Learning, LearningOptions
from studies.kinds.multitask import MultiTask
from studies.kinds.search import Search
from studies.runner import study_file
from studies.runner.study import Runner, Study

KINDS = {
    "study": (study_file.options_of, Study),
    "gains": (
        functools.partial(study_file.options_of, options=GainsOptions),
        Gains,
    ),
    "learning": (
        functools.partial(study_file.options_of, options=LearningOptions),
        Learning,
    ),
    "search": (search.read_options, Search),
    "multitask": (multitask.read_options, MultiTask),
}


def load(path: str, places: dict[str, str]) -> Any:
    """Options of a file, of its entry `kind`; "study" where it has none.

    Args:
      path: the file; docs/explanation/ablation.md describes it.
      places: name -> text that stands for `{name}` in values.

    Raises:
      UserError: no TOML, or an entry that is missing, unknown or wrong.
    """
    value = study_file.read_toml(path, places)
    with study_file.entries_of(path):
        kind = value.get("kind", "study")
        if kind not in KINDS:
            raise UserError(
                f"`kind` must be one of {', '.join(KINDS)}, found {kind!r}"
            )
        name = os.path.basename(path)
        if os.path.dirname(path) == study_file.OPTIONS:
            name = os.path.splitext(name)[0]
        return KINDS[kind][0]({"name": name} | value)


def runner_of(
    folder: str, options: Any, only_read: bool = False, workers: int = 1
) -> Runner:
    """The jobs of a file's options, in a folder."""
    return KINDS[options.kind][1](folder, options, only_read, workers)
