"""Flags of a Transformer-XL's architecture: single sizes or a file."""

from absl import flags

from common.errors import UserError
from flags import flag_values
from flags.training import model_flags
from modeling.encoders.contract import EncoderConfig
from modeling.encoders.registry import read_config
from modeling.encoders.transformer_xl.config import TransformerXLConfig

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
# Encodings -> flags that no other one follows.
_OF_ENCODINGS = {
    ("relative",): ("untie_r",),
    ("relative", "shaw", "shaw_released"): (
        *("clamp_len", "eval_clamp_len", "sweep_clamp_lens"),
    ),
    ("shaw", "shaw_released", "absolute", "per_layer"): ("max_positions",),
}
_OFF = -1  # a length that clamps nothing
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
    flag_values.define_changes(TransformerXLConfig, *SIZES, *FREE, **DEFAULTS)


def from_flags(
    vocab_size: int,
    config: EncoderConfig | None = None,
    seq_len: int | None = None,
) -> EncoderConfig:
    """The architecture; T is for what depends on it where no flag says it.

    Without --mem_len a new model of absolute positions has no memory: it is the
    baseline that each segment is read by itself in. Raises UserError: a size
    contradicts the file, the vocabulary differs, the file is of another kind
    of model, or its encoding would ignore a flag.
    """
    config = _config(vocab_size, config, seq_len)
    read = {
        encodings: [n for n in names if n in FLAGS and FLAGS[n].value != _OFF]
        for encodings, names in _OF_ENCODINGS.items()
    }
    flag_values.check_followed("encoding", config.encoding, read)
    return config


def _config(
    vocab_size: int, config: EncoderConfig | None, seq_len: int | None
) -> EncoderConfig:
    """See `from_flags`."""
    path = FLAGS.model_config_path
    if path:
        config = read_config(path)
    sizes = flag_values.changes(TransformerXLConfig, *SIZES, *FREE)
    if config is None:
        values = DEFAULTS | sizes
        if seq_len is not None:
            values = _of_length(seq_len, sizes) | values
        return TransformerXLConfig(vocab_size=vocab_size, **values)
    source = path or "the checkpoint's configuration"
    if config.model_type != TransformerXLConfig.model_type:
        raise UserError(
            f"{source} is of model_type {config.model_type!r}, wanted "
            f"{TransformerXLConfig.model_type!r}"
        )
    return model_flags.fitted(config, source, vocab_size, sizes, sizes, FREE)


def _of_length(seq_len: int, given: dict) -> dict:
    """Memory and learned positions of a new model by T."""
    encoding = given.get("encoding", "relative")
    bound = encoding in ("absolute", "per_layer")
    memory = given.get("mem_len", 0 if bound else seq_len)
    sizes = {"mem_len": memory}
    if encoding != "relative":
        sizes["max_positions"] = seq_len + (0 if bound else memory)
    return sizes
