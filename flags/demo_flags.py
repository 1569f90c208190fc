"""Flags of `data.demo_corpus` and `data.train_sentencepiece`."""

from data.corpus.options import (
    DemoCorpusOptions,
    SentencePieceOptions,
)
from flags import flag_values, text_flags


def define_corpus() -> None:
    """Registers the flags of the embedded corpus."""
    flag_values.define(DemoCorpusOptions)


def corpus_from_flags() -> DemoCorpusOptions:
    """The parsed flags as options."""
    return flag_values.build(DemoCorpusOptions)


def define_sentencepiece() -> None:
    """Registers the flags of vocabulary training."""
    flag_values.define(SentencePieceOptions)
    text_flags.define(
        default="composed; original is for weights that were released with it"
    )


def sentencepiece_from_flags() -> SentencePieceOptions:
    """The parsed flags as options."""
    return flag_values.build(
        SentencePieceOptions,
        text=text_flags.from_flags().complete(SentencePieceOptions.text),
    )
