"""A whole run of the released data builder, for parity tests.

Rows of a batch are equal shares of the corpus, the batch advances until one row
runs out; with backward data the second half of the rows is the first one
reversed. Only what the records depend on is here; `data.pretraining.build` is the builder.
"""

import random
from collections.abc import Iterator, Sequence

import numpy as np

from data.pretraining.sampling.original_sampler import sample_mask
from data.text.tokenizer import Tokenizer


def split_a_and_b(
    ids: np.ndarray,
    sentences: np.ndarray,
    begin: int,
    total: int,
    rng: random.Random,
) -> dict | None:
    """The original's A and B of a row.

    Args:
      ids: int [n], one row of the corpus.
      sentences: bool [n], flips where a sentence begins.
      begin: where A starts.
      total: tokens of A and B together.
      rng: advanced as the original advances `random`.

    Returns:
      None where the row is too short; else places `a` (begin, end), `b`, the
      `label` (1 = B follows A) and `new_begin`.
    """
    n = len(ids)
    if begin + total >= n:
        return None
    end, cuts = begin + 1, []
    while end < n:
        if sentences[end] != sentences[end - 1]:
            if end - begin >= total:
                break
            cuts.append(end)
        end += 1
    if not cuts or rng.random() < 0.5:
        label = 0
        a_end = rng.choice(cuts) if cuts else end
        b_len = max(1, total - (a_end - begin))
        b_begin = rng.randint(0, n - 1 - b_len)
        b_end = b_begin + b_len
        while b_begin > 0 and sentences[b_begin - 1] == sentences[b_begin]:
            b_begin -= 1
        while b_end < n - 1 and sentences[b_end - 1] == sentences[b_end]:
            b_end += 1
        new_begin = a_end
    else:
        label = 1
        a_end = rng.choice(cuts)
        b_begin, b_end, new_begin = a_end, end, end
    while a_end - begin + b_end - b_begin > total:
        if a_end - begin > b_end - b_begin:
            a_end -= 1
        else:
            b_end -= 1
    return {
        "a": (begin, a_end),
        "b": (b_begin, b_end),
        "label": label,
        "new_begin": new_begin,
    }


def read_lines(
    lines: Sequence[str], tokenizer: Tokenizer
) -> tuple[np.ndarray, np.ndarray]:
    """Corpus lines -> ids int64 [n] and flipping sentence marks bool [n]."""
    ids, marks, mark = [], [], True
    for line in lines:
        line = line.strip()
        piece_ids = tokenizer.encode(line) if line else [tokenizer.symbols.eod]
        if not line:
            mark = not mark
        ids += piece_ids
        marks += [mark] * len(piece_ids)
        mark = not mark
    return np.asarray(ids, np.int64), np.asarray(marks, bool)


def create_records(
    lines: Sequence[str],
    tokenizer: Tokenizer,
    batch: int,
    seq_len: int,
    reuse_len: int,
    num_predict: int,
    bi_data: bool,
    numpy_seed: int,
    python_seed: int,
    mask_alpha: int = 6,
    mask_beta: int = 1,
) -> Iterator[dict]:
    """The records of one task and pass, in file order.

    Yields:
      `input`, `target`, `seg_id`, `is_masked`, `label` as in the TFRecords.
    """
    state, rng = np.random.RandomState(numpy_seed), random.Random(python_seed)
    ids, marks = read_lines(lines, tokenizer)
    rows = batch // 2 if bi_data else batch
    steps = len(ids) // rows
    ids = ids[: rows * steps].reshape(rows, steps)
    marks = marks[: rows * steps].reshape(rows, steps)
    if bi_data:
        ids = np.concatenate([ids, ids[:, ::-1]])
        marks = np.concatenate([marks, marks[:, ::-1]])
    goals = (num_predict - num_predict // 2, num_predict // 2)
    row_start = 0
    while row_start + seq_len <= steps:
        records = []
        for i in range(batch):
            a_begin = row_start + reuse_len
            total = seq_len - reuse_len - 3
            cut = split_a_and_b(ids[i], marks[i], a_begin, total, rng)
            if cut is None:
                return
            head, tail = _parts(ids[i], row_start, a_begin, cut, tokenizer)
            masked = [
                sample_mask(
                    tokenizer.word_starts[part],
                    state,
                    goal,
                    mask_alpha,
                    mask_beta,
                    reverse=bi_data and i >= rows,
                )
                for part, goal in zip((head, tail), goals, strict=True)
            ]
            records.append(
                _record(ids[i], row_start, a_begin, cut, tokenizer)
                | {
                    "input": np.concatenate([head, tail]).tolist(),
                    "is_masked": np.concatenate(masked).astype(int).tolist(),
                }
            )
        yield from records
        row_start += reuse_len


def _parts(row, row_start: int, a_begin: int, cut: dict, tokenizer: Tokenizer):
    """Ids of the reuse part and of A SEP B SEP CLS."""
    sep, cls = [tokenizer.symbols.sep], [tokenizer.symbols.cls]
    a, b = row[slice(*cut["a"])], row[slice(*cut["b"])]
    return row[row_start:a_begin], np.concatenate([a, sep, b, sep, cls])


def _record(row, row_start: int, a_begin: int, cut: dict, tokenizer: Tokenizer):
    """Next-token targets, segment ids and label; CLS fills the targets."""
    (a, b), cls = (cut["a"], cut["b"]), tokenizer.symbols.cls
    target = [
        row[row_start + 1 : a_begin + 1],
        row[a[0] + 1 : a[1] + 1],
        row[b[0] : b[1] + 1],
        [cls, cls],
    ]
    seg_id = [0] * (a_begin - row_start + a[1] - a[0] + 1)
    seg_id += [1] * (b[1] - b[0] + 1) + [2]
    return {
        "target": np.concatenate(target).tolist(),
        "seg_id": seg_id,
        "label": [cut["label"]],
    }
