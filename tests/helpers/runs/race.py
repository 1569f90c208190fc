"""Toy passages with questions of four options."""

import json

import numpy as np

from tests.helpers.runs.classifier import CONFIG, WORDS


def write_race(folder):
    rng = np.random.default_rng(0)
    for split, files in (("train", 4), ("dev", 3)):
        for level in ("middle", "high"):
            place = folder / split / level
            place.mkdir(parents=True)
            for number in range(files):
                words = rng.choice(WORDS, 30).tolist()
                value = {
                    "article": " ".join(words),
                    "questions": [f"It is _ {number}.", "Which colour?"],
                    "options": [list(WORDS[:4])] * 2,
                    "answers": [str(rng.choice(list("ABCD"))) for _ in "xy"],
                    "id": f"{level}{number}",
                }
                (place / f"{number}.txt").write_text(json.dumps(value))
    (folder / "config.json").write_text(json.dumps(CONFIG))
