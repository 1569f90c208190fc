"""Small builds of token streams."""

from data.language_modeling.build import build
from data.language_modeling.manifest import StreamManifest
from data.language_modeling.options import LMDataOptions

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
