"""Flags of `data.demo_corpus` and `data.train_sentencepiece`."""

from absl import flags

from data.corpus.options import (
    MODEL_TYPES,
    DemoCorpusOptions,
    SentencePieceOptions,
)
from flags import flag_values, text_flags

FLAGS = flags.FLAGS


def define_corpus() -> None:
    """Registers the flags of the embedded corpus."""
    flags.DEFINE_string(
        "output_dir", None, "Folder that receives the corpus.", required=True
    )
    flags.DEFINE_float(
        "max_megabytes",
        DemoCorpusOptions.max_megabytes,
        "Cut the pretraining text at so many megabytes.",
    )
    flags.DEFINE_integer(
        "examples_per_class",
        DemoCorpusOptions.examples_per_class,
        "Rows per class of the classification training split.",
    )


def corpus_from_flags() -> DemoCorpusOptions:
    """The parsed flags as options."""
    return DemoCorpusOptions(
        output_dir=FLAGS.output_dir,
        max_megabytes=FLAGS.max_megabytes,
        examples_per_class=FLAGS.examples_per_class,
    )


def define_sentencepiece() -> None:
    """Registers the flags of vocabulary training."""
    default = SentencePieceOptions
    flags.DEFINE_string(
        "input_glob",
        None,
        "Text files to learn from: one sentence per line, plain or .gz; "
        "comma-separated globs.",
        required=True,
    )
    flags.DEFINE_string(
        "model_prefix",
        None,
        "Output prefix: writes PREFIX.model and PREFIX.vocab.",
        required=True,
    )
    flags.DEFINE_integer(
        "vocab_size",
        default.vocab_size,
        "Pieces in the vocabulary, the nine special symbols included.",
    )
    flags.DEFINE_enum(
        "model_type", default.model_type, MODEL_TYPES, "Kind of vocabulary."
    )
    flags.DEFINE_float(
        "character_coverage",
        default.character_coverage,
        "Share of the text's characters that get a piece; 1.0 for small "
        "alphabets, 0.9995 for Chinese or Japanese.",
    )
    text_flags.define(
        default="composed; original is for weights that were released with it"
    )
    flags.DEFINE_integer(
        "input_sentence_size",
        default.input_sentence_size,
        "Sample so many sentences to learn from; 0 takes all.",
    )
    flags.DEFINE_integer(
        "seed", default.seed, "Seed of the sample of sentences."
    )
    flags.DEFINE_integer(
        "num_unused",
        default.num_unused,
        "Of --vocab_size, pieces <unused0>, ... for symbols added later.",
    )
    flags.DEFINE_bool(
        "byte_fallback",
        default.byte_fallback,
        "Cut characters without a piece into bytes; needs 256 pieces.",
    )
    flags.DEFINE_integer(
        "num_threads",
        default.num_threads,
        "Threads that train. The file is the same wherever their number is; "
        "another number may give other unigram pieces.",
    )


def sentencepiece_from_flags() -> SentencePieceOptions:
    """The parsed flags as options."""
    return flag_values.build(
        SentencePieceOptions,
        text=text_flags.from_flags().complete(SentencePieceOptions.text),
    )
