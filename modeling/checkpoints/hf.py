"""Hugging Face folders: `config.json` and `model.safetensors`, without torch.

Their dense kernels are transposed; everything else has the shape of ours. Two
facts differ in the config: "gelu" there is the exact form (ours: "gelu_erf";
the original's tanh form is "gelu_new" there), and biases are always per layer.
"""

import os
from typing import Any

import numpy as np

from common import files, heads
from common.errors import UserError
from modeling.encoders.xlnet.config import XLNetConfig

CONFIG = "config.json"
WEIGHTS = "model.safetensors"

# Canonical name -> their name, is it a transposed dense kernel?
_ENCODER = {
    "word_embedding/lookup_table": ("word_embedding.weight", False),
    "mask_emb/mask_emb": ("mask_emb", False),
}
_LAYER = {
    **{f"rel_attn/{n}/kernel": (f"rel_attn.{n}", False) for n in "qkvor"},
    **{
        f"rel_attn/{n}": (f"rel_attn.{n}", False)
        for n in ("r_w_bias", "r_r_bias", "r_s_bias", "seg_embed")
    },
    "rel_attn/LayerNorm/gamma": ("rel_attn.layer_norm.weight", False),
    "rel_attn/LayerNorm/beta": ("rel_attn.layer_norm.bias", False),
    "ff/LayerNorm/gamma": ("ff.layer_norm.weight", False),
    "ff/LayerNorm/beta": ("ff.layer_norm.bias", False),
    "ff/layer_1/kernel": ("ff.layer_1.weight", True),
    "ff/layer_1/bias": ("ff.layer_1.bias", False),
    "ff/layer_2/kernel": ("ff.layer_2.weight", True),
    "ff/layer_2/bias": ("ff.layer_2.bias", False),
}


_TIED = "lm_loss.weight"
_EMBEDDING = "transformer.word_embedding.weight"
_SCOPE = "model/transformer/"
_BIASES = ("r_w_bias", "r_r_bias", "r_s_bias")
_ACTIVATIONS = {"gelu": "gelu_erf", "gelu_new": "gelu", "relu": "relu"}
_SAME_KEYS = (
    "vocab_size",
    "d_model",
    "n_layer",
    "n_head",
    "d_inner",
    "untie_r",
    "attn_type",
    "same_length",
    "clamp_len",
    "dropout",
    "mem_len",
    "reuse_len",
)


def read_config(folder: str) -> XLNetConfig:
    """`config.json` as ours; their other keys stay in `extra["hf"]`.

    Raises:
      UserError: missing, not of an XLNet, or with a setting we have not.
    """
    theirs = _read_json(folder)
    path = os.path.join(folder, CONFIG)
    if theirs.get("model_type") != "xlnet":
        raise UserError(
            f"{path}: wanted model_type 'xlnet', found "
            f"{theirs.get('model_type')!r}"
        )
    activation = theirs.get("ff_activation", "gelu")
    if activation not in _ACTIVATIONS:
        raise UserError(
            f"{path}: wanted ff_activation one of {list(_ACTIVATIONS)}, found "
            f"{activation!r}"
        )
    epsilon = theirs.get("layer_norm_eps", 1e-12)
    if epsilon != 1e-12:
        raise UserError(f"{path}: wanted layer_norm_eps 1e-12, found {epsilon}")
    missing = [k for k in ("d_model", "n_head") if k not in theirs]
    if missing:
        raise UserError(f"{path} lacks {missing}")
    known = {k: theirs[k] for k in _SAME_KEYS if k in theirs}
    # Theirs has one rate for everything; ours writes its own beside it.
    ours = theirs.get("xlnet_config", {})
    known |= {
        "d_head": theirs["d_model"] // theirs["n_head"],
        "ff_activation": _ACTIVATIONS[activation],
        "dropatt": ours.get("dropatt", theirs.get("dropout", 0.1)),
        "init_std": theirs.get("initializer_range", 0.02),
    }
    known |= {k: v for k, v in ours.items() if k != "dropatt"}
    try:
        return XLNetConfig.from_dict(known | {"extra": {"hf": theirs}})
    except UserError as e:
        raise UserError(f"{path}: {e}") from e


