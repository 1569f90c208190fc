"""What a sentence-transformers folder says of its sentence vectors.

`modules.json` lists the parts: an encoder, a pooling and, often, a
normalisation. A text is one row `CLS pieces SEP`, cut to `max_seq_length`
tokens; CLS and SEP enter the pooling.

Source: Reimers and Gurevych, 2019 (Sentence-BERT), section 3.
"""

import dataclasses
import json
import os

import numpy as np

from common import files
from common.errors import UserError
from common.vocabularies import joined_texts, vocabulary
from data.text.opening import AnyTokenizer
from serving.options import SIMILARITIES

MODULES = "modules.json"
# Of the encoder's part; the first that is there counts.
_LENGTHS = tuple(
    f"sentence_{kind}_config.json"
    for kind in ("bert", "roberta", "distilbert", "camembert", "albert")
) + ("sentence_xlm-roberta_config.json", "sentence_xlnet_config.json")
_TOKENIZER = "tokenizer_config.json"
_PROMPTS = "config_sentence_transformers.json"
_CASED = "The QUICK Brown FOX Jumps"  # cut otherwise in small letters
_ENCODER, _POOLING, _NORMALIZE = "Transformer", "Pooling", "Normalize"
# How one vector is made: "pooling_mode" of the pooling's file since version 6
# of the other program. Before it one of these members was true.
_POOLINGS = ("cls", "mean", "max")
_MODE = "pooling_mode"
_MODES = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_max_tokens": "max",
}
# Members of the encoder's file that say what the encoder gives -> what is made
# here.
_OUTPUTS = {
    "transformer_task": "feature-extraction",
    "module_output_name": "token_embeddings",
}
_STATES = {"method": "forward", "method_output_name": "last_hidden_state"}
# Members with arguments of the classes that read the folder -> arguments that
# change no vector, but by the rounding of a type.
_READING = ("use_fast", "trust_remote_code")
_ARGUMENTS = {
    "processor_kwargs": _READING,
    "tokenizer_args": _READING,
    "config_kwargs": _READING,
    "config_args": _READING,
    "model_kwargs": (
        *_READING,
        "add_pooling_layer",
        "attn_implementation",
        "device_map",
        "dtype",
        "low_cpu_mem_usage",
        "torch_dtype",
        "use_safetensors",
    ),
}
_ARGUMENTS["model_args"] = _ARGUMENTS["model_kwargs"]
_MOST = 1 << 31  # a tokenizer without a length has a larger number


@dataclasses.dataclass(frozen=True)
class SentenceFolder:
    """How a row's vectors become one."""

    pooling: str  # "cls", "mean" or "max", over all tokens of the row
    normalize: bool  # divide by the Euclidean length
    # tokens of a row with CLS and SEP; 0 = the encoder's positions
    max_seq_length: int
    dimensions: int = 0  # the first so many numbers of a vector; 0 = all
    similarity: str = (
        "cosine"  # how two vectors are compared, of `SIMILARITIES`
    )

    def vector(self, states: np.ndarray) -> np.ndarray:
        """float32 [D] of a row's hidden states [n, D]."""
        states = states.astype(np.float64)
        if self.pooling == "cls":
            pooled = states[0]
        elif self.pooling == "mean":
            pooled = states.mean(0)
        else:
            pooled = states.max(0)
        if self.normalize:
            pooled = pooled / max(np.linalg.norm(pooled), 1e-12)
        return pooled[: self.dimensions or None].astype(np.float32)


def read(folder: str, tokenizer: AnyTokenizer) -> SentenceFolder | None:
    """Reads `modules.json` and the files it names; None without one.

    The tokenizer is the folder's. Raises UserError: a file is damaged, a part
    is of an unknown kind, or texts are to be changed before they are cut.
    """
    path = os.path.join(folder, MODULES)
    if not files.exists(path):
        return None
    modules = _json(path, list)
    if not all(isinstance(module, dict) for module in modules):
        raise UserError(f"{path}: wanted a JSON list of objects; copy it again")
    kinds = [str(module.get("type", "")).split(".")[-1] for module in modules]
    if kinds not in (
        [_ENCODER, _POOLING],
        [_ENCODER, _POOLING, _NORMALIZE],
    ):
        raise UserError(
            f"{path}: wanted the modules {_ENCODER}, {_POOLING} and perhaps "
            f"{_NORMALIZE}, found {', '.join(kinds) or 'none'}; give --pooling "
            "to make vectors of the encoder alone"
        )
    pooling = _pooling(_inside(folder, path, str(modules[1].get("path", ""))))
    _check_outputs(_encoder_file(folder))
    _check_texts(folder, tokenizer)
    return SentenceFolder(
        pooling,
        len(kinds) == 3,
        longest(folder),
        _dimensions(folder),
        _similarity(folder),
    )


def _encoder_file(folder: str) -> str:
    """The file of the encoder's part: older ones have its kind in their name."""
    paths = [os.path.join(folder, name) for name in _LENGTHS]
    return next(filter(files.exists, paths), paths[0])


def _dimensions(folder: str) -> int:
    """Numbers of a vector that are kept; 0 = all."""
    path, name = os.path.join(folder, _PROMPTS), "truncate_dim"
    count = _settings(path).get(name)
    if count is not None and (type(count) is not int or count < 1):
        raise UserError(
            f"{path}: {name}: wanted null or a number from 1 on, found "
            f"{str(count)[:20]!r}; copy the folder again"
        )
    return count or 0


