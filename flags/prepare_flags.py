"""Flags of `python -m data.create_pretraining_data`."""

import dataclasses

from absl import flags

from data.options import (
    RUNNERS,
    SAMPLERS,
    SPAN_LENGTHS,
    SPAN_UNITS,
    BuildOptions,
)

FLAGS = flags.FLAGS
_DEFAULTS = {f.name: f.default for f in dataclasses.fields(BuildOptions)}

_STRINGS = {
    "text_field": "Field of JSONL files that holds the text.",
    "beam_options": "Beam's own command line, for --runner=beam.",
}
_INTEGERS = {
    "seq_len": "Positions per segment.",
    "reuse_len": "Positions of the part that becomes memory; 0 = none.",
    "num_predict": "Target slots per segment; default seq_len * beta / alpha.",
    "perm_size": "Positions that are permuted together; 0 = the whole part.",
    "mask_alpha": "Of so many tokens, mask_beta are targets.",
    "mask_beta": "Targets among mask_alpha tokens.",
    "max_span": "Longest span of targets, in units.",
    "segments_per_lane": "Segments per lane; 0 = by the corpus's size.",
    "num_passes": "Independent draws of targets and orders, all stored.",
    "seed": "Seed of everything that is drawn.",
    "min_document_tokens": "Leave out documents with fewer tokens.",
    "materialize_batches": "Also write records in order of batches of so many "
    "rows; 0 = no.",
    "num_workers": "Processes; any number gives the same bytes.",
}
_FLOATS = {
    "dev_fraction": "Share of documents held out as the dev split.",
    "block_megabytes": "Text per block, the unit of work, in 1e6 bytes.",
    "max_symbol_ratio": "Leave out documents with a larger share of "
    "characters that are no letter, digit or white space.",
}
_BOOLEANS = {
    "bi_data": "Write backward lanes, too.",
    "uncased": "Lower-case the text.",
    "keep_accents": "Keep combining marks.",
    "order_context": "Give every token a place in the order.",
    "functional_as_context": "Give SEP and CLS no place in the order.",
    "dedup": "Leave out documents whose text came before.",
    "materialize_masks": "Write permutation masks and target mappings, too.",
}
_CHOICES = {
    "span_unit": (SPAN_UNITS, "What spans are made of."),
    "span_lengths": (SPAN_LENGTHS, "Weights of the spans' lengths."),
    "sampler": (SAMPLERS, "How spans are placed; 'original' is exact."),
    "runner": (RUNNERS, "Where the blocks are built."),
}


def define() -> None:
    """Registers the builder's flags."""
    flags.DEFINE_string(
        "input_glob",
        None,
        "Text or .jsonl files, plain or .gz; commas separate patterns.",
        required=True,
    )
    flags.DEFINE_string(
        "spiece_model_file", None, "SentencePiece model.", required=True
    )
    flags.DEFINE_string(
        "output_dir", None, "Folder that receives the records.", required=True
    )
    for table, make in (
        (_STRINGS, flags.DEFINE_string),
        (_INTEGERS, flags.DEFINE_integer),
        (_FLOATS, flags.DEFINE_float),
        (_BOOLEANS, flags.DEFINE_bool),
    ):
        for name, text in table.items():
            make(name, _DEFAULTS[name], text)
    for name, (choices, text) in _CHOICES.items():
        flags.DEFINE_enum(name, _DEFAULTS[name], choices, text)


def from_flags() -> BuildOptions:
    """The parsed flags as options."""
    names = [f.name for f in dataclasses.fields(BuildOptions)]
    return BuildOptions(**{name: FLAGS[name].value for name in names})
