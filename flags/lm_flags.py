"""Flags of `serving.embed`, `fill_mask`, `generate` and `score`."""

from absl import flags

from flags import flag_values, text_flags, weights_flags
from serving.options import (
    EmbedOptions,
    FillOptions,
    GenerateOptions,
    ModelOptions,
    SamplingOptions,
    ScoreOptions,
)

FLAGS = flags.FLAGS
_ORDER_NAMES = ("left_to_right", "right_to_left", "random")


def _define_model() -> None:
    flags.DEFINE_string(
        "checkpoint",
        None,
        "Checkpoint: a directory, prefix or .index; ours, the original's or "
        "Hugging Face's.",
        required=True,
    )
    flags.DEFINE_string(
        "spiece_model_file",
        ModelOptions.spiece_model_file,
        "SentencePiece file; spiece.model beside the checkpoint if not given.",
    )
    text_flags.define()
    weights_flags.define()


def _model_from_flags() -> ModelOptions:
    return ModelOptions(
        FLAGS.checkpoint,
        FLAGS.spiece_model_file,
        text_flags.from_flags(),
        weights_flags.from_flags(),
    )


def _define_max_chars(options) -> None:
    flags.DEFINE_integer(
        "max_chars", options.max_chars, "Longest text in characters."
    )


def define_generate() -> None:
    """Registers the flags of `serving.generate`."""
    _define_model()
    default = SamplingOptions
    flags.DEFINE_string("prompt", None, "Text to continue.", required=True)
    flags.DEFINE_string(
        "priming_file",
        GenerateOptions.priming_file,
        "UTF-8 text to read before the prompt, closed by <eod>.",
    )
    _define_max_chars(GenerateOptions)
    flags.DEFINE_integer(
        "max_new_tokens", default.max_new_tokens, "Pieces to add at most."
    )
    flags.DEFINE_integer(
        "num_samples", default.num_samples, "Continuations of the prompt."
    )
    flags.DEFINE_float(
        "temperature",
        default.temperature,
        "Divides the logits; 0 takes the most probable piece.",
    )
    flags.DEFINE_integer(
        "top_k", default.top_k, "Sample among so many best pieces; 0 = all."
    )
    flags.DEFINE_float(
        "top_p",
        default.top_p,
        "Sample among the best pieces of this total probability; 1 = all.",
    )
    flags.DEFINE_integer("seed", default.seed, "Equal seeds give equal text.")
    flags.DEFINE_bool(
        "use_cache",
        default.use_cache,
        "Keep keys and values; without it the text is the same, only slower.",
    )
    _define_left_to_right()


def _define_left_to_right() -> None:
    flags.DEFINE_integer(
        "mem_len",
        GenerateOptions.mem_len,
        "Left-to-right models: tokens they look back; as trained if not given.",
    )
    flags.DEFINE_integer(
        "stop_lines",
        GenerateOptions.stop_lines,
        "Left-to-right models: end a sample after so many lines; 0 = never.",
    )
    flags.DEFINE_bool(
        "allow_unk",
        GenerateOptions.allow_unk,
        "Left-to-right models: <unk> may be picked.",
    )


def generate_from_flags():
    """(GenerateOptions, SamplingOptions, ModelOptions)."""
    return (
        flag_values.build(GenerateOptions),
        flag_values.build(SamplingOptions),
        _model_from_flags(),
    )


def define_fill() -> None:
    """Registers the flags of `serving.fill_mask`."""
    _define_model()
    default = FillOptions
    flags.DEFINE_string(
        "text",
        None,
        "Text with <mask> where something is hidden.",
        required=True,
    )
    flags.DEFINE_string(
        "fill",
        default.fill,
        "Fillings to score, one per <mask>, divided by '|'; if not given, the "
        "best ones are searched.",
    )
    flags.DEFINE_string(
        "order",
        default.order,
        "Order in which hidden pieces are predicted: left_to_right, "
        "right_to_left, random, or places such as 2,0,1.",
    )
    flags.DEFINE_integer(
        "beam_size", default.beam_size, "Fillings kept by the search."
    )
    flags.DEFINE_integer("seed", default.seed, "Of a random order.")
    flags.DEFINE_bool(
        "compare_independent",
        default.compare_independent,
        "Also predict each hidden piece without the others, as masked LM does: "
        "the joint, the product of these, and the information between places.",
    )
    flags.DEFINE_bool(
        "attribution",
        default.attribution,
        "Also how much each given piece says about the filling (leave one out).",
    )
    _define_max_chars(FillOptions)


def fill_from_flags():
    """(FillOptions, ModelOptions)."""
    return flag_values.build(FillOptions), _model_from_flags()


def define_score() -> None:
    """Registers the flags of `serving.score`."""
    _define_model()
    default = ScoreOptions
    flags.DEFINE_multi_string("text", [], "Text to score; may be repeated.")
    flags.DEFINE_enum(
        "order",
        default.order,
        (*_ORDER_NAMES, "all"),
        "Factorization order; all: every one, at most 7 tokens.",
    )
    flags.DEFINE_bool(
        "per_token", default.per_token, "Also the pieces, each with its own."
    )
    flags.DEFINE_bool(
        "score_line_end",
        default.score_line_end,
        "The end of a line is scored, too; of left-to-right models.",
    )
    flags.DEFINE_integer(
        "num_orders", default.num_orders, "Random orders per text."
    )
    flags.DEFINE_integer("seed", default.seed, "Of the first random order.")
    flags.DEFINE_integer(
        "context_chars",
        default.context_chars,
        "First characters that are given and not scored.",
    )
    _define_segments(default)
    _define_max_chars(default)


def _define_segments(default) -> None:
    flags.DEFINE_integer(
        "max_seq_length",
        default.max_seq_length,
        "Tokens of a segment; longer texts are read in several.",
    )
    flags.DEFINE_integer(
        "memory_len",
        default.memory_len,
        "Tokens of earlier segments that a segment sees"
        + (
            "."
            if default.memory_len
            else "; not given: 512, or 0 without memory."
        ),
    )


def score_from_flags():
    """(ScoreOptions, ModelOptions)."""
    return flag_values.build(ScoreOptions), _model_from_flags()


def define_embed() -> None:
    """Registers the flags of `serving.embed`."""
    _define_model()
    default = EmbedOptions
    flags.DEFINE_multi_string("text", [], "Text to embed; may be repeated.")
    flags.DEFINE_string(
        "input_file", default.input_file, "UTF-8 file with a text per line."
    )
    flags.DEFINE_string(
        "output_file",
        default.output_file,
        "Vectors: .npz, .jsonl or .csv; JSON lines to the terminal if not given.",
    )
    flags.DEFINE_integer(
        "layer",
        default.layer,
        "Layer of the vectors: 0 = word embeddings, -1 = the last.",
    )
    flags.DEFINE_enum(
        "pooling",
        default.pooling,
        ("", "none", "mean", "cls", "last"),
        "One vector per piece (none) or per text; if not given what a "
        "sentence-transformers folder says, elsewhere none.",
    )
    _define_segments(default)
    flags.DEFINE_integer(
        "embed_batch_size", default.embed_batch_size, "Texts at a time."
    )
    _define_max_chars(default)


def embed_from_flags():
    """(EmbedOptions, ModelOptions)."""
    return flag_values.build(EmbedOptions), _model_from_flags()
