"""Special symbols and segment ids; nothing else in the project defines them.

The ids of a model file that we train are those of `TRAINED_LAYOUT` (the
original's recipe). Files that lay the symbols out otherwise work too: the ids
are always read from the file (`data.text.tokenizer`) and travel as `SymbolIds`.
"""

import dataclasses

from common.vocabularies import frames

UNK = "<unk>"
# A larger share of a text is said: a vocabulary of its own language lacks rare
# characters alone.
MANY_UNKNOWN = 0.05
BOS = "<s>"
EOS = "</s>"
CLS = "<cls>"
SEP = "<sep>"
PAD = "<pad>"
MASK = "<mask>"
EOD = "<eod>"
EOP = "<eop>"

# Piece -> id in the files that `data.train_sentencepiece` makes.
TRAINED_LAYOUT = {
    UNK: 0,
    BOS: 1,
    EOS: 2,
    CLS: 3,
    SEP: 4,
    PAD: 5,
    MASK: 6,
    EOD: 7,
    EOP: 8,
}

# Orders of a row, as `modeling.encoders.contract.Capabilities.layout` has them:
# A SEP B SEP CLS padded on the left, CLS A SEP B SEP padded on the right.
CLS_LAST, CLS_FIRST = "cls_last", "cls_first"
# Released tokenizers join two texts in other ways, too.
LAYOUTS = (CLS_LAST, *frames.layouts(CLS_FIRST))

# Segment ids. Only "same segment or not" enters the model (relative segment
# encoding, XLNet paper section 2.5), memory counts as segment 0.
SEGMENT_A = 0
SEGMENT_B = 1
SEGMENT_CLS = 2
SEGMENT_Q = 3  # the question's padding id in SQuAD, as in the original
SEGMENT_PAD = 4  # left padding of classification and RACE


@dataclasses.dataclass(frozen=True)
class SymbolIds:
    """Ids of the special symbols in one SentencePiece file."""

    unk: int = 0
    bos: int = 1
    eos: int = 2
    cls: int = 3
    sep: int = 4
    pad: int = 5
    mask: int = 6
    eod: int = 7
    eop: int = 8

    def functional(self) -> tuple[int, ...]:
        """Ids that are never a prediction target: SEP and CLS."""
        return (self.sep, self.cls)

    def never_filled(self) -> frozenset[int]:
        """Ids that never fill a hidden piece: every symbol, `<unk>` too."""
        return frozenset(i for i in dataclasses.astuple(self) if i >= 0)

    def never_written(self) -> frozenset[int]:
        """Ids that never go on a text: symbols but `<eod>` and `<eop>`."""
        return self.never_filled() - {self.eod, self.eop}


def is_cls_first(layout: str) -> bool:
    """Whether rows of a layout begin with CLS."""
    return layout.startswith(CLS_FIRST)


def has_one_segment(layout: str) -> bool:
    """Whether all texts of a row are of segment A."""
    return frames.joint_of(layout, CLS_FIRST)[1]


def between(layout: str, ids: SymbolIds) -> tuple[int, ...]:
    """Ids that stand between two texts."""
    names, _ = frames.joint_of(layout, CLS_FIRST)
    return tuple(getattr(ids, name) for name in names)


def row_symbols(layout: str, texts: int = 2) -> int:
    """How many symbols a row of 1 or more texts has."""
    return 2 + len(frames.joint_of(layout, CLS_FIRST)[0]) * (texts - 1)
