"""SQuAD scores: the official definition, hand-made cases, golden evaluations."""

import gzip
import json

import pytest

from data.finetuning.options import SquadDataOptions
from data.finetuning.squad import metrics as squad_metrics
from data.finetuning.squad import predictions as squad_predictions

ANSWERS = {
    "a": ["the Salt Gate", "Salt Gate"],
    "b": ["fifty-two"],
    "c": [],
    "d": ["The", "an"],  # nothing left after normalisation
}


def test_scores_follow_the_definition():
    # a: 2 of 3 predicted tokens right, both gold tokens found: F1 = 4/5.
    predictions = {"a": "old salt gate", "b": "fifty two", "c": "", "d": ""}
    exact, f1 = squad_metrics.raw_scores(ANSWERS, predictions)
    assert exact == {"a": 0, "b": 0, "c": 1, "d": 1}
    assert f1 == {"a": 0.8, "b": 0, "c": 1, "d": 1}
    result = squad_metrics.evaluate(ANSWERS, predictions)
    assert result["exact"] == 50.0
    assert result["f1"] == pytest.approx(100 * 2.8 / 4)
    assert (result["HasAns_total"], result["NoAns_total"]) == (3, 1)


def test_threshold_turns_answers_into_no_answer():
    exact = {"a": 1, "b": 0, "c": 0}
    has = {"a": True, "b": True, "c": False}
    odds = {"a": -1.0, "b": 0.0, "c": 2.0}
    got = squad_metrics.apply_threshold(exact, odds, has, 0.5)
    assert got == {"a": 1, "b": 0, "c": 1.0}
    predictions = {"a": "x", "b": "y", "c": "z"}
    # Nothing answered: 1 right (c). With a answered: 2. c answered: -1.
    best = squad_metrics.best_threshold(predictions, exact, odds, has)
    assert best == (100.0 * 2 / 3, -1.0)


def test_null_odds_up_to_the_official_threshold_keep_the_answer():
    answers = {"a": ["x"], "b": ["y"], "c": []}
    predictions = {"a": "x", "b": "y", "c": "z"}
    odds = {"a": 0.5, "b": 1.0, "c": 1.5}
    result = squad_metrics.evaluate(answers, predictions, odds)
    assert (result["exact"], result["HasAns_exact"]) == (100.0, 100.0)
    result = squad_metrics.evaluate(answers, predictions, odds, 0.75)
    assert (result["HasAns_exact"], result["NoAns_exact"]) == (50.0, 100.0)


def test_best_threshold_is_that_of_the_best_score():
    answers = {"a": ["x"], "b": [], "c": ["y"], "d": []}
    # b is rightly left empty: it costs nothing to answer it.
    predictions = {"a": "x", "b": "", "c": "y", "d": "z"}
    odds = {"a": -2.0, "b": -1.0, "c": 0.5, "d": 3.0}
    result = squad_metrics.evaluate(answers, predictions, odds)
    assert (result["best_exact"], result["best_exact_thresh"]) == (100.0, 0.5)


def test_average_precision_by_hand():
    scores = {"a": 1.0, "b": 0.0, "c": 0.5}
    odds = {"a": -1.0, "b": 0.0, "c": 1.0}
    has = {"a": True, "b": False, "c": True}
    # Precision 1 at recall 1/2, then 1.5 / 3 at recall 3/4.
    assert squad_metrics.average_precision(scores, odds, has) == pytest.approx(
        100 * (1 * 0.5 + 0.5 * 0.25)
    )


def test_no_answerable_question_is_no_division_by_zero():
    assert (
        squad_metrics.has_answer_mean({"a": 1}, {"a": 0.0}, {"a": False}) == 0
    )
    assert (
        squad_metrics.average_precision({"a": 1}, {"a": 0.0}, {"a": False}) == 0
    )
    assert squad_metrics.evaluate({}, {}) == {"exact": 0, "f1": 0, "total": 0}


@pytest.mark.shared
def test_golden_units(golden):
    units = json.loads((golden / "squad/metric_units.json").read_text())
    for case in units["pairs"]:
        gold, answer = case["gold"], case["pred"]
        assert squad_metrics.normalize_answer(gold) == case["normalized_gold"]
        assert squad_metrics.exact_match(gold, answer) == case["exact"]
        assert squad_metrics.f1_score(gold, answer) == case["f1"]
    for case in units["thresholds"]:
        scores, odds, has = case["scores"], case["na_probs"], case["has_ans"]
        best = squad_metrics.best_threshold(case["preds"], scores, odds, has)
        assert list(best) == case["v1"] == case["v2"][:2]
        mean = squad_metrics.has_answer_mean(scores, odds, has)
        assert mean == case["v2"][2]
        applied = squad_metrics.apply_threshold(scores, odds, has, 0.25)
        assert applied == case["applied_0"]


