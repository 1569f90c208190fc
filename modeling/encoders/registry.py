"""The encoders by `model_type`, and the one reader of their files."""

import dataclasses
import os
from typing import Any

from common import files
from common.errors import UserError
from common.references import resolve
from modeling.encoders import sizes
from modeling.encoders.contract import Capabilities, EncoderConfig

# Configuration files that name no `model_type`: the original's.
DEFAULT = "xlnet"


@dataclasses.dataclass(frozen=True)
class EncoderSpec:
    """An encoder's row."""

    model_type: str
    config: str  # "module:class" of its configuration
    model: str  # "module:class" of its `Encoder`
    groups: str  # "module:name" of its rules for the optimizer's groups
    # "module:class" of its names in Hugging Face folders; "" = there are none
    hugging_face: str
    config_file: str
    capabilities: Capabilities
    # "module" that stacks and unstacks its arrays for TF1 checkpoints; "" =
    # there are none
    original: str = ""
    # "module" that reads the `state_dict` of its PyTorch release; "" = there is
    # none
    state_dict: str = ""
    # "module:function" that gives a model first weights with which heads attend
    # to their neighbours; "" = there is none
    nearest_attention: str = ""
    # "module:class" of what makes logits of hidden states
    lm_head: str = "modeling.heads.language_model:LanguageModelHead"
    # "module:class" of what makes one vector of a row
    pooler: str = "modeling.heads.pooling:SequenceSummary"


_XLNET = "modeling.encoders.xlnet"
_BERT = "modeling.encoders.bert"
_MODERN = "modeling.encoders.modernbert"
# Rows are read from left to right, CLS first, without memory.
_ONE_STREAM = Capabilities(
    memory=False,
    query_stream=False,
    directions=1,
    layout="cls_first",
    packed_rows=True,
)
_TRANSFORMER_XL = "modeling.encoders.transformer_xl"
ENCODERS = {
    row.model_type: row
    for row in (
        EncoderSpec(
            model_type="xlnet",
            config=f"{_XLNET}.config:XLNetConfig",
            model=f"{_XLNET}.backbone:XLNetModel",
            groups=f"{_XLNET}.names:GROUPS",
            hugging_face=f"{_XLNET}.names:HuggingFace",
            config_file="xlnet_config.json",
            capabilities=Capabilities(
                memory=True,
                query_stream=True,
                directions=2,
                layout="cls_last",
                packed_rows=True,
            ),
            original=f"{_XLNET}.original",
            nearest_attention=f"{_XLNET}.nearest_attention:attend_to_nearest",
        ),
        EncoderSpec(
            model_type="bert",
            config=f"{_BERT}.config:BertConfig",
            model=f"{_BERT}.backbone:BertModel",
            groups=f"{_BERT}.names:GROUPS",
            hugging_face=f"{_BERT}.names:HuggingFace",
            config_file="config.json",
            capabilities=_ONE_STREAM,
            nearest_attention=f"{_BERT}.nearest_attention:attend_to_nearest",
            lm_head=f"{_BERT}.heads:BertLanguageModelHead",
        ),
        EncoderSpec(
            model_type="albert",
            config=f"{_BERT}.config:AlbertConfig",
            model=f"{_BERT}.backbone:BertModel",
            groups=f"{_BERT}.names:ALBERT_GROUPS",
            hugging_face=f"{_BERT}.names:AlbertHuggingFace",
            config_file="config.json",
            capabilities=_ONE_STREAM,
            nearest_attention=f"{_BERT}.nearest_attention:attend_to_nearest",
            lm_head=f"{_BERT}.heads:BertLanguageModelHead",
        ),
        EncoderSpec(
            model_type="modernbert",
            config=f"{_MODERN}.config:ModernBertConfig",
            model=f"{_MODERN}.backbone:ModernBertModel",
            groups=f"{_MODERN}.names:GROUPS",
            hugging_face=f"{_MODERN}.names:HuggingFace",
            config_file="config.json",
            capabilities=_ONE_STREAM,
            lm_head=f"{_MODERN}.heads:ModernBertLanguageModelHead",
            pooler=f"{_MODERN}.heads:ModernBertSummary",
        ),
        EncoderSpec(
            model_type="transformer_xl",
            config=f"{_TRANSFORMER_XL}.config:TransformerXLConfig",
            model=f"{_TRANSFORMER_XL}.backbone:TransformerXLModel",
            groups=f"{_TRANSFORMER_XL}.names:GROUPS",
            hugging_face="",
            config_file="transformer_xl_config.json",
            capabilities=Capabilities(
                memory=True,
                query_stream=False,
                directions=1,
                layout="stream",
            ),
            original=f"{_TRANSFORMER_XL}.original",
            state_dict=f"{_TRANSFORMER_XL}.torch_names",
        ),
    )
}


def spec_of(model_type: str) -> EncoderSpec:
    """The row of a `model_type`; UserError lists them where there is none."""
    if not isinstance(model_type, str) or model_type not in ENCODERS:
        raise UserError(
            f"model_type must be one of {list(ENCODERS)}, found {model_type!r}"
        )
    return ENCODERS[model_type]


