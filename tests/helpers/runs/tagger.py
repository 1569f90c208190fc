"""Toy sentences with tags."""

import json

import numpy as np

from tests.helpers.runs.classifier import CONFIG, WORDS

COLOURS = ("red", "green")


def write_sentences(folder, kind="conll"):
    """Colours are B-COL; what follows "tower" is one phrase with it."""
    rng = np.random.default_rng(0)
    for split, count in (("train", 40), ("dev", 9)):
        lines = []
        for _ in range(count):
            words = rng.choice(WORDS, rng.integers(2, 30)).tolist()
            tags = ["B-COL" if w in COLOURS else "O" for w in words]
            if kind == "conll":
                pairs = zip(words, tags, strict=True)
                lines += [f"{w}\t{t}" for w, t in pairs] + [""]
                continue
            at, spans = 0, []
            for word in words:
                if word in COLOURS:
                    spans.append(
                        {"start": at, "end": at + len(word), "label": "COL"}
                    )
                at += len(word) + 1
            lines.append(json.dumps({"text": " ".join(words), "spans": spans}))
        (folder / f"{split}.{kind}").write_text("\n".join(lines) + "\n")
    (folder / "config.json").write_text(json.dumps(CONFIG))
