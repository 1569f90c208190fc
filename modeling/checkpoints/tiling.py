"""A larger model's first weights from a smaller one's (ModernBERT, section 2.2).

Matrices are tiled from the middle: large[r, c] = small[(r - r0) mod h,
(c - c0) mod w] with r0 = (H - h) // 2, c0 = (W - w) // 2. What is several
matrices beside each other (queries, keys and values; the halves of a gated
layer) is tiled part by part, what has an axis per head as the matrix that it is.
New layer i begins as old layer round(i * old / new), halves to the even one,
and as the last one where that is beyond it.
"""

import re

import numpy as np
import tf_keras

from common.errors import UserError
from modeling.checkpoints.names import named_variables
from modeling.encoders.contract import EncoderConfig

TYPES = ("bert", "albert", "modernbert")
# None of them may shrink: tiling would cut the middle out.
_SIZES = ("d_model", "d_embedding", "d_inner", "n_layer")
# Of the scope, not of a feed-forward's two matrices.
_LAYER = re.compile(r"^(model/\w+/(?:layer|group)_)(\d+)/")
# ModernBERT's first layer has no such norm, but a later one may begin as it.
_ABSENT = "model/modernbert/layer_0/attention/LayerNorm/gamma"


def center_tile(small: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """`small` repeated around the middle of an array of `shape`, any rank."""
    large = small
    for axis, (old, new) in enumerate(zip(small.shape, shape, strict=True)):
        places = (np.arange(new) - (new - old) // 2) % old
        large = np.take(large, places, axis)
    return large


def tile_parts(
    small: np.ndarray, shape: tuple[int, ...], parts: int
) -> np.ndarray:
    """`center_tile` of each of `parts` equal parts of the last axis."""
    own = (*shape[:-1], shape[-1] // parts)
    split = np.split(small, parts, -1)
    return np.concatenate([center_tile(part, own) for part in split], -1)


def layer_mapping(old: int, new: int) -> list[int]:
    """The old layer that each of `new` layers begins as."""
    return [min(round(i * old / new), old - 1) for i in range(new)]


def grow(
    arrays: dict[str, np.ndarray],
    config: EncoderConfig,
    model: tf_keras.Model,
) -> list[str]:
    """Gives a larger model of the same encoder and head a smaller one's arrays.

    Returns canonical names that keep their first values: a layer that had no
    norm. Raises UserError: another encoder, vocabulary or number of positions,
    a size that shrinks, or a variable that the smaller one lacks.
    """
    wanted = model.config
    if config.model_type != wanted.model_type or wanted.model_type not in TYPES:
        raise UserError(
            f"--grow_to is for {', '.join(TYPES)} and keeps the model_type: "
            f"wanted {config.model_type!r}, found {wanted.model_type!r}"
        )
    for size in _SIZES:
        before, after = getattr(config, size, 0), getattr(wanted, size, 0)
        if after < before:
            raise UserError(
                f"--grow_to is for a larger model: wanted `{size}` of {before} "
                f"or more, found {after}"
            )
    old, new = config.n_layer, wanted.n_layer
    if wanted.model_type == "albert":
        old, new = config.num_groups, wanted.num_groups
    layers = layer_mapping(old, new)
    fresh = []
    for name, variable in named_variables(model).items():
        source = _LAYER.sub(lambda m: f"{m[1]}{layers[int(m[2])]}/", name)
        if source not in arrays:
            if source != _ABSENT:
                raise UserError(
                    f"--grow_to: `{name}` begins as `{source}`, which the "
                    "input lacks: give a configuration of the same kind of "
                    "model"
                )
            fresh.append(name)
            continue
        shape = tuple(variable.shape)
        variable.assign(_tiled(name, arrays[source], shape))
    return fresh


def _tiled(name: str, small: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """One variable; see the module."""
    rows = name.endswith(("lookup_table", "lm_loss/bias"))
    if rows and small.shape[0] != shape[0]:
        raise UserError(
            f"--grow_to keeps vocabulary, segments and positions: `{name}` has "
            f"{small.shape[0]} rows, wanted {shape[0]}"
        )
    parts, heads = 1, False
    if name.endswith("attention/qkv/kernel"):  # [D, 3, N, H]
        parts, heads = 3, True
    elif re.search(r"attention/[qkvo]/kernel$", name):  # [D, N, H]
        heads = True
    elif re.search(r"attention/[qkv]/bias$", name):  # [N, H]
        return center_tile(small.reshape(-1), (np.prod(shape),)).reshape(shape)
    elif "modernbert" in name and name.endswith("ff/layer_1/kernel"):
        parts = 2
    if heads:
        flat = (shape[0], int(np.prod(shape[1:])))
        small = small.reshape(small.shape[0], -1)
        return tile_parts(small, flat, parts).reshape(shape)
    return tile_parts(small, shape, parts)
