"""One way from a file to its jobs, for every kind of study."""

import os
import pathlib

import pytest

from common.errors import UserError
from studies.kinds import registry
from studies.runner import study_file
from studies.runner.jobs import Jobs
from tests.studies.toy_studies import PLACES

KINDS = {
    "learning": "learning",
    "multitask": "multitask",
    "recipe": "search",
    "released": "gains",
    "results": "gains",
}


@pytest.mark.parametrize("name", study_file.names())
def test_every_file_has_its_jobs(name, tmp_path):
    options = registry.load(study_file.path_of(name), PLACES)
    assert options.kind == KINDS.get(name, "study") and options.name == name
    runner = registry.runner_of(str(tmp_path), options, only_read=True)
    assert type(runner) is registry.KINDS[options.kind][1]
    assert isinstance(runner, Jobs) and runner.options is options
    for what in ("run", "text", "write"):
        assert callable(getattr(runner, what))
    entries = {getattr(t, "base", n) for n, t in options.tasks.items()}
    assert options.chosen(list(entries)) == options


def test_a_kind_that_is_none(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('kind = "rows"\n')
    with pytest.raises(UserError) as e:
        registry.load(str(path), {})
    assert str(e.value) == (
        f"{path}: `kind` must be one of study, gains, learning, search, "
        "multitask, "
        "found 'rows'"
    )


def test_a_file_of_ones_own_has_its_whole_name(tmp_path):
    text = pathlib.Path(study_file.path_of("released")).read_text()
    path = tmp_path / "mine.toml"
    path.write_text(text)
    options = registry.load(str(path), PLACES)
    assert options.command == "python -m studies.run --study=mine.toml"
    assert os.path.basename(options.start) == "START"
