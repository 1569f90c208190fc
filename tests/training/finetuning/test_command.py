"""A command from its flags to its end: one run, a run per seed, a vote."""

import contextlib
import dataclasses
import json
import os
import types

import numpy as np
import pytest
from tensorflow.python.framework import ops

from common.errors import Stopped, UserError
from data.finetuning.classifier.task import ClassifierTask
from data.finetuning.options import ClassifierDataOptions, FeatureOptions
from tests.helpers.runs.classifier import (
    make_options,
    read_rows,
    write_task,
)
from training.finetuning import command as commands


def test_the_summary_of_seeds():
    found = commands.summarize([{"dev": {"f1": v}} for v in (1.0, 4.0, 2.5)])[
        "dev"
    ]
    assert found["f1"] == {
        "n": 3,
        "median": 2.5,
        "mean": 2.5,
        "sd": pytest.approx(1.5),
        "least": 1.0,
        "most": 4.0,
    }


def test_a_trained_model_joins_two_texts_as_in_its_training(
    tmp_path, monkeypatch
):
    """Models from before other layouts have the usual one."""
    made = []

    def make(data, features, options, trained):
        made.append(features.layout)
        return types.SimpleNamespace(load=lambda: None)

    sources = commands.sources
    monkeypatch.setattr(sources, "find_spiece", lambda *_: "spiece")
    monkeypatch.setattr(sources, "find_text", lambda *_: None)
    monkeypatch.setattr(commands.preflight, "check_places", lambda _: None)
    two = "cls_first_sep_sep"
    options = make_options(tmp_path, do_eval=True)
    for trained, settled, wanted in (
        (None, two, two),
        ("cls_first", two, "cls_first"),
        (two, "cls_first", two),
        # The check of the encoder refuses these.
        ("cls_last", two, two),
        ("cls_first", "cls_last", "cls_last"),
    ):
        found = options, settled
        monkeypatch.setattr(sources, "settle", lambda *_, f=found: f)
        spec = trained and types.SimpleNamespace(
            data_options={"layout": trained}
        )
        features = FeatureOptions("spiece", 16)
        commands.load(make, print, options, None, features, spec)
        assert made.pop() == wanted


@pytest.mark.slow
@pytest.mark.shared
def test_seeds_and_their_ensemble(tmp_path, spiece_model):
    """Two seeds; an ensemble of one is that one; two vote; the better stays."""
    write_task(tmp_path)
    home = tmp_path / "model"
    said = []

    def command(**changes):
        """What the command does with flags, some of them changed."""

        def read(model_dir=str(home), seed=4, predict_ckpt=""):
            run = options.run
            strategy = dataclasses.replace(run.strategy, seed=seed)
            run = run.replace(model_dir=model_dir, strategy=strategy)
            return {
                "options": dataclasses.replace(
                    options, run=run, predict_ckpt=predict_ckpt
                ),
                "data": ClassifierDataOptions("tsv", str(tmp_path)),
                "features": FeatureOptions(spiece_model, 16),
            }

        options = make_options(tmp_path, steps=8, **changes)
        return commands.run(ClassifierTask, read, read(), say=said.append)

    again = {"do_train": True, "do_eval": True, "num_seeds": 2}
    graphs = set(ops.gradient_registry.list())
    medians = command(**again)
    assert set(ops.gradient_registry.list()) == graphs  # nothing is kept
    stored = json.loads((home / "seeds.json").read_text())
    assert set(stored["seeds"]) == {"4", "5"}
    accuracies = [s["dev"]["loss"] for s in stored["seeds"].values()]
    assert len(set(accuracies)) == 2
    assert medians["dev"]["loss"] == pytest.approx(np.mean(accuracies))
    assert any("median" in line and "2 seeds" in line for line in said)
    # What is trained is only evaluated: the same numbers, the same weights.
    assert command(**again) == medians

    folders = [str(home / f"seed_{s}") for s in (4, 5)]
    both = {"do_eval": True, "do_predict": True}
    name = "predictions/dev_examples.tsv"
    for seed, folder in zip((4, 5), folders, strict=True):
        one = command(ensemble=(folder,), **both)
        alone = stored["seeds"][str(seed)]["dev"]
        assert one["dev"] == {k: v for k, v in alone.items() if k != "loss"}
        rows = (home / name).read_bytes()
        assert rows == (home / f"seed_{seed}" / name).read_bytes()
    together = command(ensemble=tuple(folders), **both)
    shares = [
        np.array(
            [r[3:5] for r in read_rows(home / f"seed_{s}" / name)[1:]], float
        )
        for s in (4, 5)
    ]
    rows = read_rows(home / name)[1:]
    mean = np.array([r[3:5] for r in rows], float)
    np.testing.assert_allclose(mean, np.mean(shares, 0), atol=2e-6)
    assert together["dev"]["accuracy"] == np.mean([r[1] == r[2] for r in rows])
    assert len(read_rows(home / "predictions" / "test_predictions.tsv")) == 8
    said.clear()
    command(ensemble=tuple(folders), do_eval=True, greedy=True)
    record = json.loads((home / "ensemble.json").read_text())
    assert record["scores"] == sorted(record["scores"])
    assert set(record["members"]) <= set(folders)
    with pytest.raises(UserError, match="holds no task.json"):
        command(ensemble=(str(tmp_path),), do_eval=True)


