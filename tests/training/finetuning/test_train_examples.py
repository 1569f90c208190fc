"""--train_examples: a seeded part of the training data, for every task."""

import dataclasses

import pytest

from common.errors import UserError
from data.finetuning.examples import some_of
from data.finetuning.options import (
    FeatureOptions,
    RaceDataOptions,
    TaggingDataOptions,
)
from tests.helpers.runs import classifier as run_classifier
from tests.helpers.runs import race as run_race
from tests.helpers.runs import squad as run_squad
from tests.helpers.runs.classifier import make_options
from tests.helpers.runs.tagger import write_sentences


def test_parts_are_in_order_seeded_and_nested():
    rows = [f"row {i}" for i in range(500)]
    assert some_of(rows, 0, 3) == rows and some_of(rows, 500, 3) == rows
    few, more = some_of(rows, 50, 3), some_of(rows, 200, 3)
    assert len(few) == 50 and set(few) < set(more)
    assert few == sorted(few, key=rows.index)
    assert some_of(rows, 50, 3) == few != some_of(rows, 50, 4)
    # No end of the file is preferred.
    places = [rows.index(r) for s in range(40) for r in some_of(rows, 50, s)]
    assert sum(places) / len(places) == pytest.approx(249.5, abs=12)
    with pytest.raises(UserError, match="=501: the training data have 500"):
        some_of(rows, 501, 0)


def _options(folder, **changes):
    options = make_options(folder, do_train=True, do_eval=True, **changes)
    strategy = dataclasses.replace(options.run.strategy, seed=7)
    return dataclasses.replace(
        options, run=options.run.replace(strategy=strategy)
    )


@pytest.mark.shared
def test_classification(tmp_path, spiece_model):
    run_classifier.write_task(tmp_path)

    def job(**changes):
        options = _options(tmp_path, **changes)
        return run_classifier.make_job(tmp_path, spiece_model, options)

    part, whole = job(train_examples=12), job()
    assert [len(j.train.examples) for j in (part, whole)] == [12, 30]
    assert part.spec().labels == whole.spec().labels == ("no", "yes")
    # A resumed run cannot have another part; the dev split is as ever.
    hashes = {j.must_match()["train_data"] for j in (part, whole)}
    assert len(hashes) == 2
    assert len(part.lengths(part.evals["dev"])) == 11
    with pytest.raises(UserError, match="=31: the training data have 30"):
        job(train_examples=31)


@pytest.mark.shared
def test_squad_race_and_tags(tmp_path, golden, spiece_model):
    from data.finetuning.race.task import RaceTask
    from data.finetuning.tagging.task import TaggingTask

    options = _options(tmp_path, train_examples=5)
    job = run_squad.make_job(golden, spiece_model, options)
    split = job.read("train", "train")
    whole = run_squad.make_job(golden, spiece_model, _options(tmp_path))
    every = [
        q.question_id for q in whole.read("train", "train").examples.questions
    ]
    found = [q.question_id for q in split.examples.questions]
    assert found == some_of(every, 5, 7) and job.mixture is None
    assert set(split.windows.windows.question) == set(range(5))
    weighted = run_squad.make_job(
        golden,
        spiece_model,
        options,
        train_file=f"{golden}/squad/train.json,{golden}/squad/train.json",
        train_weights=(1.0, 2.0),
    )
    with pytest.raises(UserError, match="leave --train_weights out"):
        weighted.read("train", "train")

    run_race.write_race(tmp_path)
    features = FeatureOptions(spiece_model, 72)
    job = RaceTask(RaceDataOptions(str(tmp_path)), features, options).load()
    assert job.train.table.num_examples == 5
    assert len(job.lengths(job.evals["dev"])) == 12

    write_sentences(tmp_path)
    features = FeatureOptions(spiece_model, 16)
    job = TaggingTask(TaggingDataOptions(str(tmp_path)), features, options)
    assert len(job.read("train", "train").examples) == 5
    assert len(job.read("dev", "eval").examples) == 9
