"""run.json: what a resumed run must be equal in, and what it says else."""

import json
import subprocess

import pytest

from common.errors import UserError
from training.jobs.pretrain_options import PretrainOptions
from training.reporting import run_record


def test_changed_facts_are_refused_or_noted(tmp_path):
    folder = str(tmp_path)
    arguments = ({"a": 1}, {"data": "x", "seed": 1}, {"replicas": 1})
    assert run_record.update(folder, *arguments, resuming=False) == []
    must, should = {"data": "x", "seed": 1}, {"replicas": 4}
    notes = run_record.update(folder, {}, must, should, resuming=True)
    assert len(notes) == 1 and "`replicas` wanted 4, found 1" in notes[0]
    with pytest.raises(UserError, match="`data` wanted y, found x"):
        run_record.update(folder, {}, {"data": "y"}, {}, resuming=True)
    # Without a checkpoint there is nothing to stay equal to.
    run_record.update(folder, {}, {"data": "y"}, {}, resuming=False)


def test_what_differs_within_a_value_is_said_alone(tmp_path):
    """All fields of both stood there: of a ranker all queries of its fold."""
    key = {"fold": {"train": list(range(500))}, "steps": [4, 2]}
    optimizer = {"learning_rate": 0.5, "clip": 1.0}
    run_record.update(
        str(tmp_path),
        {},
        {"ranking": json.dumps(key)},
        {"optimizer": optimizer},
        resuming=False,
    )
    (note,) = run_record.update(
        str(tmp_path),
        {},
        {"ranking": json.dumps(key)},
        {"optimizer": optimizer | {"clip": 0.25, "new": 1}},
        resuming=True,
        write=False,
    )
    assert note.startswith(
        "`optimizer.clip` wanted 0.25, found 1.0; `optimizer.new` wanted 1, "
        "found nothing: the run continues"
    )
    other = {"fold": {"train": list(range(1, 500))}, "steps": [8, 2]}
    with pytest.raises(UserError) as e:
        run_record.update(
            str(tmp_path), {}, {"ranking": json.dumps(other)}, {}, True
        )
    assert "`ranking.steps` wanted [8, 2], found [4, 2]; use" in str(e.value)
    assert len(str(e.value)) < 500
    with pytest.raises(UserError, match="`ranking` wanted {no JSON, found"):
        run_record.update(str(tmp_path), {}, {"ranking": "{no JSON"}, {}, True)


