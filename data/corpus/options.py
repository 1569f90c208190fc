"""Options of the embedded corpus and of vocabulary training (L0)."""

import dataclasses

from common import text_settings
from common.errors import UserError
from common.text_settings import TextSettings

MODEL_TYPES = ("unigram", "bpe", "char")


@dataclasses.dataclass(frozen=True)
class DemoCorpusOptions:
    """Where the corpus goes and how much of it.

    Attributes:
      output_dir: receives `pretrain.txt`, `classification/` and `corpus.json`.
      max_megabytes: size at which the pretraining text is cut, in 1e6 bytes.
      examples_per_class: training rows of the classification set per class.
    """

    output_dir: str
    max_megabytes: float = 8.0
    examples_per_class: int = 600

    def __post_init__(self) -> None:
        if self.max_megabytes <= 0:
            raise UserError(
                "--max_megabytes must be positive, received "
                f"{self.max_megabytes}"
            )
        if self.examples_per_class < 2:
            raise UserError(
                "--examples_per_class must be at least 2, received "
                f"{self.examples_per_class}"
            )


@dataclasses.dataclass(frozen=True)
class SentencePieceOptions:
    """How a vocabulary is trained.

    Attributes:
      input_glob: text files (plain or .gz), one sentence per line.
      model_prefix: writes `<prefix>.model` and `<prefix>.vocab`.
      vocab_size: pieces, special symbols included.
      model_type: one of `MODEL_TYPES`.
      character_coverage: share of the text's characters that get a piece.
      text: how text is handled before it is cut into pieces.
      input_sentence_size: sentences sampled for training; 0 = all.
      seed: of that sample.
    """

    input_glob: str
    model_prefix: str
    vocab_size: int = 32000
    model_type: str = "unigram"
    character_coverage: float = 0.9995
    text: TextSettings = TextSettings(rule=text_settings.COMPOSED)
    input_sentence_size: int = 10_000_000
    seed: int = 0

    def __post_init__(self) -> None:
        if self.model_type not in MODEL_TYPES:
            raise UserError(
                f"--model_type must be one of {', '.join(MODEL_TYPES)}, "
                f"received {self.model_type!r}"
            )
        if self.vocab_size < 16:
            raise UserError(
                "--vocab_size must be at least 16 (9 symbols and the "
                f"characters), received {self.vocab_size}"
            )
        if not 0.9 <= self.character_coverage <= 1.0:
            raise UserError(
                "--character_coverage must lie in 0.9..1.0, received "
                f"{self.character_coverage}"
            )
        if self.input_sentence_size < 0:
            raise UserError(
                "--input_sentence_size must be 0 (all) or more, received "
                f"{self.input_sentence_size}"
            )
