"""What a graph of BPE by characters needs of a `tokenizer.json`.

Files of SentencePiece's BPE are of this kind (Gemma, Llama, and the encoders
that took their tokenizers): characters, marks in the place of spaces, bytes for
characters without a piece.
"""

from typing import NamedTuple

from common.vocabularies.frames import rule_parts
from data.text.released import bpe_file, marked_file
from data.text.released.marked_file import MarkedFile, Marks
from data.text.released.released_tokenizer import ReleasedTokenizer
from data.text.tokenizer import WORD_MARK

_NO_MARKS = Marks(False, "never", False)
_SPACES = {
    "type": "Replace",
    "pattern": {"String": " "},
    "content": WORD_MARK,
}


class CharacterBpeFile(NamedTuple):
    """What the graph needs of a `tokenizer.json`."""

    marked: MarkedFile
    characters: dict[str, int]  # ids of those that are a piece
    merges: bpe_file.Merges
    # Two characters side by side in a piece that merges make. No merge crosses
    # a place with others, so that such places divide the work.
    neighbours: frozenset[str]


def parse(offline: ReleasedTokenizer) -> CharacterBpeFile:
    """Reads a `tokenizer.json` whose BPE begins with characters.

    Raises UserError: it holds a rule that the graph does not have.
    """
    path, rules = offline.path, marked_file.rules_of(offline)
    model = rules["model"]
    bpe_file.check_model(model, path, "ignore_merges", *bpe_file.OTHER_PIECES)
    vocab = model["vocab"]
    unknown = vocab.get(model.get("unk_token"), -1)
    marked = marked_file.parse(offline, unknown, _marks(rules, path))
    if unknown < 0 and not marked.bytes:
        marked_file.refuse(
            path, "an unk_token or a piece for every byte", "neither"
        )
    if model.get("byte_fallback") and not marked.bytes:
        marked_file.refuse(path, "a piece for every byte", "some of them")
    merges = bpe_file.read_merges(model)
    made = [marked.pieces[new] for _, _, new in merges.rows]
    if {i for row in merges.rows for i in row[:2]} & {*marked.bytes}:
        marked_file.refuse(path, "merges of characters", "merges of bytes")
    fuse = bool(model.get("fuse_unk")) and not marked.bytes
    return CharacterBpeFile(
        marked._replace(fuse=fuse),
        {piece: i for piece, i in vocab.items() if len(piece) == 1},
        merges,
        frozenset(
            piece[i : i + 2] for piece in made for i in range(len(piece) - 1)
        ),
    )


def _marks(rules: dict, path: str) -> Marks:
    """Words of a file; its normalizer may have made the marks."""
    parts = rule_parts(rules.get("pre_tokenizer"), "pretokenizers")
    normalizers = rule_parts(rules.get("normalizer"), "normalizers")
    if any(_SPACES.items() <= row.items() for row in normalizers[-1:]):
        # Nothing is left that a split at spaces could find.
        parts = [row for row in parts if not _at_spaces(row)]
        if not parts:
            return _NO_MARKS
    return marked_file.metaspace(rules, path, "ByteLevel or ")


def _at_spaces(row: dict) -> bool:
    spaces = row["type"] == "Split" and row["pattern"] == {"String": " "}
    return spaces and not row["invert"]