def write_config(
    folder: str,
    config: XLNetConfig,
    head: str,
    arrays: dict[str, np.ndarray],
) -> None:
    """Writes `config.json`; what theirs cannot say goes to `xlnet_config`.

    Args:
      folder: existing.
      config: ours.
      head: of `table.NAMES`.
      arrays: weights by canonical name, which tell the number of labels.
    """
    if config.n_head * config.d_head != config.d_model:
        raise UserError(
            f"Hugging Face's XLNet needs n_head * d_head = d_model, found "
            f"{config.n_head} * {config.d_head} and {config.d_model}"
        )
    theirs = dict(config.extra.get("hf", {}))
    read_back = dict(theirs)
    activations = {ours: name for name, ours in _ACTIVATIONS.items()}
    theirs |= {
        key: getattr(config, key)
        for key in _SAME_KEYS
        # Recent versions leave this key out: there it is always true.
        if key != "untie_r" or key in theirs or not config.untie_r
    }
    theirs |= {
        "model_type": "xlnet",
        "architectures": [class_name(head)],
        "ff_activation": activations[config.ff_activation],
        "layer_norm_eps": 1e-12,
        "initializer_range": config.init_std,
    }
    if not read_back:
        theirs["d_head"] = config.d_head
        theirs["summary_activation"] = "tanh"
        theirs["summary_last_dropout"] = config.dropout
    outputs = _outputs(head, arrays)
    labels = len(theirs.get("id2label", {})) or theirs.get("num_labels", 2)
    if outputs is not None and labels != outputs:
        names = [f"LABEL_{i}" for i in range(outputs)]
        theirs["id2label"] = {str(i): name for i, name in enumerate(names)}
        theirs["label2id"] = {name: i for i, name in enumerate(names)}
    beside = _beside(config)
    theirs.pop("xlnet_config", None)
    if beside:
        theirs["xlnet_config"] = beside
    files.write_json(os.path.join(folder, CONFIG), theirs)


def _beside(config: XLNetConfig) -> dict[str, Any]:
    """Settings that their config has no key for, where they matter."""
    plain = {
        "dropatt": config.dropout,
        "activation_dropout": None,
        "init_method": "normal",
        "init_range": 0.1,
    }
    return {
        key: getattr(config, key)
        for key, value in plain.items()
        if getattr(config, key) != value
    }


def name_table(n_layer: int, head: str) -> dict[str, tuple[str, bool]]:
    """Canonical name -> (their name, transposed) for one head."""
    table = {
        _SCOPE + ours: (f"transformer.{theirs}", flip)
        for ours, (theirs, flip) in _ENCODER.items()
    }
    for i in range(n_layer):
        for ours, (theirs, flip) in _LAYER.items():
            table[f"{_SCOPE}layer_{i}/{ours}"] = (
                f"transformer.layer.{i}.{theirs}",
                flip,
            )
    return table | (heads.HEADS[head].hf_names if head != heads.ENCODER else {})


def class_name(head: str) -> str:
    """Their class of a head of `table.NAMES`."""
    if head == heads.ENCODER:
        return "XLNetModel"
    return "XLNet" + heads.HEADS[head].hf_class


def find_head(theirs, config: dict[str, Any]) -> str:
    """The head of a set of their names.

    Sequence classification, regression and multiple choice have the same
    names: the configuration or, at last, the number of outputs tells.
    """
    present = [
        row
        for row in heads.with_weights().values()
        if row.hf_names[row.marker[0]][0] in theirs
    ]
    if not present:
        return heads.ENCODER
    classes = config.get("architectures") or []
    named = [r for r in present if class_name(r.name) in classes]
    row = (named or present)[0]
    if row.name == "classification":
        one = theirs["logits_proj.weight"].shape[0] == 1
        if one or config.get("problem_type") == "regression":
            return "regression"
    return row.name


