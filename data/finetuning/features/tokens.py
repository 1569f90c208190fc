"""Texts of a task -> token ids, in parallel, without TensorFlow."""

from collections.abc import Callable, Sequence

import numpy as np

from common.process import workers
from common.vocabularies.text_settings import TextChoice, TextSettings
from data.finetuning.squad.features import TokenizedParagraph
from data.text.opening import AnyTokenizer, open_tokenizer

# Texts that one worker call handles.
CHUNK_TEXTS = 2048


def encode_batch(
    tokenizer: AnyTokenizer, texts: Sequence[str]
) -> list[np.ndarray]:
    """Token ids of each text, int32."""
    return tokenizer.encode_batch(texts)


def encode_with_offsets(
    tokenizer: AnyTokenizer, texts: Sequence[str]
) -> list[TokenizedParagraph]:
    """Token ids of each text with the raw characters they come from."""
    return [
        TokenizedParagraph(*(x.astype(np.int32, copy=False) for x in spans))
        for spans in tokenizer.encode_spans_batch(texts)
    ]


def in_workers(
    call: Callable,
    chunks: Sequence,
    spiece_model_file: str,
    settings: TextChoice | TextSettings | None,
    num_workers: int,
) -> list:
    """`call(tokenizer, chunk)` of every chunk, in their order."""
    state = call, open_tokenizer, spiece_model_file, settings
    return list(
        workers.run(
            workers.with_state,
            state,
            chunks,
            num_workers,
            ordered=True,
            flag="num_proc",
        )
    )


def encode_groups(
    groups: Sequence[Sequence[str]],
    spiece_model_file: str,
    settings: TextChoice | TextSettings | None = None,
    num_workers: int = 1,
) -> list[list[np.ndarray]]:
    """Token ids of groups of texts (the segments of an example).

    Equal texts of a group or of two groups in a row (the passage of RACE's
    questions) are tokenized once.
    """
    texts: list[str] = []
    places: list[list[int]] = []
    recent: dict[str, int] = {}
    for group in groups:
        known: dict[str, int] = {}
        for text in group:
            index = known.get(text, recent.get(text))
            if index is None:
                index = len(texts)
                texts.append(text)
            known[text] = index
        recent = known
        places.append([known[text] for text in group])
    chunks = workers.split_chunks(texts, CHUNK_TEXTS)
    parts = in_workers(
        encode_batch, chunks, spiece_model_file, settings, num_workers
    )
    ids = [array for part in parts for array in part]
    return [[ids[i] for i in group] for group in places]