@pytest.fixture(scope="module")
def runs(golden):
    """Golden predictions with their windows and raw results, by run name."""
    squad = golden / "squad"
    features = json.loads(
        gzip.decompress((squad / "features.json.gz").read_bytes())
    )
    predictions = json.loads(
        gzip.decompress((squad / "predictions.json.gz").read_bytes())
    )
    dev = json.loads((squad / "dev.json").read_text())
    questions = {
        qa["id"]: (p["context"], [a["text"] for a in qa["answers"]])
        for article in dev["data"]
        for p in article["paragraphs"]
        for qa in p["qas"]
    }
    return features["runs"], predictions, questions


def golden_windows(features: dict, raw_results: list) -> dict:
    by_id = {r["unique_id"]: r for r in raw_results}
    windows = {e["qas_id"]: [] for e in features["examples"]}
    for feature in features["features"]:
        raw = by_id[feature["unique_id"]]
        question = features["examples"][feature["example_index"]]["qas_id"]
        text = squad_predictions.WindowText(
            feature["tok_start_to_orig_index"],
            feature["tok_end_to_orig_index"],
            feature["token_is_max_context"],
        )
        beams = squad_predictions.WindowBeams(
            raw["start_top_log_probs"],
            raw["start_top_index"],
            raw["end_top_log_probs"],
            raw["end_top_index"],
            raw["cls_logits"],
        )
        windows[question].append((text, beams))
    return windows


@pytest.mark.shared
def test_golden_predictions_and_evaluations_are_exact(runs):
    features, predictions, questions = runs
    corrected = 0
    for run in predictions.values():
        settings = run["settings"]
        windows = golden_windows(
            features[settings["features_run"]], run["raw_results"]
        )
        nbest, odds, fixed = {}, {}, {}
        for question, entries in windows.items():
            paragraph = questions[question][0]
            for skip, into in ((True, nbest), (False, fixed)):
                options = SquadDataOptions(
                    n_best_size=settings["n_best_size"],
                    max_answer_length=settings["max_answer_length"],
                    original_last_token_bug=skip,
                )
                into[question], odds[question] = (
                    squad_predictions.answer_question(
                        paragraph, entries, options
                    )
                )
        assert nbest == run["nbest"]
        assert odds == run["null_odds"]
        texts = squad_predictions.final_answers(nbest, odds)
        assert texts == run["predictions"]
        corrected += sum(fixed[q] != nbest[q] for q in nbest)
        check_evaluation(run, texts, odds, questions)
    # Where the last paragraph token may be in an answer, some lists change.
    assert corrected == 8


def check_evaluation(run, texts, odds, questions):
    answers = {q: golds for q, (_, golds) in questions.items()}
    for threshold, wanted in run["squad_eval"].items():
        got = squad_metrics.evaluate(answers, texts, odds, float(threshold))
        assert got == wanted
    exact, f1 = squad_metrics.raw_scores(answers, texts)
    assert (exact, f1) == (run["ap"]["exact_raw"], run["ap"]["f1_raw"])
    ranked = squad_metrics.ranked_scores(answers, texts, odds)
    for name in ("exact", "f1"):
        assert ranked[f"pr_{name}_ap"] == run["ap"][f"pr_{name}"]["ap"]
        has_ans = run["out_eval"][f"has_ans_{name}"]
        assert ranked[f"has_ans_{name}"] == has_ans


def test_the_threshold_to_apply():
    """Equal odds go one way; answering nothing has a threshold, too."""
    has = {"a": True, "b": True, "c": False}
    odds = {"a": -1.0, "b": 0.0, "c": 2.0}
    find = squad_metrics.applicable_threshold
    assert find({"a": 1, "b": 0, "c": 0}, odds, has) == -0.5
    assert find({"a": 0, "b": 1, "c": 0}, odds, has) == 1.0
    lowest = squad_metrics.LOWEST_THRESHOLD
    assert find({"a": 0, "b": 0, "c": 0}, odds, has) == lowest
    tied = {"a": 0.0, "b": 0.0, "c": 0.0}
    assert find({"a": 1, "b": 1, "c": 0}, tied, has) == 0.5
    # The official search would stop between the two.
    two = {"a": True, "c": False}
    assert find({"a": 1, "c": 0}, {"a": 0.0, "c": 0.0}, two) == lowest
