"""Small builds of token streams."""

import numpy as np

from data.language_modeling.build import build
from data.language_modeling.manifest import StreamManifest
from data.language_modeling.options import LMDataOptions
from data.language_modeling.stream import TokenStream

TEXT = {
    "train": "the Cat sat\n\non the Mat\nthe cat the dog\n" * 9 + "end of it",
    "valid": "the dog sat\n",
    "test": "a cat\nsat\n",
}


def run(folder, name="out", texts=TEXT, **changes) -> StreamManifest:
    """Builds streams of small texts."""
    values = {"output_dir": str(folder / name), "record_tokens": 16}
    if changes.get("dataset", "text") == "text":
        for split, text in texts.items():
            (folder / f"{split}.txt").write_text(text, encoding="utf-8")
            values[f"{split}_glob"] = str(folder / f"{split}.txt")
    return build(LMDataOptions(**(values | changes)), lambda line: None)


def stream(manifest, split) -> list[int]:
    tokens = TokenStream(manifest, split)
    return tokens.read(0, len(tokens)).tolist()


LINES = [f"w{i} w{i * i % 7} w{i % 5} end{i}" for i in range(80)]
TEXTS = {
    "train": "\n".join(LINES) + "\n",
    "valid": "\n".join(LINES[:9]) + "\n",
}


def stream_of(manifest, split="train"):
    tokens = TokenStream(manifest, split)
    return tokens.read(0, len(tokens))


def batches(reader, steps, start=0):
    """`steps` batches from a step on: dict of [steps, B, ...]."""
    number, skip = reader.chunk_of(start)
    chunks = []
    while sum(len(c["reset_memory"]) for c in chunks) < steps + skip:
        chunks.append(reader.chunk(number))
        number += 1
    whole = {k: np.concatenate([c[k] for c in chunks]) for k in chunks[0]}
    return {k: v[skip : skip + steps] for k, v in whole.items()}


def pairs_of(batch):
    """(input, target) of every prediction that counts, row after row."""
    rows = []
    for row in range(batch["input_ids"].shape[1]):
        used = batch["target_weights"][:, row] == 1
        rows.append(
            (
                batch["input_ids"][:, row][used],
                batch["target_ids"][:, row][used],
            )
        )
    return rows
