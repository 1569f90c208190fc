"""Embeds texts with a pretrained or fine-tuned encoder.

    python -m serving.embed --checkpoint=DIR --text="..." --output_file=a.npz
    python -m serving.embed --checkpoint=DIR --input_file=lines.txt \\
        --pooling=mean --output_file=vectors.csv

The output's ending says the format: .jsonl and .csv hold one text per line,
.npz arrays. A file that exists is not replaced. With --pooling=none every piece
keeps its vector and its characters `[start, end)` of the raw text.
"""

import csv
import json
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from common import encodings, files, locks
from common.errors import UserError
from flags import app, flag_values
from serving.generation.options import EmbedOptions, ModelOptions

if TYPE_CHECKING:
    from serving.generation.embeddings import Embedded


def main() -> None:
    """The command."""
    options = flag_values.build(EmbedOptions)
    model_options = flag_values.build(ModelOptions)
    texts = _texts(options)
    with locks.new_file(options.output_file, [options.input_file]):
        _embed(texts, options, model_options)


def _embed(
    texts: list[str], options: EmbedOptions, model_options: ModelOptions
) -> None:
    """Writes or prints the vectors; says how many texts were cut."""
    from serving.generation.embeddings import Embedder
    from serving.generation.language_model import load_encoder

    encoder, tokenizer = load_encoder(model_options, options.memory_len)
    try:
        embedder = Embedder(
            encoder, tokenizer, options.max_seq_length, options.layer
        )
    except ValueError as e:
        raise UserError(f"--layer, --max_seq_length: {e}") from e
    vectors = _checked(
        _vectors(embedder, texts, options, model_options.checkpoint)
    )
    if options.output_file:
        ending = os.path.splitext(options.output_file)[1]
        _WRITERS[ending](options.output_file, vectors)
        print(f"{len(texts)} texts in {options.output_file}", file=sys.stderr)
    else:
        for embedded in vectors:
            line = as_json(embedded)
            print(json.dumps(line, ensure_ascii=False), flush=True)
    if embedder.cut:
        print(
            f"{embedder.cut} of {len(texts)} texts were cut: they are longer "
            "than the folder's rule or --max_seq_length reads",
            file=sys.stderr,
        )


def _vectors(embedder, texts, options, checkpoint) -> Iterator:
    """An array [D] of each text, or with pooling "none" its `Embedded`."""
    from serving.generation import sentence_folder

    size = options.embed_batch_size
    rule = None
    if not options.pooling:
        rule = sentence_folder.read(checkpoint, embedder.tokenizer)
    if rule is not None:
        print(f"vectors: {checkpoint} says {rule}", file=sys.stderr)
        return embedder.sentences(texts, rule, size)
    vectors = embedder.embed(texts, size)
    if options.pooling in ("", "none"):
        return vectors
    return (embedded.pooled(options.pooling) for embedded in vectors)


def _checked(found: Iterator) -> Iterator:
    """The same; UserError where a vector is no numbers."""
    from serving.exported import limits

    for number, embedded in enumerate(found):
        pooled = isinstance(embedded, np.ndarray)
        vectors = embedded if pooled else embedded.vectors
        limits.check_output(vectors, f"text {number}")
        yield embedded


def as_json(embedded: "Embedded | np.ndarray") -> dict:
    """One text, pieces or vector, as a JSON object."""
    if isinstance(embedded, np.ndarray):
        return {"vector": _numbers(embedded)}
    return {
        "pieces": embedded.pieces,
        "starts": [int(i) for i in embedded.starts],
        "ends": [int(i) for i in embedded.ends],
        "vectors": [_numbers(v) for v in embedded.vectors],
    }


def _numbers(vector: np.ndarray) -> list[float]:
    return [float(f"{x:.7g}") for x in vector]


def _write_jsonl(path, found):
    with files.atomic_open(path, "w") as f:
        for embedded in found:
            line = as_json(embedded)
            f.write(json.dumps(line, ensure_ascii=False) + "\n")


def _write_csv(path, found):
    """Pooled: text, d0, d1, ...; else text, piece, start, end, d0, d1, ..."""
    with files.atomic_open(path, "w") as f:
        writer = csv.writer(f, lineterminator="\n")
        for number, embedded in enumerate(found):
            pooled = isinstance(embedded, np.ndarray)
            if not number:
                middle = [] if pooled else ["piece", "start", "end"]
                width = len(embedded if pooled else embedded.cls)
                size = [f"d{i}" for i in range(width)]
                writer.writerow(["text", *middle, *size])
            if pooled:
                writer.writerow([number, *_numbers(embedded)])
                continue
            for cells in zip(
                embedded.pieces,
                embedded.starts,
                embedded.ends,
                embedded.vectors,
                strict=True,
            ):
                writer.writerow([number, *cells[:3], *_numbers(cells[3])])


def _write_npz(path, found):
    """Pooled: `vectors` [N, D]; else flat pieces with `row_splits`."""
    rows = list(found)
    if isinstance(rows[0], np.ndarray):
        arrays = {"vectors": np.stack(rows)}
    else:
        splits = np.cumsum([0, *[len(r.pieces) for r in rows]])
        arrays = {
            "row_splits": splits.astype(np.int64),
            "vectors": np.concatenate([r.vectors for r in rows]),
            "starts": np.concatenate([r.starts for r in rows]).astype(np.int64),
            "ends": np.concatenate([r.ends for r in rows]).astype(np.int64),
            "pieces": np.asarray([p for r in rows for p in r.pieces], str),
        }
    with files.atomic_open(path, "wb") as f:
        np.savez(f, **arrays)


_WRITERS = {".jsonl": _write_jsonl, ".csv": _write_csv, ".npz": _write_npz}


def _texts(options) -> list[str]:
    from serving.exported import limits

    if options.text:
        return [
            limits.check_text(t, f"--text[{i}]", options.max_chars)
            for i, t in enumerate(options.text)
        ]
    path = options.input_file
    lines = encodings.read_texts(path, "input_file")
    texts = [
        limits.check_text(text, f"{path}:{number}", options.max_chars)
        for number, text in enumerate(lines, start=1)
    ]
    if not texts:
        raise UserError(f"--input_file={path} is empty")
    return texts


if __name__ == "__main__":
    flag_values.define(ModelOptions)
    flag_values.define(EmbedOptions)
    app.run(main)