def test_a_metric_that_some_seeds_lack_is_of_those_that_have_it():
    found = commands.summarize(
        [{"dev": {"f1": 1.0}}, {"dev": {"f1": 3.0, "loss": 0.5}}, {"x": {}}]
    )
    assert list(found) == ["dev", "x"] and found["x"] == {}
    assert (found["dev"]["f1"]["n"], found["dev"]["f1"]["median"]) == (2, 2.0)
    assert found["dev"]["loss"]["n"] == 1 and found["dev"]["loss"]["sd"] == 0
    assert commands.summary_lines(found) == [
        "dev f1: median 2, mean 2 +- 1.41 (1 to 3, 2 seeds)",
        "dev loss: median 0.5, mean 0.5 +- 0 (0.5 to 0.5, 1 seeds)",
    ]


class ToyRun:
    """Stands for a `Driver`, whose metric is its seed's."""

    def __init__(self, seed, ended):
        self.seed, self.ended = seed, ended

    def run(self):
        if not self.ended:
            raise Stopped("SIGTERM")
        return {"dev": {"f1": 10.0 * self.seed}}


@pytest.fixture
def prepared(monkeypatch):
    """Flags that each run of a command is prepared with; stops at seed 9."""
    found = []

    def prepare(make, exporter, say, **fields):
        found.append(fields["changes"])
        seed = fields["changes"].get("seed", 1)
        return ToyRun(seed, seed != 9)

    monkeypatch.setattr(commands, "prepare", prepare)
    released = contextlib.nullcontext
    monkeypatch.setattr(commands.graph_memory, "released", released)
    return found


def seeds_of(folder, first, **changes):
    """Fields of a command of three seeds."""
    options = make_options(
        folder, do_train=True, do_eval=True, num_seeds=3, **changes
    )
    strategy = dataclasses.replace(options.run.strategy, seed=first)
    run = options.run.replace(strategy=strategy)
    return {"options": dataclasses.replace(options, run=run), "changes": {}}


def read_changes(**changes):
    return {"changes": changes}


def test_every_seed_has_folders_of_its_own(tmp_path, prepared):
    fields = seeds_of(tmp_path, 4, predict_dir="out", do_predict=True)
    home, said = tmp_path / "model", []
    home.mkdir()  # as the seeds' own runs make it
    found = commands.run(None, read_changes, fields, say=said.append)
    assert found == {"dev": {"f1": 50.0}}
    assert prepared == [
        {
            "seed": seed,
            "model_dir": str(home / f"seed_{seed}"),
            "predict_dir": os.path.join("out", f"seed_{seed}"),
        }
        for seed in (4, 5, 6)
    ]
    assert said[0] == f"--- seed 4 in {home / 'seed_4'}"
    stored = json.loads((home / commands.SEEDS).read_text())
    assert stored["seeds"]["6"] == {"dev": {"f1": 60.0}}
    assert stored["of"]["dev"]["f1"]["most"] == 60.0


def test_a_seed_that_is_stopped_ends_the_command(tmp_path, prepared):
    """The same command goes on with it: there is no summary of a part."""
    fields = seeds_of(tmp_path, 8)
    with pytest.raises(Stopped):
        commands.run(None, read_changes, fields, say=str)
    assert [changes["seed"] for changes in prepared] == [8, 9]
    assert not (tmp_path / "model" / commands.SEEDS).exists()


def test_one_run_has_the_fields_as_they_are(tmp_path, prepared):
    fields = seeds_of(tmp_path, 3)
    options = dataclasses.replace(fields["options"], num_seeds=1)
    fields |= {"options": options, "changes": {"as": "given"}}
    found = commands.run(None, None, fields, say=str)
    assert found == {"dev": {"f1": 10.0}} and prepared == [{"as": "given"}]


def test_what_cannot_be_exported_is_said_before_the_training(
    tmp_path, monkeypatch
):
    task = types.SimpleNamespace(spec=lambda: "spec")
    options = make_options(tmp_path, do_train=True, do_export=True)
    monkeypatch.setattr(commands, "load", lambda *a: (task, options))

    class Exporter:
        def check_exportable(self, spec, needed):
            raise UserError(f"{spec} {needed}")

    said = []
    with pytest.raises(UserError, match="spec True"):
        commands.prepare(
            None,
            Exporter(),
            said.append,
            options=options,
            data=None,
            features=None,
            notes=("one", "two"),
        )
    assert said == ["one", "two"]


def test_a_folder_without_a_model_is_no_member(tmp_path):
    options = make_options(tmp_path, do_eval=True, ensemble=("nothing",))
    with pytest.raises(UserError, match="--ensemble: nothing holds no task"):
        commands.run(None, None, {"options": options}, say=str)


def test_the_folder_of_an_ensemble_is_looked_at_before_its_members(tmp_path):
    (tmp_path / "file").write_text("x")
    options = make_options(
        tmp_path,
        do_eval=True,
        ensemble=("nothing",),
        predict_dir=str(tmp_path / "predictions"),
        run={"model_dir": str(tmp_path / "file")},
    )
    with pytest.raises(UserError, match="--model_dir=.* is not a folder"):
        commands.run(None, None, {"options": options}, say=str)
