"""Options of `serving.embed`, `fill_mask`, `generate` and `score`."""

import dataclasses
from typing import Any

from common.checks import follows, require
from common.heads import TEXT_POOLINGS
from common.settings import (
    FOLDER,
    REQUIRED,
    VOCABULARY,
    Checked,
    check,
    setting,
)
from common.vocabularies.text_settings import TextChoice
from common.weights.weights_line import choice_setting, part_setting

ORDERS = ("left_to_right", "right_to_left", "random")


def max_chars_setting(most: int = 50000) -> Any:
    """A field: how long a text may be."""
    return setting(most, "Longest text in characters.", bounds=">= 1")


@dataclasses.dataclass(frozen=True)
class ModelOptions(Checked):
    """A pretrained checkpoint."""

    checkpoint: str = setting(
        REQUIRED,
        "Checkpoint: a directory, prefix or .index; ours, the original's or"
        " Hugging Face's.",
        released=FOLDER,
    )
    spiece_model_file: str = setting(
        "",
        "Vocabulary (spiece.model, tokenizer.json, ...); the one beside the "
        "checkpoint if not given.",
        released=VOCABULARY,
    )
    # what is said about text handling; records rule
    text: TextChoice | None = None
    checkpoint_choice: str = choice_setting()
    part: str = part_setting()


@dataclasses.dataclass(frozen=True)
class SamplingOptions:
    """How new tokens are picked."""

    max_new_tokens: int = setting(100, "Pieces to add at most.", bounds=">= 1")
    num_samples: int = setting(1, "Continuations of the prompt.", bounds=">= 1")
    temperature: float = setting(
        1.0,
        "Divides the logits; 0 takes the most probable piece.",
        bounds=">= 0",
    )
    top_k: int = setting(
        0, "Sample among this many best pieces; 0 = all.", bounds=">= 0"
    )
    top_p: float = setting(
        0.9,
        "Sample among the best pieces of this total probability; 1 = all.",
        bounds="(0, 1]",
    )
    seed: int = setting(0, "Equal seeds give equal text.")
    use_cache: bool = setting(
        True,
        "Keep keys and values; without it the text is the same, only slower.",
    )

    def __post_init__(self) -> None:
        check(self)
        require(
            -(2**31) <= self.seed < 2**31,
            f"--seed must fit 32 bits, received {self.seed}",
        )
        unused = [
            f"--{name}"
            for name, given in (
                ("top_k", self.top_k),
                ("top_p", self.top_p not in (type(self).top_p, 1.0)),
                ("seed", self.seed),
            )
            if given
        ]
        require(
            self.temperature or not unused,
            f"{' and '.join(unused)} are of sampling: wanted --temperature "
            "above 0, received 0, which takes the most probable piece",
        )


@dataclasses.dataclass(frozen=True)
class GenerateOptions(Checked):
    """`serving.generate` beside `SamplingOptions`."""

    prompt: str = setting(REQUIRED, "Text to continue.")
    priming_file: str = setting(
        "", "UTF-8 text to read before the prompt, closed by <eod>."
    )
    max_chars: int = max_chars_setting()
    mem_len: int | None = setting(
        None,
        "Left-to-right models: tokens they look back; as trained if not given.",
        bounds=">= 1",
    )
    stop_lines: int = setting(
        0,
        "Left-to-right models: end a sample after this many lines; 0 = never.",
        bounds=">= 0",
    )
    allow_unk: bool = setting(
        False, "Left-to-right models: <unk> may be picked."
    )


def _check_random(options: Any, *names: str) -> None:
    """UserError: what only a random order follows is given with another."""
    for name in names:
        given = getattr(options, name) != getattr(type(options), name)
        follows(given, name, "order", ("random",), options.order)


@dataclasses.dataclass(frozen=True)
class FillOptions(Checked):
    """`serving.fill_mask`."""

    text: str = setting(REQUIRED, "Text with <mask> where something is hidden.")
    fill: str = setting(
        "",
        "Fillings to score, one per <mask>, divided by '|'; if not given, "
        "the best ones are searched.",
    )
    order: str = setting(
        "left_to_right",
        "Order in which hidden pieces are predicted: left_to_right, "
        "right_to_left, random, or places such as 2,0,1.",
    )
    beam_size: int = setting(5, "Fillings kept by the search.", bounds=">= 1")
    seed: int = setting(0, "Of a random order.")
    max_chars: int = max_chars_setting()
    compare_independent: bool = setting(
        False,
        "Also predict each hidden piece without the others, as masked LM "
        "does: the joint, the product of these, and the information between"
        " places.",
    )
    attribution: bool = setting(
        False,
        "Also how much each given piece says about the filling (leave one "
        "out).",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            not self.fill or self.beam_size == type(self).beam_size,
            f"--beam_size={self.beam_size} is of a search, and --fill gives "
            "the filling: leave one of them out",
        )
        _check_random(self, "seed")


@dataclasses.dataclass(frozen=True, kw_only=True)
class SegmentOptions:
    """How texts are read that are longer than a segment."""

    max_seq_length: int = setting(
        512,
        "Tokens of a segment; longer texts are read in several.",
        bounds=">= 1",
    )
    memory_len: int | None = setting(
        None,
        "Tokens of earlier segments that a segment sees; not given: 512, "
        "or 0 without memory.",
        bounds=">= 0",
    )


@dataclasses.dataclass(frozen=True)
class ScoreOptions(SegmentOptions):
    """`serving.score`."""

    text: tuple[str, ...] = setting(
        REQUIRED, "Text to score; may be repeated.", repeated=True
    )
    order: str = setting(
        "left_to_right",
        "Factorization order; all: every one, at most 7 tokens.",
        choices=(*ORDERS, "all"),
    )
    num_orders: int = setting(4, "Random orders per text.", bounds=">= 1")
    seed: int = setting(0, "Of the first random order.")
    context_chars: int = setting(
        0, "First characters that are given and not scored.", bounds=">= 0"
    )
    max_chars: int = max_chars_setting()
    per_token: bool = setting(False, "Also the pieces, each with its own.")
    score_line_end: bool = setting(
        True, "The end of a line is scored, too; of left-to-right models."
    )

    def __post_init__(self) -> None:
        check(self)
        require(self.text, "--text is missing: give the text to score")
        _check_random(self, "num_orders", "seed")


@dataclasses.dataclass(frozen=True)
class EmbedOptions(SegmentOptions):
    """`serving.embed`."""

    text: tuple[str, ...] = setting(
        (), "Text to embed; may be repeated.", repeated=True
    )
    input_file: str = setting("", "UTF-8 file with a text per line.")
    output_file: str = setting(
        "",
        "Vectors: .npz, .jsonl or .csv; JSON lines to the terminal if not "
        "given.",
    )
    layer: int = setting(
        -1, "Layer of the vectors: 0 = word embeddings, -1 = the last."
    )
    pooling: str = setting(
        "",
        "One vector per piece (none) or per text; if not given what a "
        "sentence-transformers folder says, elsewhere none.",
        choices=("", "none", *TEXT_POOLINGS),
    )
    embed_batch_size: int = setting(8, "Texts at a time.", bounds=">= 1")
    max_chars: int = max_chars_setting(1_000_000)

    def __post_init__(self) -> None:
        check(self)
        require(
            bool(self.text) != bool(self.input_file),
            "give one of --text and --input_file",
        )
        require(
            not self.output_file
            or self.output_file.endswith((".npz", ".jsonl", ".csv")),
            "--output_file must end in .npz, .jsonl or .csv, received "
            f"{self.output_file!r}",
        )
