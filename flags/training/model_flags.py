"""Flags of the architecture: single sizes or a configuration file.

They are defined without TensorFlow, which comes with `modeling`.
"""

from typing import TYPE_CHECKING

from absl import flags

from common.errors import UserError
from flags import flag_values

if TYPE_CHECKING:
    from modeling.encoders.contract import EncoderConfig

FLAGS = flags.FLAGS

# Fields that a run may set although --model_config_path gives the sizes.
FREE = (
    "mem_len",
    "reuse_len",
    "clamp_len",
    "blind_rows",
    "same_length",
    "dropout",
    "dropatt",
    "activation_dropout",
    "init_method",
    "init_std",
    "init_range",
)
SIZES = (
    "n_layer",
    "d_model",
    "n_head",
    "d_head",
    "d_inner",
    "ff_activation",
    "untie_r",
    "attn_type",
)
# Sizes that other encoders have.
MORE_SIZES = (
    "embedding_size",
    "num_groups",
    "max_position_embeddings",
    "local_window",
    "global_every",
    "global_theta",
)
# XLNet-Base.
DEFAULTS = dict(n_layer=12, d_model=768, n_head=12, d_head=64, d_inner=3072)


def define() -> None:
    """Registers the flags."""
    flag_values.often |= {
        "model_type",
        "n_layer",
        "d_model",
        "n_head",
        "mem_len",
        "model_config_path",
    }
    flags.DEFINE_string(
        "model_config_path",
        None,
        "xlnet_config.json or config.json with the sizes; --n_layer and the "
        "like are then taken from it.",
    )
    flags.DEFINE_string(
        "model_type",
        None,
        "Kind of encoder of a new model: xlnet (default), bert, albert or "
        "modernbert. A file or checkpoint says it itself.",
    )
    flags.DEFINE_integer("n_layer", None, "L, layers. Default: 12.")
    flags.DEFINE_integer("d_model", None, "D, width. Default: 768.")
    flags.DEFINE_integer("n_head", None, "N, attention heads. Default: 12.")
    flags.DEFINE_integer("d_head", None, "H, width of a head. Default: 64.")
    flags.DEFINE_integer(
        "d_inner", None, "F, width of the feed-forward layer. Default: 3072."
    )
    flags.DEFINE_enum(
        "ff_activation",
        None,
        ["gelu", "relu"],
        "Activation of the feed-forward layer. Default: gelu.",
    )
    _define_others()
    _define_attention()
    flags.DEFINE_float("dropout", None, "Dropout rate. Default: 0.1.")
    flags.DEFINE_float(
        "dropatt", None, "Dropout rate of attention. Default: 0.1."
    )
    flags.DEFINE_float(
        "activation_dropout",
        None,
        "Dropout rate after the feed-forward activation. Default: --dropout.",
    )
    flags.DEFINE_enum(
        "init_method",
        None,
        ["normal", "uniform"],
        "Distribution of the first weights. Default: normal.",
    )
    flags.DEFINE_float(
        "init_std", None, "Deviation of normal first weights. Default: 0.02."
    )
    flags.DEFINE_float(
        "init_range", None, "Bound of uniform first weights. Default: 0.1."
    )


def _define_others() -> None:
    flags.DEFINE_integer(
        "embedding_size", None, "albert: E, width of the embeddings."
    )
    flags.DEFINE_integer(
        "num_groups", None, "albert: groups of layers with their own weights."
    )
    flags.DEFINE_integer(
        "max_position_embeddings",
        None,
        "bert, albert, modernbert: longest row.",
    )
    flags.DEFINE_integer(
        "local_window",
        None,
        "modernbert: keys that a local layer sees, half of them to each side.",
    )
    flags.DEFINE_integer(
        "global_every", None, "modernbert: every so many layers a global one."
    )
    flags.DEFINE_float(
        "global_theta", None, "modernbert: RoPE theta of global layers."
    )


