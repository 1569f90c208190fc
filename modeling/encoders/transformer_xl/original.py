"""Transformer-XL's weights in TF1 checkpoints of its authors.

The original keeps queries, keys and values in one kernel [D, 3NH], `r` in
[D, NH] and `o` in [NH, D]; ours are [D, N, H] each. With `untie_r` it stacks u
and v over the layers.
"""

import re

import numpy as np

from common.errors import UserError
from modeling.encoders.transformer_xl.config import TransformerXLConfig
from modeling.encoders.transformer_xl.names import BIASES, LAYER_SCOPE, SCOPE

_BIAS = re.compile(LAYER_SCOPE + r"rel_attn/(?P<bias>r_[wr]_bias)")
_KERNEL = re.compile(LAYER_SCOPE + r"rel_attn/(?P<key>[qkvro])/kernel")


def unstack(
    arrays: dict[str, np.ndarray], config: TransformerXLConfig, source: str
) -> dict[str, np.ndarray]:
    """The original's arrays -> one array per variable of ours.

    Raises UserError: an array of another shape than the configuration's.
    """
    n, h, d = config.n_head, config.d_head, config.d_model
    unstacked = {}
    for name, value in arrays.items():
        short = name.removeprefix(SCOPE)
        if short in BIASES:
            stacked = [config.n_layer] if config.untie_r else []
            _check(name, value, [*stacked, n, h], source)
        if short in BIASES and config.untie_r:
            for i, part in enumerate(value):
                unstacked[f"{SCOPE}layer_{i}/rel_attn/{short}"] = part
        elif name.endswith("rel_attn/qkv/kernel"):
            _check(name, value, [d, 3 * n * h], source)
            parts = np.split(value, 3, axis=1)
            for key, part in zip("qkv", parts, strict=True):
                ours = name.replace("/qkv/", f"/{key}/")
                unstacked[ours] = part.reshape(d, n, h)
        elif name.endswith("rel_attn/r/kernel"):
            _check(name, value, [d, n * h], source)
            unstacked[name] = value.reshape(d, n, h)
        elif name.endswith("rel_attn/o/kernel"):
            _check(name, value, [n * h, d], source)
            unstacked[name] = value.T.reshape(d, n, h)
        else:
            unstacked[name] = value
    return unstacked


def stack(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The opposite of `unstack`; takes gradients, too.

    Raises UserError: of an encoding that TensorFlow's release does not have.
    """
    if not any(name.endswith("rel_attn/r/kernel") for name in arrays):
        raise UserError(
            "the TensorFlow release has relative positions only: a model of "
            "another `encoding` cannot be written in its format"
        )
    stacked, stacks = {}, {}
    for name, value in arrays.items():
        bias, kernel = _BIAS.fullmatch(name), _KERNEL.fullmatch(name)
        flat = value.reshape(len(value), -1) if kernel else None
        if bias:
            stacks.setdefault(bias["bias"], {})[int(bias["layer"])] = value
        elif not kernel:
            stacked[name] = value
        elif kernel["key"] == "r":
            stacked[name] = flat
        elif kernel["key"] == "o":
            stacked[name] = flat.T
        elif kernel["key"] == "q":
            parts = [arrays[name.replace("/q/", f"/{key}/")] for key in "kv"]
            parts = [part.reshape(flat.shape) for part in parts]
            whole = np.concatenate([flat, *parts], 1)
            stacked[name.replace("/q/", "/qkv/")] = whole
    for short, layers in stacks.items():
        stacked[SCOPE + short] = np.stack([layers[i] for i in sorted(layers)])
    return stacked


def _check(name, value, shape, source):
    if list(value.shape) != shape:
        raise UserError(
            f"{source}: `{name}` has shape {list(value.shape)}, wanted {shape} "
            "by the configuration"
        )
