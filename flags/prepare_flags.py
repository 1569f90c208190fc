"""Flags of `python -m data.create_pretraining_data`."""

from absl import flags

from data.pretraining.options import (
    SAMPLERS,
    SPAN_LENGTHS,
    SPAN_UNITS,
    BuildOptions,
)
from data.records.options import RUNNERS
from flags import flag_values, text_flags

FLAGS = flags.FLAGS


def define() -> None:
    """Registers the builder's flags."""
    _define_paths()
    _define_format()
    _define_targets()
    _define_order()
    _define_run()


def _define_paths() -> None:
    """Text in, what is left out, where records go."""

    flags.DEFINE_string(
        "input_glob",
        None,
        "Text or .jsonl files, plain or .gz; commas separate patterns. All as "
        "name=pattern: sources that are counted apart.",
        required=True,
    )

    flags.DEFINE_string(
        "source_weights",
        BuildOptions.source_weights,
        "How often a source's documents are read: wiki=2,books=0.5; others once.",
    )

    flags.DEFINE_string(
        "spiece_model_file",
        None,
        "SentencePiece model that cuts the text.",
        required=True,
    )

    flags.DEFINE_string(
        "output_dir", None, "Folder that receives the records.", required=True
    )

    flags.DEFINE_string(
        "text_field",
        BuildOptions.text_field,
        "Field of JSONL files that holds the text.",
    )

    text_flags.define()

    flags.DEFINE_integer(
        "min_document_tokens",
        BuildOptions.min_document_tokens,
        "Leave out documents with fewer tokens.",
    )

    flags.DEFINE_float(
        "max_symbol_ratio",
        BuildOptions.max_symbol_ratio,
        "Leave out documents with a larger share of characters that are no letter, digit or white space.",
    )

    flags.DEFINE_bool(
        "dedup",
        BuildOptions.dedup,
        "Leave out documents whose text came before.",
    )

    flags.DEFINE_float(
        "dev_fraction",
        BuildOptions.dev_fraction,
        "Share of documents held out as the dev split.",
    )


def _define_format() -> None:
    """What a segment, a lane and a file hold."""

    flags.DEFINE_integer(
        "seq_len", BuildOptions.seq_len, "Positions per segment."
    )

    flags.DEFINE_integer(
        "reuse_len",
        BuildOptions.reuse_len,
        "Positions of the part that becomes memory; 0 = none.",
    )

    flags.DEFINE_bool(
        "bi_data", BuildOptions.bi_data, "Write backward lanes, too."
    )

    flags.DEFINE_integer(
        "segments_per_lane",
        BuildOptions.segments_per_lane,
        "Segments per lane; 0 = by the corpus's size.",
    )

    flags.DEFINE_float(
        "max_empty_share",
        BuildOptions.max_empty_share,
        "Empty train records, at the ends of lanes, that are no error.",
    )

    flags.DEFINE_integer(
        "num_passes",
        BuildOptions.num_passes,
        "Independent draws of targets and orders, all stored.",
    )

    flags.DEFINE_bool(
        "materialize_masks",
        BuildOptions.materialize_masks,
        "Write permutation masks and target mappings, too.",
    )

    flags.DEFINE_integer(
        "materialize_batches",
        BuildOptions.materialize_batches,
        "Also write records in order of batches of so many rows; 0 = no.",
    )


def _define_targets() -> None:
    """What is predicted, in which order."""

    flags.DEFINE_integer(
        "num_predict",
        BuildOptions.num_predict,
        "Target slots per segment; by default enough for 99 % of the targets.",
    )

    flags.DEFINE_integer(
        "perm_size",
        BuildOptions.perm_size,
        "Positions that are permuted together; 0 = the whole part.",
    )

    flags.DEFINE_integer(
        "mask_alpha",
        BuildOptions.mask_alpha,
        "Of so many tokens, mask_beta are targets.",
    )

    flags.DEFINE_integer(
        "mask_beta", BuildOptions.mask_beta, "Targets among mask_alpha tokens."
    )

    flags.DEFINE_enum(
        "span_unit",
        BuildOptions.span_unit,
        SPAN_UNITS,
        "What spans are made of.",
    )

    flags.DEFINE_enum(
        "span_lengths",
        BuildOptions.span_lengths,
        SPAN_LENGTHS,
        "Weights of the spans' lengths.",
    )

    flags.DEFINE_integer(
        "max_span", BuildOptions.max_span, "Longest span of targets, in units."
    )

    flags.DEFINE_enum(
        "sampler",
        BuildOptions.sampler,
        SAMPLERS,
        "How spans are placed; 'context' is the rule of format 1, 'original' the released code's, exactly.",
    )


def _define_order() -> None:
    """Who has a place in the factorization order."""
    flags.DEFINE_bool(
        "order_context",
        BuildOptions.order_context,
        "Give every token a place in the order.",
    )

    flags.DEFINE_bool(
        "functional_as_context",
        BuildOptions.functional_as_context,
        "Give SEP and CLS no place in the order.",
    )


def _define_run() -> None:
    """How the build runs."""

    flags.DEFINE_integer(
        "seed", BuildOptions.seed, "Seed of everything that is drawn."
    )

    flags.DEFINE_float(
        "block_megabytes",
        BuildOptions.block_megabytes,
        "Text per block, the unit of work, in 1e6 bytes.",
    )

    flags.DEFINE_integer(
        "num_workers",
        BuildOptions.num_workers,
        "Processes; any number gives the same bytes.",
    )

    flags.DEFINE_enum(
        "runner", BuildOptions.runner, RUNNERS, "Where the blocks are built."
    )

    flags.DEFINE_string(
        "beam_options",
        BuildOptions.beam_options,
        "Beam's own command line, for --runner=beam.",
    )


def from_flags() -> BuildOptions:
    """The parsed flags as options."""
    return flag_values.build(BuildOptions, text=text_flags.from_flags())
