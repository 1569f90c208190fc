"""First weights with which half of the heads attend to one of the nearest tokens.

A model with them leaves the unigram plateau sooner
(docs/explanation/small_models/unigram_plateau.md). Letters: N heads, H head size,
R distances, D model.
"""

import numpy as np
import tensorflow as tf

from common.errors import UserError
from modeling.attention.positions import sinusoids
from modeling.encoders.xlnet.backbone import XLNetModel
from modeling.ops.initializers import neighbour_distances

SLOPE = 8.0  # nats that a score falls by per token from the head's neighbour
DEPTH = 20.0  # nats that it falls by at most
SPAN = 128  # distances -SPAN + 1 to SPAN are fitted
RIDGE = 1e-2  # of the fit, times the mean squared singular value


def attend_to_nearest(encoder: XLNetModel) -> None:
    """Sets v (`r_r_bias`), so that position scores peak at a neighbour.

      v (R_d W_kR) / sqrt(H) = constant - min(SLOPE |d - o|, DEPTH)

    as nearly as v [H] of a head can, by least squares; o is the head's distance
    of `neighbour_distances`. Heads without one and all else stay. With
    `bi_data` the backward rows see the mirrored neighbour.

    Raises UserError: the layers share v, but have W_kR of their own.
    """
    config = encoder.config
    if not config.untie_r:
        raise UserError(
            "--init_attention=nearest needs --untie_r: one r_r_bias cannot fit "
            f"the r kernels of {config.n_layer} layers; or give "
            "--init_attention=random"
        )
    table = sinusoids.sinusoid_table(
        SPAN, SPAN, config.d_model, clamp_len=config.clamp_len
    )[0].numpy()  # [R, D]
    distances = SPAN - np.arange(len(table))
    offsets = neighbour_distances(config.n_head, config.causal)  # [N/2]
    gap = np.abs(distances[:, np.newaxis] - offsets)  # [R, N/2]
    scores = -np.minimum(SLOPE * gap, DEPTH) * config.d_head**0.5
    for block in encoder.blocks:
        attention = block.rel_attn
        kernel = tf.convert_to_tensor(attention.kernels["r"]).numpy()
        bias = tf.convert_to_tensor(attention.r_r_bias).numpy()
        for head in range(len(offsets)):
            bias[head] = _fit(table @ kernel[:, head], scores[:, head])
        attention.r_r_bias.assign(bias)


def _fit(rows: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """x [H] with rows x = wanted + constant; rows [R, H], wanted [R]."""
    rows = rows.astype(np.float64) - rows.mean(0)
    wanted = wanted - wanted.mean()
    square = rows.T @ rows
    ridge = RIDGE * np.trace(square) / len(square)
    return np.linalg.solve(
        square + ridge * np.eye(len(square)), rows.T @ wanted
    )
