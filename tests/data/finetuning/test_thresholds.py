"""Thresholds: where they are found, of which weights they are, and who keeps."""

import dataclasses

import pytest

from common.contract.task_spec import TaskSpec
from common.vocabularies.text_settings import TextSettings
from data.finetuning import task_settings, thresholds
from data.finetuning.classifier.sets import THRESHOLD
from data.finetuning.classifier.task import ClassifierTask
from tests.helpers.runs.classifier_outputs import (
    keeping,
    make_owner,
    outputs_and_labels,
)

SPAN, LABEL = thresholds.NAMES


def spec(**data_options):
    text = TextSettings()
    return TaskSpec("x", "span", (), 8, text, "0", {}, data_options)


def test_those_of_other_weights_are_said_and_left_out():
    best = "best/model.ckpt-2"
    kept = thresholds.replace(spec(doc_stride=3), {SPAN: -1.5}, best)
    assert kept.data_options[thresholds.WEIGHTS] == best
    assert thresholds.for_weights(kept, best) == ({SPAN: -1.5}, [])
    found, lines = thresholds.for_weights(kept, "model.ckpt-4")
    assert found == {} and lines == [
        f"note: {SPAN}=-1.5 was found with {best}: not used with model.ckpt-4; "
        "--do_eval finds one"
    ]


def test_files_without_the_name_of_the_weights():
    old = spec(**{LABEL: 0.25})
    assert thresholds.for_weights(old, "model.ckpt-4") == ({LABEL: 0.25}, [])
    assert thresholds.for_weights(spec(), "a") == ({}, [])
    assert thresholds.for_weights(None, "a") == ({}, [])


def test_replacing_leaves_nothing_of_the_old_one():
    kept = thresholds.replace(spec(n=1), {LABEL: 0.25}, "a")
    bare = thresholds.replace(kept, {})
    assert thresholds.of(bare) == {} and bare.data_options["n"] == 1
    assert thresholds.WEIGHTS not in bare.data_options
    other = thresholds.replace(kept, {LABEL: 0.75}, "b")
    assert thresholds.for_weights(other, "b")[0] == {LABEL: 0.75}


def trained_spec(folder, spiece):
    """task.json of a training in the folder, which evaluated nothing."""
    owner, _ = make_owner(folder, spiece, actions=("do_train",))
    return owner.load().spec()


def test_dev_finds_a_threshold_and_test_takes_it(tmp_path, spiece_model):
    spec = trained_spec(tmp_path, spiece_model)
    owner, _ = make_owner(tmp_path, spiece_model, spec, ("do_eval",))
    dev = owner.load()
    found = dev.calibrate(dev.evals["dev"], *outputs_and_labels(dev))
    assert found == {THRESHOLD: pytest.approx(0.3)}
    for kept, wanted in ((None, 0.5), (0.95, 0.95)):
        spec = dev.spec() if kept is None else keeping(dev, kept)
        owner, _ = make_owner(
            tmp_path, spiece_model, spec, ("do_eval",), eval_split="test"
        )
        test = owner.load().evals["test"]
        assert not test.finds_threshold
        metrics = owner.metrics(test, *outputs_and_labels(dev))
        assert metrics[THRESHOLD] == wanted
        assert metrics["best_micro_f1"] == (
            metrics["micro_f1"] if kept is None else 0.0
        )


def test_only_the_dev_file_of_the_training_finds_a_threshold(
    tmp_path, spiece_model, capsys
):
    """Its content counts: a copy is it, another file of its name is not."""
    (tmp_path / "one").mkdir()
    kept = {THRESHOLD: 0.95}
    spec = trained_spec(tmp_path / "one", spiece_model)
    spec = dataclasses.replace(spec, data_options=spec.data_options | kept)
    dev = (tmp_path / "one" / "dev.tsv").read_text()

    def evaluated(name, text):
        folder = tmp_path / name
        folder.mkdir()
        owner, _ = make_owner(folder, spiece_model, spec, ("do_eval",))
        (folder / "dev.tsv").write_text(text)
        job = owner.load()
        found = job.metrics(job.evals["dev"], *outputs_and_labels(job))
        return job, found[THRESHOLD], capsys.readouterr().out

    job, used, said = evaluated("copy", dev)
    assert used == pytest.approx(0.3) and "note" not in said
    assert job.evals["dev"].finds_threshold
    job, used, said = evaluated("other", dev.replace("red 0", "red 9"))
    assert used == 0.95 and not job.evals["dev"].finds_threshold
    assert "other/dev.tsv is not the dev file of the training" in said
    assert "threshold is kept (0.95)" in said
    # The folder keeps both, whatever was evaluated.
    assert job.spec().data_options.items() >= kept.items()
    assert (
        job.spec().data_options[task_settings.DEV_DATA]
        == spec.data_options[task_settings.DEV_DATA]
    )


def test_a_later_export_has_the_kept_threshold(tmp_path, spiece_model):
    owner, _ = make_owner(tmp_path, spiece_model, actions=("do_eval",))
    spec = keeping(owner.load(), 0.3)
    owner, _ = make_owner(tmp_path, spiece_model, spec, ("do_export",))
    assert owner.load().spec().data_options[THRESHOLD] == 0.3
    # What is given is of the export alone, as without a kept one.
    owner, _ = make_owner(
        tmp_path, spiece_model, spec, ("do_export",), label_threshold=0.7
    )
    job = owner.load()
    assert job.spec().data_options[THRESHOLD] == 0.3
    assert job.export_options() == {THRESHOLD: 0.7}


def test_which_thresholds_are_kept(tmp_path, spiece_model):
    owner, _ = make_owner(tmp_path, spiece_model, actions=("do_train",))
    job = owner.load()
    assert thresholds.keep(job.spec(), None) == job.spec()
    name = task_settings.THRESHOLD
    for value in (None, -1.5):
        data_options = job.spec().data_options | {name: value}
        earlier = dataclasses.replace(job.spec(), data_options=data_options)
        kept = thresholds.keep(job.spec(), earlier).data_options
        assert kept.get(name) == value


def trained_owner(folder, spiece, owner):
    """The job of a training on the files as they are now."""
    again = ClassifierTask(owner.data, owner.features, owner.options)
    return again.load()


def test_training_again_without_a_dev_file_keeps_which_it_was(
    tmp_path, spiece_model
):
    spec = trained_spec(tmp_path, spiece_model)
    name = task_settings.DEV_DATA
    assert spec.data_options[name]
    owner, _ = make_owner(tmp_path, spiece_model, actions=("do_train",))
    (tmp_path / "dev.tsv").write_text("text\tlabel\nnew\tr\n")
    other = trained_owner(tmp_path, spiece_model, owner)
    assert other.spec().data_options[name] != spec.data_options[name]
    kept = thresholds.keep(other.spec(), spec).data_options
    assert kept[name] == other.spec().data_options[name]
    (tmp_path / "dev.tsv").unlink()
    none = trained_owner(tmp_path, spiece_model, owner)
    assert name not in none.spec().data_options
    assert (
        thresholds.keep(none.spec(), spec).data_options[name]
        == (spec.data_options[name])
    )
