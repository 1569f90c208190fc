"""The published metrics from their definition, and files to judge."""

import collections
import json
import re
import string

import numpy as np


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
