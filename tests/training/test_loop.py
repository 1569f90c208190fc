"""A following evaluation: every new checkpoint of another job, then the end."""

import json
import shutil

import pytest

from common.errors import UserError
from tests.helpers.runs import toy
from training import loop
from training.checkpointing import checkpoints
from training.checkpointing.run_state import open_run


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A folder with the checkpoint that a run leaves at its end."""
    folder = tmp_path_factory.mktemp("one")
    options = toy.run_options(folder)
    state = open_run(toy.ToyObjective(), options)
    state.checkpoints.save(options.train_steps)
    return folder


def test_a_following_evaluation_gives_the_readers_line(finished, monkeypatch):
    # The toy's names are not those that checkpoints are restored by.
    monkeypatch.setattr(checkpoints, "restore_weights", lambda *rest: None)
    options = toy.run_options(finished)
    with pytest.raises(UserError, match="record 7: id 99") as e:
        loop.evaluate_continuously(toy.ToyObjective(), toy.broken, options)
    assert "\n" not in str(e.value)


def test_a_following_evaluation_in_a_folder_whose_name_is_a_pattern(
    finished, monkeypatch, tmp_path
):
    folder = tmp_path / "run[1]*"
    shutil.copytree(finished, folder)
    monkeypatch.setattr(checkpoints, "restore_weights", lambda *rest: None)
    options = toy.run_options(folder).replace(eval_steps=2)
    history = loop.evaluate_continuously(
        toy.ToyObjective(), toy.input_fn, options, timeout=20
    )
    assert [step for step, _ in history] == [options.train_steps]


def test_a_following_evaluation_ends_with_the_job(
    finished, monkeypatch, tmp_path
):
    """Whose last step it was not told; it waited for ever."""
    shutil.copytree(finished, tmp_path / "m")
    monkeypatch.setattr(checkpoints, "restore_weights", lambda *rest: None)
    options = toy.run_options(tmp_path / "m")
    longer = options.replace(eval_steps=2, train_steps=10**6)

    def follow(**how):
        history = loop.evaluate_continuously(
            toy.ToyObjective(), toy.input_fn, longer, timeout=0.5, **how
        )
        assert [step for step, _ in history] == [options.train_steps]

    monkeypatch.setattr(loop.time, "sleep", lambda _: waits.append(1))
    waits, record = [], tmp_path / "m" / "run.json"
    steps = {"train_steps": options.train_steps}
    record.write_text(json.dumps({"should_match": steps}))
    follow(recorded=True)
    assert not waits
    follow()
    assert waits


@pytest.mark.long
def test_a_following_evaluation_ends_where_nothing_comes(tmp_path):
    options = toy.run_options(tmp_path)
    assert (
        loop.evaluate_continuously(
            toy.ToyObjective(), toy.input_fn, options, timeout=0.1
        )
        == []
    )
