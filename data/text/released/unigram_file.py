"""What a graph of Unigram needs of a `tokenizer.json`.

XLNet's and ALBERT's files are of this kind: pieces with scores.
"""

from typing import NamedTuple

from data.text.released import marked_file
from data.text.released.marked_file import MarkedFile
from data.text.released.released_tokenizer import ReleasedTokenizer


class UnigramFile(NamedTuple):
    """What the graph needs of a `tokenizer.json`."""

    marked: MarkedFile
    scores: dict[str, tuple[int, float]]  # by piece, with the id
    unknown_score: float


def parse(offline: ReleasedTokenizer) -> UnigramFile:
    """Reads a Unigram `tokenizer.json`.

    Raises UserError: it holds a rule that the graph does not have.
    """
    rules = marked_file.rules_of(offline)
    model = rules["model"]
    if model.get("unk_id") is None:
        marked_file.refuse(offline.path, "a model with an unk_id", "none")
    scores = {piece: (i, s) for i, (piece, s) in enumerate(model["vocab"])}
    marks = marked_file.metaspace(rules, offline.path)
    marked = marked_file.parse(offline, model["unk_id"], marks)
    return UnigramFile(
        # Its texts of ids never begin with a space.
        marked._replace(strip=True),
        {piece: row for piece, row in scores.items() if piece},
        min(score for _, score in model["vocab"]) - 10.0,
    )
