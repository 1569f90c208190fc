"""Flags of a Transformer-XL's architecture: single sizes or a file."""

from typing import TYPE_CHECKING

from absl import flags

from common.errors import UserError
from flags import flag_values

if TYPE_CHECKING:
    from modeling.encoders.contract import EncoderConfig

FLAGS = flags.FLAGS

# What a trained model may be used with another value of.
FREE = (
    "mem_len",
    "clamp_len",
    "same_length",
    "memory_start",
    "dropout",
    "dropatt",
    "activation_dropout",
    "variational_dropout",
    "word_dropout",
    "init_method",
    "init_std",
    "init_range",
    "proj_init_std",
)
SIZES = (
    "encoding",
    "max_positions",
    "n_layer",
    "d_model",
    "n_head",
    "d_head",
    "d_inner",
    "d_embed",
    "cutoffs",
    "div_val",
    "proj_share_all_but_first",
    "proj_same_dim",
    "ff_activation",
    "untie_r",
)
# The original's smallest published model: WikiText-103, standard.
DEFAULTS = dict(n_layer=16, d_model=410, n_head=10, d_head=41, d_inner=2100)


def define() -> None:
    """Registers the flags."""
    flag_values.often |= {"n_layer", "d_model", "n_head", "mem_len"}
    flags.DEFINE_string(
        "model_config_path",
        None,
        "transformer_xl_config.json with the sizes; --n_layer and the like "
        "are then taken from it.",
    )
    integer = flags.DEFINE_integer
    integer("n_layer", None, "L, layers. Default: 16.")
    integer("d_model", None, "D, width. Default: 410.")
    integer("n_head", None, "N, attention heads. Default: 10.")
    integer("d_head", None, "H, width of a head. Default: 41.")
    integer("d_inner", None, "F, feed-forward width. Default: 2100.")
    integer("d_embed", None, "E, width of the embedding. Default: --d_model.")
    flags.DEFINE_list(
        "cutoffs",
        None,
        "First ids of the tail clusters, comma-separated; '' = one softmax.",
    )
    integer("div_val", None, "Cluster i has width E // div_val^i. Default: 1.")
    _define_positions()
    _define_bools()
    flags.DEFINE_enum("ff_activation", None, ["relu", "gelu"], "Default: relu.")
    flags.DEFINE_float("dropout", None, "Dropout rate. Default: 0.1.")
    flags.DEFINE_float(
        "dropatt", None, "Dropout rate of attention. Default: 0."
    )
    flags.DEFINE_float(
        "activation_dropout",
        None,
        "Dropout rate after the feed-forward activation. Default: --dropout.",
    )
    flags.DEFINE_bool(
        "variational_dropout",
        None,
        "All positions of a segment have one dropout mask per text.",
    )
    flags.DEFINE_float(
        "word_dropout",
        None,
        "Rate at which words lose their embedding, all occurrences in a batch "
        "together. Default: 0.",
    )
    _define_first_weights()


def _define_positions() -> None:
    flags.DEFINE_enum(
        "encoding",
        None,
        ["relative", "shaw", "shaw_released", "absolute", "per_layer"],
        "How positions are known: Transformer-XL's own; Shaw's as its paper "
        "describes it, or as its PyTorch release has it; the sinusoid added to "
        "the embedding; a learned vector per place and layer (Al-Rfou). "
        "Default: relative.",
    )
    flags.DEFINE_integer(
        "max_positions",
        None,
        "Places, or distances, that other encodings learn. Default: what a "
        "training segment and its memory hold.",
    )