def require(config: EncoderConfig, ability: str, asked: str) -> None:
    """Stops what an encoder cannot do, by a field of `Capabilities`.

    `asked` is what needs it, e.g. "--mem_len". Raises UserError: the encoder
    lacks it; the message lists those that have it.
    """
    able = [n for n, s in ENCODERS.items() if getattr(s.capabilities, ability)]
    if config.model_type not in able:
        raise UserError(
            f"{asked} needs an encoder with {ability.replace('_', ' ')} "
            f"({', '.join(able)}), found model_type {config.model_type!r}"
        )


def require_length(config: EncoderConfig, max_seq_length: int) -> None:
    """Raises UserError where rows are longer than the encoder has places."""
    longest = getattr(config, "max_position_embeddings", None)
    if longest is not None and max_seq_length > longest:
        raise UserError(
            f"--max_seq_length must be at most {longest} "
            f"(max_position_embeddings of this {config.model_type}), found "
            f"{max_seq_length}"
        )


def new_config(
    model_type: str, vocab_size: int, values: dict[str, Any]
) -> EncoderConfig:
    """The configuration of a new model.

    Fields that `values` lack are those of the base size. Raises UserError: a
    field that this encoder has not, or an invalid value.
    """
    config_class = resolve(spec_of(model_type).config)
    if values.get("mem_len"):
        require(config_class, "memory", "--mem_len")
    names = {field.name for field in dataclasses.fields(config_class)}
    fields = {k: v for k, v in values.items() if k in names}
    config = config_class.base(vocab_size, **fields)
    for name, value in values.items():
        # Some are a function of others here, as the size of a head is.
        fixed = getattr(config, name, None)
        if name not in names and value and fixed != value:
            raise UserError(
                f"--{name}={value}: an encoder of model_type {model_type!r} "
                + (f"has {fixed}" if fixed else "has no such setting")
                + "; leave it out"
            )
    return config


def changed(config: EncoderConfig, changes: dict[str, Any]) -> EncoderConfig:
    """A copy with the fields that flags of the same names give.

    Raises UserError: a field that this encoder has not, or an invalid value.
    """
    if changes.get("mem_len"):
        require(config, "memory", "--mem_len")
    names = {field.name for field in dataclasses.fields(config)}
    for name, value in changes.items():
        if name not in names and value:
            raise UserError(
                f"--{name}={value}: an encoder of model_type "
                f"{config.model_type!r} has no such setting; leave it out"
            )
    return config.replace(**{k: v for k, v in changes.items() if k in names})


def config_from_dict(value: dict | EncoderConfig) -> EncoderConfig:
    """A configuration from its `to_dict()` or file; one that is one stays.

    Raises UserError: an unknown `model_type`, fields missing or invalid.
    """
    if not isinstance(value, dict):
        return value
    fields = dict(value)
    spec = spec_of(fields.pop("model_type", DEFAULT))
    return resolve(spec.config).from_dict(fields)


def read_config(path: str) -> EncoderConfig:
    """Reads a configuration file; without a `model_type` it is an XLNet's.

    Raises UserError: no such file, no JSON object, a field missing or invalid.
    """
    path = os.fspath(path)
    value = files.read_json_object(
        path, "give the configuration file of the model"
    )
    try:
        return config_from_dict(value)
    except UserError as e:
        raise UserError(f"{path}: {e}") from e


def write_config(folder: str, config: EncoderConfig) -> str:
    """Writes the configuration file of a model folder; returns its path."""
    path = config_path(folder, config)
    files.write_text(path, config.to_json())
    return path


def config_path(folder: str, config: EncoderConfig) -> str:
    """Of the configuration file in a model folder."""
    return os.path.join(folder, spec_of(config.model_type).config_file)


def config_file_in(folder: str) -> str | None:
    """The path of the configuration file that a folder holds, or None.

    A Hugging Face folder's file counts for encoders whose own it is, not for
    XLNet: `modeling.checkpoints.hf` reads that.
    """
    for name in dict.fromkeys(s.config_file for s in ENCODERS.values()):
        path = os.path.join(folder, name)
        if files.exists(path) and _is_own(path, name):
            return path
    return None


def _is_own(path: str, name: str) -> bool:
    value = files.read_json_object(
        path, "give the configuration file of the model"
    )
    model_type = value.get("model_type", DEFAULT)
    known = isinstance(model_type, str)  # else the reader says what is wrong
    spec = ENCODERS.get(model_type) if known else None
    return spec is None or spec.config_file == name


def config_file_names() -> str:
    """For messages: the files that are looked for."""
    return " or ".join(sorted({s.config_file for s in ENCODERS.values()}))


def build_encoder(config: EncoderConfig, **options) -> Any:
    """A `modeling.encoders.base.Encoder` with all of its variables.

    Options are its own (`Encoder.options`), and those of `tf_keras.Model`.
    Raises UserError: its weights do not fit into the memory that is left.
    """
    sizes.check(config)
    return encoder_class(config)(config, **options)


def encoder_class(config: EncoderConfig) -> type:
    """The class that `build_encoder` calls."""
    return resolve(spec_of(config.model_type).model)
