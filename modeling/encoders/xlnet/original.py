"""XLNet's weights in TF1 checkpoints of its authors: stacked biases.

The original stacks what ours keeps per layer: `seg_embed` [L, 2, N, H] and,
with `untie_r`, the three biases [L, N, H]. All other names are the canonical
ones.
"""

import re

import numpy as np

from common.errors import UserError
from modeling.encoders.xlnet.config import XLNetConfig
from modeling.encoders.xlnet.names import BIASES, SCOPE

_PER_LAYER = re.compile(
    re.escape(SCOPE) + r"layer_(\d+)/rel_attn/(seg_embed|r_[wrs]_bias)$"
)


def unstack(
    arrays: dict[str, np.ndarray], config: XLNetConfig, source: str
) -> dict[str, np.ndarray]:
    """The original's arrays -> one array per layer.

    Raises UserError: stacked where it should not be, or the other way round.
    """
    unstacked = {}
    for name, value in arrays.items():
        short = name.removeprefix(SCOPE)
        bias = name.startswith(SCOPE) and short in BIASES
        stacked = name == SCOPE + "seg_embed" or (bias and config.untie_r)
        wanted = (4 if short == "seg_embed" else 3) if stacked else 2
        if (stacked or bias) and value.ndim != wanted:
            raise UserError(
                f"{source}: `{name}` has shape {list(value.shape)}, wanted "
                f"{wanted} axes; is `untie_r` of the config right?"
            )
        if not stacked:
            unstacked[name] = value
            continue
        for i, part in enumerate(value):
            unstacked[f"{SCOPE}layer_{i}/rel_attn/{short}"] = part
    return unstacked


def stack(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """One array per layer -> the original's arrays."""
    stacked, stacks = {}, {}
    for name, value in arrays.items():
        match = _PER_LAYER.match(name)
        if match is None:
            stacked[name] = value
        else:
            layers = stacks.setdefault(match.group(2), {})
            layers[int(match.group(1))] = value
    for short, layers in stacks.items():
        stacked[SCOPE + short] = np.stack([layers[i] for i in sorted(layers)])
    return stacked
