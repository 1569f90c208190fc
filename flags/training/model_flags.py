"""Flags of the architecture: single sizes or a configuration file.

A setting's flag has no value where the file, or the class, is to say it.
"""

from absl import flags

from common.errors import UserError
from flags import flag_values
from modeling.encoders.bert.config import AlbertConfig
from modeling.encoders.contract import EncoderConfig
from modeling.encoders.modernbert.config import ModernBertConfig
from modeling.encoders.registry import (
    DEFAULT,
    changed,
    new_config,
    read_config,
    spec_of,
)
from modeling.encoders.xlnet.config import XLNetConfig

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
OF_BERT = ("embedding_size", "num_groups", "max_position_embeddings")
OF_MODERNBERT = ("local_window", "global_every", "global_theta")
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
    flag_values.define_changes(XLNetConfig, *SIZES, *FREE, **DEFAULTS)
    flag_values.define_changes(AlbertConfig, *OF_BERT)
    flag_values.define_changes(ModernBertConfig, *OF_MODERNBERT)


def define_changes(*names: str) -> None:
    """Registers flags of fields that a run may have otherwise than its file."""
    flag_values.define_changes(
        XLNetConfig, *names, default="the architecture file's"
    )


def changes(*names: str) -> dict:
    """Field -> value, of those that are given."""
    return flag_values.changes(XLNetConfig, *names)


def from_flags(
    vocab_size: int,
    config: EncoderConfig | None = None,
    own: bool = False,
    **defaults,
) -> EncoderConfig:
    """The architecture.

    Sizes of `config`, from elsewhere (beside a checkpoint), are used when there
    is no --model_config_path. If it is the run's `own` that goes on, its
    `mem_len` in `defaults` comes before that of --model_config_path. `defaults`
    are values of fields whose flag is not given. Raises UserError: a size
    contradicts the file, or the vocabulary differs.
    """
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
    sizes = (
        flag_values.changes(XLNetConfig, *SIZES, *FREE)
        | flag_values.changes(AlbertConfig, *OF_BERT)
        | flag_values.changes(ModernBertConfig, *OF_MODERNBERT)
    )
    values = {k: v for k, v in defaults.items() if v is not None} | sizes
    if config is None:
        if kind == DEFAULT:
            values = DEFAULTS | values
        return new_config(kind, vocab_size, values)
    # Of another context: no weight depends on it.
    more = [n for n in getattr(config, "extendable", ()) if FLAGS[n].present]
    source = path or "the checkpoint's configuration"
    return fitted(config, source, vocab_size, sizes, values, (*FREE, *more))


def fitted(
    config: EncoderConfig,
    source: str,
    vocab_size: int,
    given: dict,
    values: dict,
    free: tuple[str, ...],
) -> EncoderConfig:
    """The configuration with the values of its free fields.

    `given` are the values of flags; `values` also what stands for flags that
    are not given. Raises UserError: flags or data contradict it.
    """
    wrong = [
        f"`{name}` wanted {value}, found {getattr(config, name, None)}"
        for name, value in given.items()
        if name not in free
        # A recipe's value is a default and yields to the file.
        and FLAGS[name].present
        and value != getattr(config, name, None)
    ]
    if config.vocab_size != vocab_size:
        wrong.append(
            f"vocabulary of the data {vocab_size}, found {config.vocab_size}"
        )
    if wrong:
        raise UserError(
            f"{source} does not fit: {'; '.join(wrong)}; leave out flags of "
            "other sizes, and take data of its vocabulary"
        )
    return changed(config, {k: v for k, v in values.items() if k in free})