def read_weights(
    folder: str, config: XLNetConfig
) -> tuple[dict[str, np.ndarray], str]:
    """`model.safetensors` by canonical name, and its head.

    Raises:
      UserError: unreadable, a tensor that no name takes, or untied weights
        where the model ties them.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    path = os.path.join(folder, WEIGHTS)
    try:
        theirs = load_file(path)
    except (SafetensorError, OSError) as e:
        raise UserError(f"{path} is no readable safetensors file: {e}") from e
    if theirs and not any(name.startswith("transformer.") for name in theirs):
        theirs = {f"transformer.{name}": v for name, v in theirs.items()}
    head = find_head(theirs, _read_json(folder))
    table = name_table(config.n_layer, head)
    arrays, left = {}, dict(theirs)
    for ours, (name, flip) in table.items():
        if name in left:
            value = left.pop(name)
            arrays[ours] = np.ascontiguousarray(value.T) if flip else value
    tied = left.pop(_TIED, None)
    if tied is not None and not np.array_equal(tied, theirs[_EMBEDDING]):
        raise UserError(
            f"{path}: `{_TIED}` differs from `{_EMBEDDING}`: only tied "
            "language models are supported"
        )
    if left:
        raise UserError(
            f"{path}: no variable takes {sorted(left)[:5]} "
            f"({len(left)} tensors in all)"
        )
    if not config.untie_r:
        _share_biases(arrays, config.n_layer, path)
    return arrays, head


def _share_biases(arrays, n_layer, path):
    """Their per-layer copies -> one shared bias."""
    for bias in _BIASES:
        keys = [f"{_SCOPE}layer_{i}/rel_attn/{bias}" for i in range(n_layer)]
        copies = [arrays.pop(key) for key in keys if key in arrays]
        if not copies:
            continue
        if any(not np.array_equal(copies[0], copy) for copy in copies):
            raise UserError(
                f"{path}: the config says untie_r false, but `{bias}` differs "
                "among the layers"
            )
        arrays[_SCOPE + bias] = copies[0]


def write_weights(
    folder: str, arrays: dict[str, np.ndarray], config: XLNetConfig, head: str
) -> None:
    """Writes `model.safetensors`, every array consumed.

    Raises:
      UserError: an array that their class has no place for.
    """
    from safetensors.numpy import save_file

    arrays = dict(arrays)
    if not config.untie_r:
        for bias in _BIASES:
            shared = arrays.pop(_SCOPE + bias)
            for i in range(config.n_layer):
                arrays[f"{_SCOPE}layer_{i}/rel_attn/{bias}"] = shared
    table = name_table(config.n_layer, head)
    surplus = sorted(set(arrays) - set(table))
    if surplus:
        raise UserError(
            f"{class_name(head)} has no place for {surplus[:5]} "
            f"({len(surplus)} variables)"
        )
    theirs = {}
    for ours, value in arrays.items():
        name, flip = table[ours]
        if head == "encoder":
            name = name.removeprefix("transformer.")
        value = np.asarray(value, np.float32)
        theirs[name] = np.ascontiguousarray(value.T if flip else value)
    with files.atomic_path(os.path.join(folder, WEIGHTS)) as path:
        save_file(theirs, path, {"format": "pt"})


def _read_json(folder: str) -> dict[str, Any]:
    return files.read_json_object(
        os.path.join(folder, CONFIG), "wanted a Hugging Face folder"
    )


def _outputs(head: str, arrays: dict[str, np.ndarray]) -> int | None:
    """Number of labels, None for heads without."""
    row = heads.HEADS.get(head)
    if row is None or not row.counts_outputs:
        return None
    return arrays[row.marker[0]].shape[-1]