def test_a_resumed_run_keeps_the_weights_of_its_sets(tmp_path):
    """Files of earlier versions have weights only where they were given."""
    for number, (recorded, kept) in enumerate(
        [({}, []), ({"train_weights": [2.0, 1.0]}, [2.0, 1.0])]
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        old = {"flags": {"train_weights": []}, "must_match": recorded}
        if recorded:
            old["flags"] = {"train_weights": ["2", "1"]}
        old["must_match"]["task"] = "squad"
        (folder / "run.json").write_text(json.dumps(old))
        with pytest.raises(UserError, match="`train_weights` wanted"):
            other = [1.0, 3.0] if number == 0 else []
            run_record.update(
                str(folder), {}, {"train_weights": other}, {}, resuming=True
            )
        must = {"train_weights": kept}
        run_record.update(str(folder), {}, must, {}, resuming=True)


def test_a_resumed_run_keeps_its_objective(tmp_path):
    def start(folder, resuming=True, flags=None, **what):
        must = PretrainOptions("records", **what).must_match()
        return run_record.update(
            str(folder), flags or {}, must, {}, resuming=resuming
        )

    start(tmp_path, resuming=False, target_order="forward")
    with pytest.raises(UserError, match="`target_order` wanted random, found"):
        start(tmp_path)
    start(tmp_path, target_order="forward")
    # An older run.json lacks what was not given.
    old, path = tmp_path / "old", tmp_path / "old" / "run.json"
    old.mkdir()
    path.write_text('{"must_match": {"data": "x"}, "starts": [{}]}')
    for name, value, found in (
        ("mlm_stream", "query", "content"),
        ("resample_targets", True, False),
        ("next_sentence", True, False),
    ):
        with pytest.raises(UserError, match=f"`{name}` wanted .*found {found}"):
            start(old, **{name: value})
    notes = run_record.update(
        str(old), {}, {}, {"min_batch_size": 4}, True, write=False
    )
    assert "`min_batch_size` wanted 4, found 0: the run continues" in notes[0]
    start(old)
    # What it was read with stands among its flags.
    path.write_text('{"flags": {"resample_targets": true}, "starts": [{}]}')
    start(old, resample_targets=True)


def test_every_start_is_added_and_a_dry_one_writes_nothing(tmp_path):
    folder, path = str(tmp_path), tmp_path / "run.json"
    run_record.update(folder, {"a": 1}, {"x": 1}, {}, False, write=False)
    assert not path.exists()
    for resuming in (False, True, True):
        run_record.update(folder, {"a": 1}, {"x": 1}, {"y": 2}, resuming)
    record = json.loads(path.read_text())
    assert (record["flags"], record["should_match"]) == ({"a": 1}, {"y": 2})
    assert len(record["starts"]) == 3
    assert set(run_record.versions()) > {"tensorflow", "tf_keras", "numpy"}
    for start in record["starts"]:
        assert start["versions"] == run_record.versions()
        assert start["devices"] == run_record.devices()
    more = {"y": 3}
    (note,) = run_record.update(folder, {}, {"x": 1}, more, True, write=False)
    assert note.endswith("the run continues, but not bit for bit as before")
    # At its last step nothing is trained with the new setting.
    (note,) = run_record.update(folder, {}, {"x": 1}, more, True, trains=False)
    assert note.startswith("`y` wanted 3, found 2: no step is left to train")
    assert json.loads(path.read_text())["should_match"] == {"y": 2}
    # A run that begins again has one start.
    run_record.update(folder, {}, {"x": 9}, {}, resuming=False)
    record = json.loads(path.read_text())
    assert len(record["starts"]) == 1 and record["must_match"] == {"x": 9}


def test_a_resumed_run_without_its_record_is_told_so(tmp_path):
    must = {"seed": 1, "data": "x", "objective": "mlm"}
    (note,) = run_record.update(str(tmp_path), {}, must, {}, resuming=True)
    assert note.startswith(f"{tmp_path / 'run.json'} is missing or says")
    assert "whether `data`, `objective` and `seed` are those of" in note
    (note,) = run_record.update(
        str(tmp_path / "b"), {}, {"seed": 1}, {}, resuming=True, write=False
    )
    assert "whether `seed` are" in note


@pytest.mark.parametrize(
    "name, value, message",
    [
        ("starts", {}, "starts: wanted list, found dict; move the file away"),
        ("flags", [1], "flags: wanted dict, found list; move the file away"),
        ("must_match", "x", "must_match: wanted dict, found str; move"),
        ("starts", ["x"], "a start: wanted dict, found str; move the file"),
        ("starts", [{"versions": 3}], "versions: wanted dict, found int"),
    ],
)
def test_a_damaged_record_names_its_field(tmp_path, name, value, message):
    (tmp_path / "run.json").write_text(json.dumps({name: value}))
    with pytest.raises(UserError, match=f"run.json: {message}"):
        run_record.update(str(tmp_path), {}, {"x": 1}, {}, resuming=True)


def test_tuples_are_equal_to_the_lists_that_were_saved(tmp_path):
    folder = str(tmp_path)
    run_record.update(folder, {}, {"shape": (2, 3)}, {}, resuming=False)
    again = {"shape": (2, 3)}
    assert run_record.update(folder, {}, again, {}, resuming=True) == []
    with pytest.raises(UserError, match=r"`shape` wanted \[2, 4\], found \["):
        run_record.update(folder, {}, {"shape": (2, 4)}, {}, resuming=True)


def test_the_revision_says_whether_the_tree_was_changed(monkeypatch):
    """None without git, or where the sources lie in no repository."""
    changed = [" M common/files.py"]

    def git(command, **options):
        if not changed:
            raise subprocess.CalledProcessError(128, command)
        out = "abc1\n" if "rev-parse" in command else changed[0]
        return subprocess.CompletedProcess(command, 0, stdout=out)

    monkeypatch.setattr(run_record.subprocess, "run", git)
    assert run_record.git_revision() == "abc1+"
    changed[0] = ""
    assert run_record.git_revision() == "abc1"
    changed.clear()
    assert run_record.git_revision() is None


def test_an_evaluation_names_what_was_trained_otherwise(tmp_path):
    folder, names = str(tmp_path), ("objective", "rate")
    wanted = {"objective": "a", "rate": 0.5, "data": "x"}
    assert run_record.trained_otherwise(folder, names, wanted) == []
    must = {"objective": "b", "rate": 0.5, "data": "y"}
    run_record.update(folder, {}, must, {}, resuming=False)
    (line,) = run_record.trained_otherwise(folder, names, wanted)
    assert line.startswith("note: `objective` wanted a, found b: ")
    assert f"{tmp_path}/run.json" in line
    assert run_record.trained_otherwise(folder, names, must) == []
