"""A SQuAD file with its windows: made in parallel, or read from the cache."""

import dataclasses

import numpy as np

from common.contract.symbols import CLS_LAST
from common.process import workers
from common.vocabularies import vocabulary as vocabulary_lib
from data.finetuning.features import cache as finetune_cache
from data.finetuning.features import table as finetune_table
from data.finetuning.features import tokens as task_tokens
from data.finetuning.features.table import FeatureTable
from data.finetuning.options import (
    FeatureOptions,
    SquadDataOptions,
    require_paragraph_room,
)
from data.finetuning.squad import features as squad_features
from data.finetuning.squad.examples import SquadFile, SquadQuestion
from data.finetuning.squad.features import (
    AnswerSpan,
    SquadWindows,
    TokenizedParagraph,
)

# Paragraphs that one worker call handles.
CHUNK_PARAGRAPHS = 64


@dataclasses.dataclass(frozen=True)
class SquadSplit:
    """A file with its features."""

    file: SquadFile
    windows: SquadWindows
    paragraphs: list[TokenizedParagraph]
    from_cache: bool


def build_split(
    file: SquadFile,
    features: FeatureOptions,
    options: SquadDataOptions,
    training: bool,
) -> SquadSplit:
    """Tokenizes and windows a file, in parallel, or reads them from the cache.

    Raises UserError: no room for the paragraph beside the longest question.
    """
    require_paragraph_room(
        features.max_seq_length, options.max_query_length, features.layout
    )
    vocabulary = vocabulary_lib.read(features.spiece_model_file)
    key = {
        "task": "squad",
        "data": hash_file(file),
        "spiece": vocabulary.sha256,
        "text": vocabulary.resolve(features.text).as_dict(),
        "max_seq_length": features.max_seq_length,
        "max_query_length": options.max_query_length,
        "doc_stride": options.doc_stride,
        "training": training,
    }
    if features.layout != CLS_LAST:  # older files are of this one
        key["layout"] = features.layout
    arrays, hit = finetune_cache.cached(
        features.cache_dir,
        "squad-train" if training else "squad-eval",
        key,
        lambda: build_arrays(file, features, options, training),
    )
    windows, paragraphs = from_arrays(arrays)
    return SquadSplit(file, windows, paragraphs, hit)


def hash_file(file: SquadFile) -> str:
    """Hash of all paragraphs, questions and answers."""
    return finetune_cache.hash_texts(
        [*file.paragraphs, *map(_hashed, file.questions)]
    )


def _hashed(question: SquadQuestion) -> tuple:
    """Its fields, without an `answer_end` that is no news.

    Runs and caches of before the field go on.
    """
    values = dataclasses.astuple(question)
    usual = question.answer_start + len(question.answer)
    return values[:-1] if question.answer_end in (None, usual) else values


def build_arrays(
    file: SquadFile,
    features: FeatureOptions,
    options: SquadDataOptions,
    training: bool,
) -> dict[str, np.ndarray]:
    """All features of a file as named arrays; the same for any worker count."""
    by_paragraph: list[list[tuple]] = [[] for _ in file.paragraphs]
    for index, question in enumerate(file.questions):
        first, last = -1, -1
        if training and question.answerable:
            first = question.answer_start
            end = question.answer_end
            last = (end or first + len(question.answer)) - 1
        by_paragraph[question.paragraph].append(
            (index, question.text, first, last)
        )
    items = list(zip(file.paragraphs, by_paragraph, strict=True))
    settings = (
        features.max_seq_length,
        options.max_query_length,
        options.doc_stride,
        training,
        features.layout,
    )
    chunks = [
        (settings, chunk)
        for chunk in workers.split_chunks(items, CHUNK_PARAGRAPHS)
    ]
    parts = task_tokens.in_workers(
        _chunk_arrays,
        chunks,
        features.spiece_model_file,
        features.text,
        features.num_workers,
    )
    return {
        name: np.concatenate([part[name] for part in parts])
        for name in parts[0]
    }


def _chunk_arrays(tokenizer, job) -> dict[str, np.ndarray]:
    (*lengths, training, layout), items = job
    max_seq_length, max_query_length, doc_stride = lengths
    builder = squad_features.WindowBuilder(
        max_seq_length,
        max_query_length,
        doc_stride,
        tokenizer.symbols,
        training,
        layout,
    )
    texts = [q[1] for _, questions in items for q in questions]
    queries = iter(task_tokens.encode_batch(tokenizer, texts))
    tokenized = task_tokens.encode_with_offsets(
        tokenizer, [paragraph for paragraph, _ in items]
    )
    for paragraph, (_, questions) in zip(tokenized, items, strict=True):
        for index, _, first, last in questions:
            span = AnswerSpan(first, last) if first >= 0 else None
            builder.add(index, next(queries), paragraph, span)
    windows = builder.finish()
    lengths = [len(p.ids) for p in tokenized]
    arrays = {
        "token_ids": windows.table.token_ids,
        "segment_ids": windows.table.segment_ids,
        "row_lengths": np.diff(windows.table.row_splits),
        "question": windows.question,
        "doc_start": windows.doc_start,
        "paragraph_ids": np.concatenate([p.ids for p in tokenized]),
        "paragraph_starts": np.concatenate([p.start for p in tokenized]),
        "paragraph_ends": np.concatenate([p.end for p in tokenized]),
        "paragraph_lengths": np.array(lengths, np.int32),
    }
    for name, column in windows.table.columns.items():
        arrays[f"column:{name}"] = column
    return arrays


def from_arrays(
    arrays: dict[str, np.ndarray],
) -> tuple[SquadWindows, list[TokenizedParagraph]]:
    """The opposite of `build_arrays`."""
    splits = np.concatenate([[0], np.cumsum(arrays["row_lengths"])])
    table = FeatureTable(
        arrays["token_ids"],
        arrays["segment_ids"],
        splits.astype(np.int64),
        finetune_table.with_prefix(arrays, "column:"),
        **squad_features.padding("column:paragraph_start" in arrays),
    )
    windows = SquadWindows(table, arrays["question"], arrays["doc_start"])
    ends = np.cumsum(arrays["paragraph_lengths"], dtype=np.int64)
    starts = ends - arrays["paragraph_lengths"]
    paragraphs = [
        TokenizedParagraph(
            arrays["paragraph_ids"][a:b],
            arrays["paragraph_starts"][a:b],
            arrays["paragraph_ends"][a:b],
        )
        for a, b in zip(starts, ends, strict=True)
    ]
    return windows, paragraphs
