"""run_squad.py end to end on the golden files and a toy model."""

import json

import numpy as np
import pytest

from common.errors import UserError
from data.finetuning.options import FeatureOptions, SquadDataOptions
from data.finetuning.squad import metrics as squad_metrics
from tests.helpers.runs.classifier import CONFIG, make_options
from tests.helpers.runs.squad import make_job
from tests.helpers.runs.written_slices import check_written


@pytest.mark.slow
@pytest.mark.shared
def test_train_evaluate_and_write(tmp_path, golden, spiece_model):
    from training.finetuning.driver import Driver

    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    options = make_options(
        tmp_path,
        do_train=True,
        do_eval=True,
        slice_by_length=True,
        run={"eval_batch_size": 16},
    )
    job = make_job(golden, spiece_model, options).load()
    results = Driver(job, options, say=lambda line: None).run()["dev"]
    assert results["total"] == 22
    for name in ("exact", "f1"):
        rows = check_written(tmp_path / "model", results, name)
    assert sum(row["total"] for row in rows) == 22
    used = "null_score_diff_threshold"
    assert {row[used] for row in rows} == {results[used]}
    assert {"exact", "f1", "best_f1", "best_f1_thresh"} <= set(results)
    folder = tmp_path / "model" / "predictions"
    texts, nbest, odds = (
        json.loads((folder / f"{name}.json").read_text())
        for name in ("predictions", "nbest_predictions", "null_odds")
    )
    dev = json.loads((golden / "squad" / "dev.json").read_text())
    answers = {
        qa["id"]: [a["text"] for a in qa["answers"]]
        for article in dev["data"]
        for paragraph in article["paragraphs"]
        for qa in paragraph["qas"]
    }
    # Every question is answered, the Hangul one that the original drops too.
    assert set(texts) == set(nbest) == set(odds) == set(answers)
    assert odds["s6a"] < 1e6
    assert list(texts) == list(answers)  # in file order
    score = squad_metrics.evaluate(answers, texts)
    for name, value in score.items():
        assert results[name] == pytest.approx(value)
    # The threshold is the folder's, and a later prediction's.
    spec = json.loads((tmp_path / "model" / "task.json").read_text())
    kept = spec["data_options"]["null_score_diff_threshold"]
    assert kept == results["null_score_diff_threshold"]


@pytest.mark.shared
def test_answers_from_planted_beams(golden, spiece_model, tmp_path):
    """Beams on the gold tokens give the gold texts, to the last token."""
    from data.finetuning.squad import answers as squad_answers

    options = make_options(tmp_path, do_eval=True)
    job = make_job(golden, spiece_model, options)
    split = job.read("train", "train")
    columns = split.table.columns
    count = split.table.num_rows
    outputs = {
        "start_top_log_probs": np.where(columns["is_impossible"], -9.0, -0.1),
        "start_top_index": columns["start_positions"],
        "end_top_log_probs": np.full(count, -0.1),
        "end_top_index": columns["end_positions"],
        "cls_logits": columns["is_impossible"],
    }
    outputs = {k: np.reshape(v, [count, -1]) for k, v in outputs.items()}
    outputs["cls_logits"] = outputs["cls_logits"][:, 0]
    answers = job.answers(split, outputs)
    metrics = squad_answers.evaluate_answers(split.examples, answers, None)
    # s5b's window split leaves one answer to a window without max context.
    assert metrics["HasAns_f1"] >= 85
    assert answers.predictions["s6a"] == "서울은"
    assert metrics["best_f1"] > metrics["f1"] - 1e-9


@pytest.mark.shared
def test_missing_files_and_lengths(golden, spiece_model, tmp_path):
    options = make_options(tmp_path, do_train=True, do_eval=True)
    for change, message in (
        ({"train_file": ""}, "--do_train needs --train_file"),
        ({"predict_file": ""}, "need --predict_file"),
        ({"max_query_length": 61}, "leaves no room for the paragraph"),
        (
            {"train_file": str(tmp_path / "x.json")},
            "not a file that can be read",
        ),
    ):
        with pytest.raises(UserError, match=message):
            make_job(golden, spiece_model, options, **change).load()
    with pytest.raises(UserError, match="--doc_stride must be >= 1"):
        make_job(golden, spiece_model, options, doc_stride=0)


@pytest.mark.parametrize("length,buckets", [(32, "4,16"), (4, "")])
def test_beams_wider_than_a_batch_are_refused(length, buckets):
    from data.finetuning.squad.task import check_beams

    features = FeatureOptions("x", length, length_buckets=buckets)
    with pytest.raises(UserError, match="5 beams .* found 4"):
        check_beams(SquadDataOptions(), features)
    check_beams(SquadDataOptions(start_n_top=4, end_n_top=4), features)


@pytest.mark.shared
def test_several_training_files_are_drawn_by_weight(
    tmp_path, golden, spiece_model, capsys
):
    train = str(golden / "squad" / "train.json")
    options = make_options(tmp_path, do_train=True)
    job = make_job(
        golden,
        spiece_model,
        options,
        train_file=f"{train},{train}",
        train_weights=(3.0, 1.0),
    ).load()
    assert "75.0% of the rows" in capsys.readouterr().out
    assert job.must_match()["train_weights"] == [3.0, 1.0]
    batch = next(iter(job.batches(job.train, "train")({"batch_size": 4})))
    assert batch["input_ids"].shape == (4, 64)
    alone = make_job(golden, spiece_model, options, train_file=train).load()
    assert alone.must_match()["train_weights"] == []