def _define_attention() -> None:
    flags.DEFINE_bool(
        "untie_r",
        None,
        "Every layer has its own relative biases. Default: true.",
    )
    flags.DEFINE_enum(
        "attn_type",
        None,
        ["bi", "uni"],
        "Attention to both sides or to the past only. Default: bi.",
    )
    flags.DEFINE_bool(
        "same_length",
        None,
        "With attn_type=uni every position sees equally many keys.",
    )
    flags.DEFINE_integer(
        "clamp_len", None, "Distances beyond it count as this one; -1 = off."
    )
    flags.DEFINE_enum(
        "blind_rows",
        None,
        ["zero", "original"],
        "What a query row that sees no key gets from attention: zero, or the "
        "mean over all keys as in the original. Default: zero.",
    )
    flags.DEFINE_integer(
        "mem_len", None, "M, positions kept for the next segment; 0 = none."
    )
    flags.DEFINE_integer(
        "reuse_len",
        None,
        "Only so many first positions of a segment enter the memory.",
    )


def from_flags(
    vocab_size: int,
    config: "EncoderConfig | None" = None,
    own: bool = False,
    **defaults,
) -> "EncoderConfig":
    """The architecture.

    Args:
      vocab_size: V of the data.
      config: sizes from elsewhere (beside a checkpoint), used when there is no
        --model_config_path.
      own: `config` is that of the run that goes on, so its `mem_len` in
        `defaults` comes before that of --model_config_path.
      **defaults: values of fields whose flag is not given.

    Raises:
      UserError: a size contradicts the file, or the vocabulary differs.
    """
    from modeling.encoders.registry import (
        DEFAULT,
        changed,
        new_config,
        read_config,
        spec_of,
    )

    path = FLAGS.model_config_path
    if path:
        config = read_config(path)
    kind = config.model_type if config else FLAGS.model_type or DEFAULT
    if FLAGS.model_type not in (None, kind):
        raise UserError(
            f"--model_type={FLAGS.model_type}, but {path or 'the checkpoint'} "
            f"is of {kind}: leave the flag out"
        )
    if not spec_of(kind).capabilities.memory:
        defaults = {}  # of the memory
    elif not own and getattr(config, "mem_len", None) is not None:
        defaults.pop("mem_len", None)
    sizes = (*SIZES, *MORE_SIZES)
    given = {
        name: FLAGS[name].value
        for name in (*sizes, *FREE)
        if FLAGS[name].value is not None
    }
    values = {k: v for k, v in defaults.items() if v is not None} | given
    if config is None:
        if kind == DEFAULT:
            values = DEFAULTS | values
        return new_config(kind, vocab_size, values)
    # Of another context: no weight depends on it.
    free = [n for n in _extendable(config) if FLAGS[n].present]
    source = path or "the checkpoint's configuration"
    _require_fit(config, source, vocab_size, given, free)
    free += FREE
    return changed(config, {k: v for k, v in values.items() if k in free})


def _require_fit(
    config: "EncoderConfig",
    source: str,
    vocab_size: int,
    given: dict,
    free: list[str],
) -> None:
    """Raises UserError where flags or data contradict the configuration."""
    # A recipe's value is a default and yields to the file.
    names = [n for n in given if n not in FREE and FLAGS[n].present]
    wrong = [
        f"`{name}` wanted {given[name]}, found {getattr(config, name, None)}"
        for name in names
        if name not in free and given[name] != getattr(config, name, None)
    ]
    if config.vocab_size != vocab_size:
        wrong.append(
            f"vocabulary of the data {vocab_size}, found {config.vocab_size}"
        )
    if wrong:
        raise UserError(f"{source} does not fit: {'; '.join(wrong)}")


def _extendable(config: "EncoderConfig") -> tuple[str, ...]:
    """Fields of the context that a warm start may change, where there are."""
    return getattr(config, "extendable", ())
