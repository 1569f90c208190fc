"""The tokenizer of a vocabulary file, offline and in the graph."""

from common.errors import UserError
from common.vocabularies.frames import rule_parts
from common.vocabularies.released_vocabulary import is_released
from common.vocabularies.text_settings import TextChoice, TextSettings
from data.text.released.released_tokenizer import ReleasedTokenizer
from data.text.tokenizer import Tokenizer

AnyTokenizer = Tokenizer | ReleasedTokenizer


def open_tokenizer(
    path: str, text: TextChoice | TextSettings | None = None
) -> AnyTokenizer:
    """The tokenizer of a file (module-level, so that workers can call it).

    The file is a SentencePiece model, a `tokenizer.json` or a `vocab.txt`; for
    `text` see `Tokenizer`: a released tokenizer has rules of its own. Raises
    UserError: the file is missing, damaged or of no known kind.
    """
    if is_released(path):
        return ReleasedTokenizer(path, text)
    return Tokenizer(path, text)


def check_graph(offline: AnyTokenizer) -> None:
    """Before work that ends in an export."""
    if not isinstance(offline, Tokenizer):
        _graph_module(offline).parse(offline)


def graph_tokenizer(offline: AnyTokenizer):
    """The same ids and offsets inside a TensorFlow graph.

    A `GraphTokenizer`, `GraphWordPiece`, `GraphBpe`, `GraphCharacterBpe` or
    `GraphUnigram`; all have
    `tokenize`, `tokenize_with_offsets`, `id_to_piece`, `detokenize` and
    `vocab_size`. Raises UserError: the file holds a rule that no graph has.
    """
    # TensorFlow only where it is asked for: data workers do not import it.
    if isinstance(offline, Tokenizer):
        from data.text.graph.graph_tokenizer import GraphTokenizer

        return GraphTokenizer(offline.vocabulary.content, offline.settings)
    module = _graph_module(offline)
    return module.Graph(module.parse(offline))


def _graph_module(offline: ReleasedTokenizer):
    """What reads a kind of `tokenizer.json` for a graph."""
    model = offline.rules["model"]
    # Files of old versions do not name it.
    unnamed = "Unigram" if isinstance(model.get("vocab"), list) else None
    kind = model.get("type") or unnamed
    if kind == "WordPiece":
        from data.text.graph import wordpiece

        return wordpiece
    if kind == "BPE" and _begins_with_bytes(offline.rules):
        from data.text.graph import bpe

        return bpe
    if kind == "BPE":
        from data.text.graph import character_bpe

        return character_bpe
    if kind == "Unigram":
        from data.text.graph import unigram

        return unigram
    raise UserError(
        f"{offline.path}: a SavedModel cuts text by SentencePiece, Unigram, "
        f"WordPiece or BPE, this file's model is {kind}; leave the export out "
        "and predict with --do_predict"
    )


def _begins_with_bytes(rules: dict) -> bool:
    """Whether a BPE merges bytes, not characters."""
    rows = rule_parts(rules.get("pre_tokenizer"), "pretokenizers")
    return any(row.get("type") == "ByteLevel" for row in rows)
