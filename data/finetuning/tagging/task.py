"""Tagging as a task: file -> pieces (parallel, cached) -> tags -> scores."""

import dataclasses
import json
from collections.abc import Sequence

import numpy as np

from common import workers
from data.finetuning import cache as finetune_cache
from data.finetuning import metrics as finetune_metrics
from data.finetuning import tokens as task_tokens
from data.finetuning.options import FeatureOptions
from data.finetuning.squad.features import TokenizedParagraph
from data.finetuning.tagging import features, metrics
from data.finetuning.tagging.examples import TaggedText
from data.finetuning.tagging.features import TaggingWindows
from data.finetuning.tagging.metrics import MajorityBaseline

HEAD = "token_classification"
# Texts that one worker call handles.
CHUNK_TEXTS = 512


def hash_examples(examples: Sequence[TaggedText]) -> str:
    """Hash of all texts, units and tags."""
    return finetune_cache.hash_texts(
        (e.text, *map(str, e.units), *(e.tags or ())) for e in examples
    )


def tokenize(
    texts: Sequence[str], options: FeatureOptions, tokenizer
) -> tuple[list[TokenizedParagraph], bool]:
    """Pieces of every text, and whether they came from the cache."""

    def make() -> dict[str, np.ndarray]:
        parts = workers.run(
            workers.with_state,
            (
                task_tokens.encode_with_offsets,
                task_tokens.open_tokenizer,
                options.spiece_model_file,
                tokenizer.settings,
            ),
            workers.split_chunks(list(texts), CHUNK_TEXTS),
            options.num_workers,
            ordered=True,
        )
        pieces = [p for part in parts for p in part]
        empty = np.zeros(0, np.int32)
        return {
            "sizes": np.array([len(p.ids) for p in pieces], np.int64),
            **{
                name: np.concatenate(
                    [empty, *(getattr(p, name) for p in pieces)]
                )
                for name in ("ids", "start", "end")
            },
        }

    key = {
        "task": "tagging",
        "data": finetune_cache.hash_texts((t,) for t in texts),
        "spiece": tokenizer.sha256,
        "text": tokenizer.settings.as_dict(),
    }
    arrays, hit = finetune_cache.cached(
        options.cache_dir, "tagging-pieces", key, make
    )
    splits = np.cumsum(arrays["sizes"])[:-1]
    columns = [np.split(arrays[n], splits) for n in ("ids", "start", "end")]
    pieces = [TokenizedParagraph(*row) for row in zip(*columns, strict=True)]
    return pieces[: len(texts)], hit


@dataclasses.dataclass(frozen=True)
class Answers:
    """What a model says about a split.

    Attributes:
      tags: of each text, per unit (CoNLL); () for JSON lines.
      spans: of each text, (start, end, label); () for CoNLL.
      confidence: of each text, probability of the label per unit or span.
    """

    tags: list[list[str]]
    spans: list[list[tuple[int, int, str]]]
    confidence: list[list[float]]


def answer(
    examples: Sequence[TaggedText],
    windows: TaggingWindows,
    logits: np.ndarray,
    labels: Sequence[str],
) -> Answers:
    """Tags or spans of every text from the windows' logits [W, T, Y]."""
    scores = features.piece_scores(windows, logits)
    return answer_pieces(examples, windows.pieces, scores, labels)


def answer_pieces(
    examples: Sequence[TaggedText],
    pieces_of: Sequence[TokenizedParagraph],
    scores: Sequence[np.ndarray],
    labels: Sequence[str],
) -> Answers:
    """Tags or spans of every text from its pieces' logits [pieces, Y]."""
    answers = Answers([], [], [])
    for example, pieces, score in zip(examples, pieces_of, scores, strict=True):
        best = finetune_metrics.softmax(score).max(-1) if len(score) else score
        if example.words:
            chosen = features.word_answers(example, pieces, score)
            places = features.unit_pieces(example.units, pieces)
            answers.tags.append([labels[i] for i in chosen])
            answers.spans.append([])
            starts = places
        else:
            spans = features.span_answers(example, pieces, score, labels)
            answers.tags.append([])
            answers.spans.append(spans)
            starts = features.unit_pieces([s[:2] for s in spans], pieces)
        answers.confidence.append(
            [float(best[p]) if p >= 0 and len(best) else 0.0 for p in starts]
        )
    return answers


def gold_and_guesses(
    examples: Sequence[TaggedText],
    tags: Sequence[Sequence[str]],
    spans: Sequence[Sequence[tuple[int, int, str]]],
) -> tuple[list[list[str]], list[list[str]]]:
    """Tags to compare: per token of CoNLL files, else per character."""
    gold, guesses = [], []
    for example, guess, found in zip(examples, tags, spans, strict=True):
        if example.words:
            gold.append(list(example.tags or ()))
            guesses.append(list(guess))
            continue
        wanted = [
            (s, e, t)
            for (s, e), t in zip(example.units, example.tags or (), strict=True)
        ]
        gold.append(metrics.character_tags(example.text, wanted))
        guesses.append(metrics.character_tags(example.text, found))
    return gold, guesses


def baseline_guesses(
    examples: Sequence[TaggedText], baseline: MajorityBaseline
) -> tuple[list[list[str]], list[list[str]]]:
    """`gold_and_guesses` of the most frequent tag per word."""
    found = [baseline.guess(e) for e in examples]
    return gold_and_guesses(
        examples,
        [g if e.words else [] for e, g in zip(examples, found, strict=True)],
        [[] if e.words else g for e, g in zip(examples, found, strict=True)],
    )


def prediction_text(examples: Sequence[TaggedText], answers: Answers) -> str:
    """The file of predictions, in the layout of the input.

    CoNLL: token, gold tag (where known), guess; JSON lines: `id` (or the row's
    number), `spans` with `confidence`, and `gold` where known.
    """
    lines = []
    for example, tags, spans, sure in zip(
        examples, answers.tags, answers.spans, answers.confidence, strict=True
    ):
        if example.words:
            for i, (start, end) in enumerate(example.units):
                gold = [example.tags[i]] if example.tags else []
                fields = [example.text[start:end], *gold, tags[i]]
                lines.append("\t".join(fields))
            lines.append("")
            continue
        row = {"id": example.guid, "text": example.text}
        row["spans"] = _span_rows(spans, sure)
        if example.tags is not None:
            row["gold"] = [
                {"start": s, "end": e, "label": t}
                for (s, e), t in zip(example.units, example.tags, strict=True)
            ]
        lines.append(json.dumps(row, ensure_ascii=False))
    return "\n".join(lines) + "\n"


def _span_rows(spans, confidence) -> list[dict]:
    return [
        {"start": s, "end": e, "label": t, "confidence": round(p, 6)}
        for (s, e, t), p in zip(spans, confidence, strict=True)
    ]
