"""What is reported is what the published metrics say about what is written."""

import dataclasses
import json

import numpy as np
import pytest

from common.errors import UserError
from data.finetuning.options import FeatureOptions, SquadDataOptions
from data.finetuning.squad import answers as squad_answers
from tests.data.finetuning.squad.published_metrics import (
    published,
    write_dataset,
)
from tests.helpers.runs.classifier import make_options


def make_job(tmp_path, spiece, trained=None, **changes):
    from data.finetuning.squad.task import SquadTask

    data = SquadDataOptions(
        predict_file=str(tmp_path / "dev.json"), max_query_length=12, **changes
    )
    options = make_options(tmp_path, do_eval=True, do_train=trained is None)
    return SquadTask(data, FeatureOptions(spiece, 64), options, trained)


def beams(split, seed=0):
    """Outputs of an imagined model: some right, odds that mean something."""
    rng = np.random.default_rng(seed)
    count = split.table.num_rows
    lengths = split.table.columns["paragraph_length"]
    starts = np.stack([rng.integers(0, lengths) for _ in range(3)], 1)
    ends = starts + rng.integers(0, 4, starts.shape)
    impossible = np.array([not q.answers for q in split.examples.questions])
    odds = (
        rng.normal(0, 2, count)
        + 2.0 * impossible[split.windows.windows.question]
    )
    return {
        "start_top_log_probs": -rng.random(starts.shape),
        "start_top_index": starts,
        "end_top_log_probs": -rng.random(ends.shape),
        "end_top_index": ends,
        "cls_logits": odds.astype(np.float32),
    }


def evaluate(job, folder):
    """eval_dev's numbers and the files, without a model."""
    split = job.read("dev", "predict")
    outputs = beams(split)
    metrics = job.metrics(split, outputs, {})
    found = {}
    if split.finds_threshold:
        found = job.calibrate(split, outputs, {})
    folder.mkdir(exist_ok=True)
    job.write(split, outputs, str(folder))
    texts = {
        name: json.loads((folder / f"{name}.json").read_text())
        for name in ("predictions", "nbest_predictions", "null_odds")
    }
    return metrics, found, texts


@pytest.mark.long
@pytest.mark.shared
def test_numbers_are_those_of_the_written_file(tmp_path, spiece_model):
    dataset = write_dataset(tmp_path / "dev.json")
    scores = {}
    for threshold in (None, -1.5, 0.25, 4.0):
        job = make_job(
            tmp_path, spiece_model, null_score_diff_threshold=threshold
        )
        metrics, found, files = evaluate(job, tmp_path / "out")
        wanted = published(dataset, files["predictions"], True)
        for name, value in wanted.items():
            assert metrics[name] == pytest.approx(value), (threshold, name)
        scores[threshold] = metrics["f1"]
        # The three files say the same.
        used = metrics["null_score_diff_threshold"]
        assert threshold in (None, used)
        for question, odds in files["null_odds"].items():
            best = files["nbest_predictions"][question][0]["text"]
            answer = "" if odds > used else best
            assert files["predictions"][question] == answer
        # The search does not depend on what was written.
        assert found["null_score_diff_threshold"] == pytest.approx(
            scores_threshold(tmp_path, spiece_model)
        )
        assert metrics["best_f1"] <= scores[None]
    assert max(scores.values()) == scores[None]
    # No other threshold writes a better file.
    for at in list(files["null_odds"].values()) + [-1e9]:
        written = {
            q: "" if files["null_odds"][q] > at else best[0]["text"]
            for q, best in files["nbest_predictions"].items()
        }
        assert published(dataset, written, True)["f1"] <= scores[None] + 1e-9
    assert len(set(scores.values())) == 4
    order = [
        p["qas"][0]["id"] for a in dataset["data"] for p in a["paragraphs"]
    ]
    assert order != sorted(order)
    assert all(list(content) == order for content in files.values())


def scores_threshold(tmp_path, spiece_model):
    job = make_job(tmp_path, spiece_model)
    split = job.read("dev", "predict")
    answers = job.answers(split, beams(split))
    return squad_answers.best_threshold(split.examples, answers)


@pytest.mark.shared
def test_a_kept_threshold_is_used_where_nothing_is_found(
    tmp_path, spiece_model
):
    """Prediction takes the folder's; v1.1 files have an answer everywhere."""
    write_dataset(tmp_path / "dev.json")
    trained = make_job(tmp_path, spiece_model).spec()
    trained = dataclasses.replace(
        trained,
        data_options=trained.data_options | {"null_score_diff_threshold": 0.5},
    )
    job = make_job(tmp_path, spiece_model, trained)
    split = job.read("dev", "predict")
    assert job.threshold_of(split.examples) == 0.5
    assert job.objective_options()["max_answer_length"] == 64
    job = make_job(
        tmp_path, spiece_model, trained, null_score_diff_threshold=2.0
    )
    assert job.threshold_of(split.examples) == 2.0
    assert job.export_options() == {"null_score_diff_threshold": 2.0}
    dataset = write_dataset(tmp_path / "dev.json", version_2=False)
    job = make_job(tmp_path, spiece_model, trained)
    metrics, found, files = evaluate(job, tmp_path / "out")
    assert found == {} and files["predictions"] == {
        q: best[0]["text"] for q, best in files["nbest_predictions"].items()
    }
    assert metrics == pytest.approx(
        published(dataset, files["predictions"], False)
    )
    # A test set without answers says neither: the threshold counts.
    for paragraph in dataset["data"][0]["paragraphs"]:
        paragraph["qas"][0]["answers"] = []
    (tmp_path / "dev.json").write_text(json.dumps(dataset))
    job = make_job(tmp_path, spiece_model, trained)
    split = job.read("dev", "predict")
    assert job.threshold_of(split.examples) == 0.5
    with pytest.raises(UserError, match="has no answers to evaluate on"):
        job.load()


@pytest.mark.shared
def test_only_the_dev_file_of_the_training_finds_a_threshold(
    tmp_path, spiece_model, capsys
):
    """Another 2.0 file is judged with the kept one and changes nothing."""
    dataset = write_dataset(tmp_path / "dev.json")
    spec = make_job(tmp_path, spiece_model).spec()
    assert spec.data_options["dev_data"]
    content = (tmp_path / "dev.json").read_bytes()
    for kept in (0.5, None):
        options = spec.data_options | {"null_score_diff_threshold": kept}
        trained = dataclasses.replace(spec, data_options=options)
        (tmp_path / "dev.json").write_bytes(content)
        job = make_job(tmp_path, spiece_model, trained)
        job.load()
        assert "note" not in capsys.readouterr().out
        _, found, _ = evaluate(job, tmp_path / "out")
        assert found["null_score_diff_threshold"] not in (0.5, None)
        dataset["data"][0]["paragraphs"][0]["qas"][0]["question"] = f"{kept}?"
        (tmp_path / "dev.json").write_text(json.dumps(dataset))
        job = make_job(tmp_path, spiece_model, trained)
        job.load()
        said = capsys.readouterr().out
        assert "dev.json is not the dev file of the training" in said
        metrics, found, files = evaluate(job, tmp_path / "out")
        assert found == {} and job.spec() == trained
        assert metrics.get("null_score_diff_threshold") == kept
        for question, odds in files["null_odds"].items():
            best = files["nbest_predictions"][question][0]["text"]
            empty = kept is not None and odds > kept
            assert files["predictions"][question] == ("" if empty else best)
        wanted = published(dataset, files["predictions"], True)
        for name, value in wanted.items():
            assert metrics[name] == pytest.approx(value)
