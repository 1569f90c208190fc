"""What is reported is what the published metrics say about what is written."""

import collections
import dataclasses
import json
import re
import string

import numpy as np
import pytest

from common.errors import UserError
from data.finetuning.examples import BadRows
from data.finetuning.options import FeatureOptions, SquadDataOptions
from data.finetuning.squad import answers as squad_answers
from data.finetuning.squad import examples as squad_examples
from data.finetuning.squad import metrics as squad_metrics
from data.finetuning.squad.examples import SquadFile, SquadQuestion
from data.finetuning.squad.features import TokenizedParagraph
from data.text.tokenizer import WORD_MARK, Tokenizer
from tests.data.finetuning.squad.original_spans import original_spans
from tests.helpers.runs.classifier import make_options


def published(dataset: dict, predictions: dict, version_2: bool) -> dict:
    """Exact match and F1 of a predictions file, from their definition.

    Written from the description of the metrics, apart from the code under
    test: lower case, no punctuation, no articles, single spaces; tokens in
    common; the best of the gold answers; in 2.0 an empty text for questions
    without answer, and questions without a prediction are left out; in 1.1
    they count as 0.
    """

    def tokens(text):
        text = "".join(c for c in text.lower() if c not in string.punctuation)
        return re.sub(r"\b(a|an|the)\b", " ", text).split()

    def f1(gold, guess):
        gold, guess = tokens(gold), tokens(guess)
        if version_2 and not (gold and guess):
            return float(gold == guess)
        rest, same = list(gold), 0
        for token in guess:
            if token in rest:
                rest.remove(token)
                same += 1
        return 2 * same / (len(gold) + len(guess)) if same else 0.0

    totals = collections.Counter()
    for article in dataset["data"]:
        for paragraph in article["paragraphs"]:
            for qa in paragraph["qas"]:
                golds = [a["text"] for a in qa["answers"]]
                if version_2:
                    if qa["id"] not in predictions:
                        continue
                    golds = [g for g in golds if tokens(g)] or [""]
                totals["total"] += 1
                guess = predictions.get(qa["id"])
                if guess is None:
                    continue
                totals["exact"] += max(
                    tokens(g) == tokens(guess) for g in golds
                )
                totals["f1"] += max(f1(g, guess) for g in golds)
    count = totals["total"]
    return {
        "exact": 100 * totals["exact"] / count,
        "f1": 100 * totals["f1"] / count,
        "total": count,
    }


def write_dataset(path, count=300, version_2=True, seed=3):
    """One paragraph per question; every third has no answer."""
    rng = np.random.default_rng(seed)
    words = ["the", "red", "tower", "of", "1998", "river,", "An", "winter."]
    paragraphs = []
    for number in range(count):
        text = " ".join(rng.choice(words, 30))
        start = int(rng.integers(0, 20))
        begin = text.index(text.split()[start])
        answer = " ".join(text[begin:].split()[: int(rng.integers(1, 5))])
        qa = {"id": f"q{(number * 7919) % 1000:03d}", "question": "Which one?"}
        impossible = version_2 and number % 3 == 0
        if version_2:
            qa["is_impossible"] = impossible
        answers = (
            [] if impossible else [{"text": answer, "answer_start": begin}]
        )
        paragraphs.append({"context": text, "qas": [qa | {"answers": answers}]})
    value = {"data": [{"title": "x", "paragraphs": paragraphs}]}
    path.write_text(json.dumps(value))
    return value


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


def test_unusable_questions_of_version_1_count_as_wrong(tmp_path):
    dataset = write_dataset(tmp_path / "dev.json", 10, version_2=False)
    qas = [p["qas"][0] for p in dataset["data"][0]["paragraphs"]]
    qas[3]["question"] = "  "
    (tmp_path / "dev.json").write_text(json.dumps(dataset))
    file = squad_examples.read_squad(
        str(tmp_path / "dev.json"), False, BadRows(skip=True)
    )
    right = {q.question_id: q.answer for q in file.questions}
    answers = squad_answers.SquadAnswers(
        right,
        {q: [{"text": t}] for q, t in right.items()},
        dict.fromkeys(right, 0.0),
    )
    got = squad_answers.evaluate_answers(file, answers, None)
    assert got == published(dataset, right, False)
    assert got == {"exact": 90.0, "f1": 90.0, "total": 10}


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


@pytest.mark.shared
def test_a_lone_mark_before_the_text_is_its_first_letter(spiece_model):
    from common.contract import symbols
    from data.finetuning.squad import features as squad_features

    tokenizer = Tokenizer(spiece_model)
    texts = ["Xq zebra", "京都は日本の", "½ cup", "Ωmega, q  x", "  Hello"]
    lone = 0
    for text in texts:
        ids, start, end = tokenizer.encode_spans(text)
        tokens = TokenizedParagraph(ids, start, end)
        builder = squad_features.WindowBuilder(
            32, 4, 8, tokenizer.symbols, False
        )
        builder.add(0, [7], tokens)
        windows = squad_features.window_texts(builder.finish(), [tokens], [0])
        marked = [tokenizer.id_to_piece(int(i))[0] == WORD_MARK for i in ids]
        first, last = original_spans(tokens, marked)
        found = windows[0][1]
        for i in range(len(ids)):
            for j in range(i, len(ids)):
                ours = text[found.token_start[i] : found.token_end[j] + 1]
                wanted = text[first[i] : last[j] + 1].strip()
                assert ours.strip() == wanted, (text, i, j)
        if start[0] == end[0] == 0:
            lone += 1
            assert (
                text[found.token_start[0] : found.token_end[0] + 1] == text[0]
            )
    assert lone == 4
    assert symbols.SEGMENT_A == 0


def test_gold_answers_of_a_file():
    question = SquadQuestion("q", "?", 0, ("a",), 0, True)
    assert SquadFile(("p",), (question,), False).labelled
    bare = SquadQuestion("q", "?", 0, (), -1, True)
    assert not SquadFile(("p",), (bare,), False).labelled
    assert SquadFile(("p",), (bare,), True).labelled
