"""run_race.py end to end on toy passages, with and without recurrence."""

import json

import pytest

from common.errors import UserError
from data.finetuning.examples import BadRows
from data.finetuning.options import FeatureOptions, RaceDataOptions
from data.finetuning.race import examples as race_examples
from data.finetuning.race import examples as race_features
from serving.export import export_model
from serving.saved_model import SavedModel
from tests.helpers.runs.classifier import make_options, read_rows
from tests.helpers.runs.race import write_race
from tests.helpers.runs.written_slices import check_written


def run(folder, spiece, options, features=None, **data):
    from data.finetuning.race.task import RaceTask
    from training.finetuning.driver import Driver

    job = RaceTask(
        RaceDataOptions(str(folder), max_qa_length=12, **data),
        features or FeatureOptions(spiece, 40),
        options,
    ).load()
    return Driver(
        job, options, export=export_model, say=lambda line: None
    ).run()


def check_answers(loaded, folder, predicted):
    """The exported model chooses what the prediction file says."""
    assert len(predicted) == 12
    for guid, choice, *_ in predicted:
        level, number, question = guid.split("/")
        value = json.loads((folder / level / f"{number}.txt").read_text())
        found = loaded(
            {
                "passage": [value["article"]],
                "question": [value["questions"][int(question)]],
                "options": [value["options"][int(question)]],
            }
        )
        assert "ABCD"[found["choice"][0]] == choice


def test_questions_options_and_levels(tmp_path):
    write_race(tmp_path)
    examples = race_examples.read_race(str(tmp_path), "dev", BadRows())
    assert [e.guid for e in examples[:3]] == [
        "middle/0/0",
        "middle/0/1",
        "middle/1/0",
    ]
    assert examples[0].options[1] == "It is green 0."
    assert examples[1].options[2] == "Which colour? tower"
    high = race_examples.read_race(str(tmp_path), "dev", BadRows(), ("high",))
    assert {e.level for e in high} == {"high"}
    assert len(high) == 6
    assert race_features.question_with_option("a _ b _", "x") == "a x b x"


def test_bad_files_are_named(tmp_path):
    write_race(tmp_path)
    path = tmp_path / "dev" / "high" / "1.txt"
    good = json.loads(path.read_text())
    few = [["a"] * 4, ["a"] * 3]
    for change, message, left in (
        ({"answers": ["A", "E"]}, "question 1: wanted A, B, C or D", 11),
        ({"answers": ["A"]}, "wanted 2 'answers'", 10),
        ({"options": few}, "question 1: wanted 4 strings", 11),
        ({"article": ""}, "non-empty string 'article'", 10),
    ):
        path.write_text(json.dumps(good | change))
        with pytest.raises(UserError, match=f"1.txt:1: .*{message}"):
            race_examples.read_race(str(tmp_path), "dev", BadRows())
        bad = BadRows(skip=True)
        assert len(race_examples.read_race(str(tmp_path), "dev", bad)) == left
        assert bad.count == 1
    with pytest.raises(UserError, match="no folder test/middle"):
        race_examples.read_race(str(tmp_path), "test", BadRows())


@pytest.mark.shared
def test_only_one_level_at_a_time(tmp_path):
    with pytest.raises(UserError, match="one of --high_only"):
        RaceDataOptions(str(tmp_path), high_only=True, middle_only=True)


@pytest.mark.slow
@pytest.mark.shared
@pytest.mark.parametrize("recurrence", [0, 3])
def test_train_evaluate_predict(tmp_path, spiece_model, recurrence):
    write_race(tmp_path)
    length = 24 if recurrence else 72
    features = FeatureOptions(
        spiece_model, length, segment_recurrence=recurrence
    )
    options = make_options(
        tmp_path,
        do_train=True,
        do_eval=True,
        do_predict=True,
        slice_by_length=True,
    )
    results = run(tmp_path, spiece_model, options, features)["dev"]
    check_written(tmp_path / "model", results, "accuracy")
    both = (results["accuracy_middle"] + results["accuracy_high"]) / 2
    assert results["accuracy"] == pytest.approx(both)
    rows = read_rows(tmp_path / "model/predictions/dev_predictions.tsv")
    assert len(rows) == 13
    assert all(r[1] in "ABCD" for r in rows[1:])
    if recurrence:
        exporting = make_options(tmp_path, do_export=True)
        run(tmp_path, spiece_model, exporting, features)
        loaded = SavedModel(str(tmp_path / "model/export/1"))
        check_answers(loaded, tmp_path / "dev", rows[1:])