def _similarity(folder: str) -> str:
    """How the folder's program compares vectors; cosines where it is silent."""
    path, name = os.path.join(folder, _PROMPTS), "similarity_fn_name"
    kind = _settings(path).get(name)
    if kind is None:
        return SIMILARITIES[0]
    if kind not in SIMILARITIES:
        raise UserError(
            f"{path}: {name}: wanted one of {', '.join(SIMILARITIES)}, found "
            f"{str(kind)[:20]!r}; give --pooling to make vectors of the encoder "
            "alone"
        )
    return kind


def _pooling(path: str) -> str:
    """What the file of the pooling says, of either form."""
    about = _json(path, dict)
    if about.get(_MODE) is None:
        found = [
            name
            for name, value in about.items()
            if name.startswith(f"{_MODE}_") and value is True
        ]
        wanted = f"one of {', '.join(_MODES)} to be true"
    else:
        found = about[_MODE]
        found = found if isinstance(found, list) else [found]
        wanted = f"{_MODE} to be one of {', '.join(_POOLINGS)}"
    names = [_MODES.get(str(name), name) for name in found]
    if len(names) != 1 or names[0] not in _POOLINGS:
        raise UserError(
            f"{path}: wanted {wanted}, found "
            f"{', '.join(map(str, found))[:80] or 'none'}; give --pooling to "
            "make vectors of the encoder alone"
        )
    return names[0]


def _check_outputs(path: str) -> None:
    """UserError: the encoder's part gives other vectors than its last layer."""
    about = _settings(path)
    states = about.get("modality_config")
    states = states.get("text", {}) if isinstance(states, dict) else {}
    wanted = _OUTPUTS | {"modality_config": _STATES, "processing_kwargs": {}}
    for name, usual in wanted.items():
        value = states if name == "modality_config" else about.get(name)
        if value and value != usual:
            raise UserError(
                f"{path}: the encoder's {name}: wanted {usual or 'none'}, found "
                f"{str(value)[:80]}; give --pooling to make vectors of the "
                "encoder alone"
            )
    for name, harmless in _ARGUMENTS.items():
        found = about.get(name) or {}
        names = found if isinstance(found, dict) else (found,)
        others = [n for n in names if n not in harmless]
        if others:
            raise UserError(
                f"{path}: {name}: wanted none that change a vector, found "
                f"{', '.join(map(str, others))[:80]}; give --pooling to make "
                "vectors of the encoder alone"
            )


def longest(folder: str) -> int:
    """Tokens of a row with CLS and SEP that a folder allows; 0 = any number.

    Where the file of the encoder's part does not say it, the tokenizer of a
    sentence-transformers folder does.
    """
    path, name = _encoder_file(folder), "max_seq_length"
    length = _settings(path).get(name)
    if not length and files.exists(os.path.join(folder, MODULES)):
        path, name = os.path.join(folder, _TOKENIZER), "model_max_length"
        length = _settings(path).get(name)
        if isinstance(length, int | float) and length >= _MOST:
            return 0
    length = length or 0
    if type(length) is not int or not (length == 0 or 3 <= length < _MOST):
        raise UserError(
            f"{path}: {name}: wanted a number of tokens, at least 3 "
            f"(a piece beside CLS and SEP), found {str(length)[:20]!r}"
        )
    return length


def _check_texts(folder: str, tokenizer: AnyTokenizer) -> None:
    """UserError: texts are changed before they are cut, which is not done."""
    otherwise = "give --pooling to make vectors of the encoder alone"
    vocabulary.check_cut(folder, otherwise)
    joined_texts.check_frame(tokenizer.vocabulary, otherwise)
    path = _encoder_file(folder)
    lowers = _settings(path).get("do_lower_case")
    if lowers and tokenizer.encode(_CASED) != tokenizer.encode(_CASED.lower()):
        raise UserError(
            f"{path}: do_lower_case is true, but {tokenizer.path} keeps the "
            "case: wanted false, or a tokenizer that lowers it; give --pooling "
            "to make vectors of the encoder alone"
        )
    path = os.path.join(folder, _PROMPTS)
    about = _settings(path)
    name, prompts = about.get("default_prompt_name"), about.get("prompts")
    known = isinstance(name, str) and isinstance(prompts, dict)
    prompt = prompts.get(name) if known else None
    if prompt:
        raise UserError(
            f"{path}: default_prompt_name is {name[:40]!r}: its prompt "
            f"{str(prompt)[:60]!r} comes before every text, which is not added "
            "here; set it to null and write the prompt into the texts, or give "
            "--pooling to make vectors of the encoder alone"
        )


def _settings(path: str) -> dict:
    """The object of a file; {} without one."""
    return _json(path, dict) if files.exists(path) else {}


def _inside(folder: str, path: str, name: str) -> str:
    """The configuration of a part, which must not lie elsewhere."""
    parts = name.replace("\\", "/").split("/")
    if ".." in parts or os.path.isabs(name) or files.is_remote(name):
        raise UserError(
            f"{path}: wanted the path of a part within the folder, found "
            f"{name[:60]!r}; copy the folder again"
        )
    return os.path.join(folder, name, "config.json")


def _json(path: str, kind: type):
    try:
        value = json.loads(files.read_bytes(path))
    except (OSError, ValueError, RecursionError) as e:
        raise UserError(
            f"{path}: wanted a file of a sentence-transformers folder, but {e}"
        ) from e
    if not isinstance(value, kind):
        raise UserError(
            f"{path}: wanted a JSON {kind.__name__}, found "
            f"{type(value).__name__}"
        )
    return value