def _define_bools() -> None:
    flags.DEFINE_bool(
        "proj_share_all_but_first",
        None,
        "The softmax of tail clusters takes the embedding's projections.",
    )
    flags.DEFINE_bool(
        "proj_same_dim",
        None,
        "With --div_val, project also where a cluster has width D. Default: "
        "true.",
    )
    flags.DEFINE_bool(
        "untie_r", None, "Every layer has its own u and v. Default: false."
    )
    flags.DEFINE_bool(
        "same_length", None, "Every position sees equally many keys, M + 1."
    )
    flags.DEFINE_integer(
        "clamp_len", None, "Distances beyond it count as this one; -1 = off."
    )
    flags.DEFINE_integer(
        "mem_len",
        None,
        "M, positions kept for the next segment; 0 = none. Default: --seq_len, "
        "with --encoding=absolute and per_layer 0.",
    )
    flags.DEFINE_enum(
        "memory_start",
        None,
        ["hidden", "zeros"],
        "What a text's first segment sees: nothing, or M zero vectors as in "
        "the original. Default: hidden.",
    )


def _define_first_weights() -> None:
    flags.DEFINE_enum(
        "init_method",
        None,
        ["normal", "uniform"],
        "Distribution of the first weights. Default: normal.",
    )
    flags.DEFINE_float("init_std", None, "Of normal weights. Default: 0.02.")
    flags.DEFINE_float("init_range", None, "Of uniform ones. Default: 0.1.")
    flags.DEFINE_float("proj_init_std", None, "Of projections. Default: 0.01.")


def from_flags(
    vocab_size: int,
    config: "EncoderConfig | None" = None,
    seq_len: int | None = None,
    **defaults,
) -> "EncoderConfig":
    """The architecture.

    Without --mem_len a new model of absolute positions has no memory: it is
    the baseline that each segment is read by itself in.

    Args:
      vocab_size: V of the data.
      config: sizes from elsewhere (beside a checkpoint), used when there is no
        --model_config_path.
      seq_len: T, for what depends on it where no flag says it.
      **defaults: values of fields whose flag is not given.

    Raises:
      UserError: a size contradicts the file, the vocabulary differs, or the
        file is of another kind of model.
    """
    from modeling.encoders.registry import read_config
    from modeling.encoders.transformer_xl.config import TransformerXLConfig

    path = FLAGS.model_config_path
    if path:
        config = read_config(path)
    given = {name: _value(name) for name in (*SIZES, *FREE)}
    given = {name: v for name, v in given.items() if v is not None}
    values = {k: v for k, v in defaults.items() if v is not None} | given
    if config is None:
        if seq_len is not None:
            values = _of_length(seq_len, given) | values
        return TransformerXLConfig(vocab_size=vocab_size, **(DEFAULTS | values))
    source = path or "the checkpoint's configuration"
    if config.model_type != TransformerXLConfig.model_type:
        raise UserError(
            f"{source} is of model_type {config.model_type!r}, wanted "
            f"{TransformerXLConfig.model_type!r}"
        )
    wrong = [
        f"`{name}` wanted {given[name]}, found {getattr(config, name)}"
        for name in SIZES
        # A recipe's value is a default and yields to the file.
        if name in given
        and FLAGS[name].present
        and given[name] != getattr(config, name)
    ]
    if config.vocab_size != vocab_size:
        wrong.append(
            f"vocabulary of the data {vocab_size}, found {config.vocab_size}"
        )
    if wrong:
        raise UserError(f"{source} does not fit: {'; '.join(wrong)}")
    return config.replace(**{k: v for k, v in values.items() if k in FREE})


def _of_length(seq_len: int, given: dict) -> dict:
    """Memory and learned positions of a new model by T."""
    encoding = given.get("encoding", "relative")
    bound = encoding in ("absolute", "per_layer")
    memory = given.get("mem_len", 0 if bound else seq_len)
    found = {"mem_len": memory}
    if encoding != "relative":
        found["max_positions"] = seq_len + (0 if bound else memory)
    return found


def _value(name: str):
    """The value of a flag; cutoffs as numbers."""
    value = FLAGS[name].value
    if name != "cutoffs" or value is None:
        return value
    return flag_values.whole_numbers(name, value)
