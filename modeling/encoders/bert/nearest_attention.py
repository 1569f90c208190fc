"""First weights with which half of the heads attend to one of the nearest tokens.

A model with them leaves the unigram plateau sooner
(docs/explanation/small_models/unigram_plateau.md). Letters: N heads, H head size,
D model, E embedding.

Positions begin as sinusoids p_i (E/2 frequencies w). Queries take H/2 of them turned
by the head's distance o, keys take them as they are:

  q_i = g (sin w(i - o), cos w(i - o)),  k_j = g (sin w j, cos w j)
  q_i k_j = g^2 sum_w cos w(i - o - j), which is largest at j = i - o
"""

import numpy as np
import tensorflow as tf

from common.errors import UserError
from modeling.attention.positions.sinusoids import sinusoid_table
from modeling.encoders.bert.backbone import BertModel
from modeling.ops.initializers import neighbour_distances

GAIN = 1.5  # g


def attend_to_nearest(encoder: BertModel) -> None:
    """Sets positions, and the kernels of queries and keys in half of the heads.

    These keep nothing of their random values. With ALBERT they undo the mapping
    from E to D first.

    Raises UserError: E is odd.
    """
    config = encoder.config
    if config.d_embedding % 2:
        name = "embedding_size" if encoder.mapping is not None else "d_model"
        raise UserError(
            "--init_attention=nearest begins positions as half sines, half "
            f"cosines: wanted an even --{name}, found {config.d_embedding}; or "
            "give --init_attention=random"
        )
    table = encoder.embeddings.position_table
    table.assign(sinusoids(*table.shape, config.init_std))
    distances = neighbour_distances(config.n_head)
    kernels = turned_kernels(distances, config.d_head, table.shape[1])
    if encoder.mapping is not None:
        mapping = tf.convert_to_tensor(encoder.mapping.kernel).numpy()
        inverse = np.linalg.pinv(mapping)  # [D, E]
        kernels = [np.einsum("de,enh->dnh", inverse, k) for k in kernels]
    for group in encoder.groups:
        for layer in group:
            for name, kernel in zip("qk", kernels, strict=True):
                variable = layer.attention.kernels[name]  # [D, N, H]
                value = tf.convert_to_tensor(variable).numpy()
                value[:, : len(distances)] = kernel
                variable.assign(value)


def turned_kernels(
    distances: np.ndarray, d_head: int, width: int
) -> tuple[np.ndarray, np.ndarray]:
    """Of queries and keys, [E, heads, H] each, a head per distance.

    `width` is E, sines then cosines.
    """
    count = min(d_head, width) // 2
    column = np.arange(count)
    frequencies = 10000.0 ** (-2 * column / width)
    sine, cosine = column, width // 2 + column  # rows of the table's columns
    query, key = np.zeros((2, width, len(distances), d_head))
    for head, distance in enumerate(distances):
        angle = frequencies * distance
        key[sine, head, column] = GAIN
        key[cosine, head, count + column] = GAIN
        query[sine, head, column] = GAIN * np.cos(angle)
        query[cosine, head, column] = -GAIN * np.sin(angle)
        query[sine, head, count + column] = GAIN * np.sin(angle)
        query[cosine, head, count + column] = GAIN * np.cos(angle)
    return query, key


def sinusoids(count: int, width: int, deviation: float) -> tf.Tensor:
    """float32 [count, width]: places 0, 1, ..., root mean square `deviation`.

    Vaswani et al. 2017, section 3.5; sines, then cosines.
    """
    # Distances from the number of keys down to 0.
    table = sinusoid_table(0, count - 1, width, "uni")[0]
    return tf.reverse(table, [0]) * (2.0**0.5 * deviation)
