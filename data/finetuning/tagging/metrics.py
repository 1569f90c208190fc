"""Scores of tags: chunks by seqeval, single tags by scikit-learn.

Tags with B- and I- (or S-, E-, L-, U-) name chunks, and what counts is chunks
that are right from end to end; other tags (parts of speech) are counted one by
one.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence

from data.finetuning.tagging.examples import (
    CHUNK,
    OUTSIDE,
    TaggedText,
    join_tags,
)

# seqeval's default mode knows the letters of BIOES only.
_SEQEVAL = {"L": "E", "U": "S"}
_WORD = re.compile(r"\w+|[^\w\s]")

Tags = Sequence[Sequence[str]]


def names_chunks(labels: Sequence[str]) -> bool:
    """Whether tags name chunks: "O" and B-x, I-x, ... only."""
    marked = [label for label in labels if label != OUTSIDE]
    return bool(marked) and all(CHUNK.match(label) for label in marked)


def names(chunks: bool) -> tuple[str, ...]:
    """What `evaluate` gives."""
    return ("f1", "accuracy", *(("precision", "recall") if chunks else ()))


def evaluate(gold: Tags, guesses: Tags, chunks: bool) -> dict[str, float]:
    """Accuracy and macro-F1 of tags, over those that gold or guesses have.

    Where the tags name chunks (`names_chunks`), `precision`, `recall` and `f1`,
    too.
    """
    flat, guessed = _flat(gold), _flat(guesses)
    right = sum(g == h for g, h in zip(flat, guessed, strict=True))
    result = {"accuracy": right / max(1, len(flat))}
    if chunks:
        from seqeval import metrics

        rows = _for_seqeval(gold), _for_seqeval(guesses)
        for name in ("precision", "recall", "f1"):
            score = getattr(metrics, f"{name}_score")
            result[name] = float(score(*rows, zero_division=0))
        return result
    from sklearn import metrics as sklearn_metrics

    result["f1"] = float(
        sklearn_metrics.f1_score(
            flat, guessed, average="macro", zero_division=0.0
        )
    )
    return result


def report(gold: Tags, guesses: Tags, chunks: bool) -> str:
    """Precision, recall, F1 and support by class, as a table."""
    if chunks and not {*_flat(gold), *_flat(guesses)} - {OUTSIDE}:
        # seqeval has no table of no class.
        return "no chunk in the texts, none in the answers\n"
    if chunks:
        from seqeval import metrics

        return metrics.classification_report(
            _for_seqeval(gold),
            _for_seqeval(guesses),
            digits=4,
            zero_division=0,
        )
    from sklearn import metrics as sklearn_metrics

    return sklearn_metrics.classification_report(
        _flat(gold), _flat(guesses), digits=4, zero_division=0.0
    )


def character_tags(text: str, spans: Sequence[tuple]) -> list[str]:
    """Spans (start, end, label) as one tag per character.

    So seqeval's chunks are the spans, equal where both ends are.
    """
    tags = [OUTSIDE] * len(text)
    for start, end, label in spans:
        tags[start:end] = [f"I-{label}"] * (end - start)
        tags[start] = f"B-{label}"
    return tags


class MajorityBaseline:
    """Every word's most frequent tag in the training set.

    What a model that looks at one word at a time can reach; an unknown word
    has the most frequent tag of all.
    """

    def __init__(self, examples: Sequence[TaggedText]):
        counts: dict[str, Counter] = defaultdict(Counter)
        total: Counter = Counter()
        for example in examples:
            for (start, end), tag in _words(example):
                counts[example.text[start:end]][tag] += 1
                total[tag] += 1
        # Of equally frequent tags the first by name, so that runs agree.
        self._best = {w: _most_common(c) for w, c in counts.items()}
        self._default = _most_common(total) if total else OUTSIDE

    def guess(self, example: TaggedText) -> list:
        """Tags of the units of a CoNLL text; spans of another."""
        if example.words:
            return [
                self._best.get(example.text[s:e], self._default)
                for s, e in example.units
            ]
        words = _WORD.finditer(example.text)
        tag_of = self._best.get
        return join_tags(
            (m.start(), m.end(), tag_of(m.group(), self._default))
            for m in words
        )


def _words(example: TaggedText):
    """((start, end), tag) of every word."""
    if example.words:
        return zip(example.units, example.tags or (), strict=True)
    spans = [
        (s, e, t)
        for (s, e), t in zip(example.units, example.tags or (), strict=True)
    ]
    tags = character_tags(example.text, spans)
    return [
        ((m.start(), m.end()), tags[m.start()])
        for m in _WORD.finditer(example.text)
    ]


def _most_common(counts: Counter) -> str:
    return min(counts, key=lambda tag: (-counts[tag], tag))


def _for_seqeval(tags: Tags) -> list[list[str]]:
    """Tags with the last (L-) and only (U-) of BILOU as E- and S-."""
    return [
        [
            _SEQEVAL.get(tag[0], tag[0]) + tag[1:] if tag[1:2] == "-" else tag
            for tag in row
        ]
        for row in tags
    ]


def _flat(tags: Tags) -> list[str]:
    return [tag for row in tags for tag in row]
