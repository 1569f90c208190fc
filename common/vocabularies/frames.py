"""What a `tokenizer.json` puts around one text and between two.

Its `post_processor` says it. Some tokenizers have two SEP between two texts
(RoBERTa, XLM-R), and some tell no segments: rows of others would be rows that
the model was not trained with.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

# Classes whose files without a `post_processor` have two SEP.
_TWO_SEP = ("RobertaTokenizer", "BartTokenizer", "XLMRobertaTokenizer")
_NAMES_KEY, _SEGMENTS = "model_input_names", "token_type_ids"
_CLASS_KEY = "tokenizer_class"
# Classes that tell no segments where no key says so. Two more have told none since
# version 5 of transformers, whose files have another key.
_WITHOUT_SEGMENTS = ("TokenizersBackend", "DistilBertTokenizer")
_NO_LONGER, _VERSION_5 = ("AlbertTokenizer", "XLNetTokenizer"), "backend"


# Names of the symbols between two texts, by what stands behind the name of the
# layout with CLS first.
_BETWEEN = {
    "": ("sep",),
    "_sep_sep": ("sep", "sep"),
    "_sep_cls": ("sep", "cls"),
}
_ONE_SEGMENT = "_one_segment"


# Names of the symbols in the files of BERT, ALBERT, ModernBERT, RoBERTa, Gemma.
_USUAL = {
    "cls": ("[CLS]", "<cls>", "<s>", "<bos>"),
    "sep": ("[SEP]", "<sep>", "</s>", "<eos>"),
    "pad": ("[PAD]", "<pad>"),
    "mask": ("[MASK]", "<mask>"),
    "unk": ("[UNK]", "<unk>"),
}


class Frame(NamedTuple):
    """Rows of one text and of two."""

    cls: str  # the piece
    sep: str
    # Names of the symbols between two texts; None: others, or more around them
    between: tuple[str, ...] | None
    one_segment: bool  # both texts are of the first segment


def rule_parts(rule: dict | None, field: str) -> list[dict]:
    """The parts of a rule of `tokenizer.json`, those of sequences within it too."""
    if not rule:
        return []
    if rule.get("type") != "Sequence":
        return [rule]
    return [inner for part in rule[field] for inner in rule_parts(part, field)]


def read(rules: Mapping[str, Any]) -> Frame | None:
    """The rows that a file makes; None: no row with one CLS and one SEP.

    `rules` is the file as JSON.
    """
    for row in rule_parts(rules.get("post_processor"), "processors"):
        kind = row.get("type")
        if kind in ("BertProcessing", "RobertaProcessing"):
            two = kind == "RobertaProcessing"
            between = ("sep",) * (1 + two)
            return Frame(row["cls"][0], row["sep"][0], between, two)
        if kind != "TemplateProcessing":
            continue
        match [_symbol(part) for part in row["single"]]:
            case [str(cls), None, str(sep)] | [None, str(sep), str(cls)]:
                between, one_segment = _of_pair(row.get("pair"), cls, sep)
                return Frame(cls, sep, between, one_segment)
    return None


def joint(
    rules: Mapping[str, Any], config: Mapping[str, Any]
) -> tuple[tuple[str, ...], bool]:
    """Names of the symbols between two texts; whether both are of segment A.

    What a `Frame` does not know counts as the usual: SEP, and two segments.

    Args:
      rules: a `tokenizer.json`.
      config: the `tokenizer_config.json` beside it, {} without one.
    """
    frame = read(rules)
    kind = str(config.get(_CLASS_KEY) or "").removesuffix("Fast")
    between, one_segment = ("sep",), False
    if frame is not None and frame.between is not None:
        between, one_segment = frame.between, frame.one_segment
    elif not rules.get("post_processor") and kind in _TWO_SEP:
        between, one_segment = ("sep", "sep"), True
    return between, one_segment or not tells_segments(config)


def tells_segments(config: Mapping[str, Any]) -> bool:
    """Whether a `tokenizer_config.json` has the segments of texts told apart."""
    names = config.get(_NAMES_KEY)
    if isinstance(names, list):
        return _SEGMENTS in names
    kind = str(config.get(_CLASS_KEY) or "").removesuffix("Fast")
    no_longer = kind in _NO_LONGER and _VERSION_5 in config
    return kind not in _WITHOUT_SEGMENTS and not no_longer


def symbol_pieces(
    rules: Mapping[str, Any], config: Mapping[str, Any]
) -> dict[str, tuple[str, ...]]:
    """Pieces that may be each symbol; the first one that a file has counts.

    CLS and SEP are those around a text, else all are what the folder declares
    (`pad_token`), else the usual names. Arguments as `joint`.
    """
    frame, pieces = read(rules), {}
    for name, usual in _USUAL.items():
        first = [getattr(frame, name, None), declared_piece(config, name)]
        pieces[name] = (*(p for p in first if p is not None), *usual)
    return pieces


def declared_piece(config: Mapping[str, Any], name: str) -> str | None:
    """The piece that a folder declares for a symbol (`pad_token`), or None."""
    declared = config.get(f"{name}_token")
    if isinstance(declared, Mapping):
        declared = declared.get("content")
    return declared if isinstance(declared, str) else None


def declared_alone(
    rules: Mapping[str, Any], config: Mapping[str, Any]
) -> dict[str, Any]:
    """The keys of `config` without which a file would be read otherwise.

    Its symbols would be others, or two texts would be joined in another way.
    """
    model = rules["model"]["vocab"]
    known = {p if isinstance(p, str) else p[0] for p in model}
    known |= {token["content"] for token in rules.get("added_tokens") or ()}
    found, without = (
        {
            name: next((p for p in pieces if p in known), "")
            for name, pieces in symbol_pieces(rules, about).items()
        }
        for about in (config, {})
    )
    kept = {f"{n}_token": p for n, p in found.items() if p != without[n]}
    between, one_segment = joint(rules, config)
    if one_segment and not joint(rules, kept)[1]:
        kept[_NAMES_KEY] = ["input_ids", "attention_mask"]
    if between != joint(rules, kept)[0]:  # its class says so
        kept[_CLASS_KEY] = config[_CLASS_KEY]
    return kept


def layouts(usual: str) -> list[str]:
    """Names of all layouts with CLS first; `usual` is that of SEP."""
    return [usual + b + s for b in _BETWEEN for s in ("", _ONE_SEGMENT)]


def layout_of(
    usual: str, between: Sequence[str], one_segment: bool
) -> str | None:
    """The one of `layouts` that joins two texts so; None = there is none."""
    for name, symbols in _BETWEEN.items():
        if symbols == tuple(between):
            return usual + name + _ONE_SEGMENT * one_segment
    return None


def joint_of(layout: str, usual: str) -> tuple[tuple[str, ...], bool]:
    """What `joint` gives, of one of `layouts` or of another layout."""
    name = layout.removesuffix(_ONE_SEGMENT).removeprefix(usual)
    return _BETWEEN.get(name, _BETWEEN[""]), layout.endswith(_ONE_SEGMENT)


def _of_pair(
    row: list[Mapping[str, Any]] | None, cls: str, sep: str
) -> tuple[tuple[str, ...] | None, bool]:
    """What stands between two texts, and whether they have one segment."""
    if not row:
        return None, False
    pieces = [_symbol(part) for part in row]
    texts = [i for i, piece in enumerate(pieces) if piece is None]
    if texts != [1, len(row) - 2] or [pieces[0], pieces[-1]] != [cls, sep]:
        return None, False
    names = {sep: "sep", cls: "cls"}
    between = [names.get(str(piece), "") for piece in pieces[2:-2]]
    of_second = row[-2]["Sequence"]
    if "" in between or of_second["id"] != "B":
        return None, False
    return tuple(between), of_second["type_id"] == 0


def _symbol(part: Mapping[str, Any]) -> str | None:
    """The symbol that a part of a template adds; None: it is a text."""
    return part["SpecialToken"]["id"] if "SpecialToken" in part else None
