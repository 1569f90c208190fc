"""K-NRM: kernels over the cosines of query and document vectors.

Xiong et al. 2017; the ranking network of the XLNet paper's Table 5. Letters: B
pairs, Q query units, U document units, D vector size, K kernels.

    M_ij  = cos(q_i, d_j)
    K_k(i) = sum_j m_j exp(-(M_ij - mu_k)^2 / (2 sigma_k^2))
    phi_k = 0.01 sum_i n_i log(max(K_k(i), 1e-10))
    f     = tanh(w . phi + b)

Cosines in float64 and all else in float32, whatever the vectors are: the
exact-match kernel is 1e-3 wide, and bfloat16 has steps of 4e-3 near 1.
"""

import dataclasses

import tensorflow as tf

# Of the authors' code, which the paper leaves out.
SCALE = 0.01
FLOOR = 1e-10


@dataclasses.dataclass(frozen=True)
class Kernels:
    """Centres `mu`, the exact match (1.0) first, and widths of K kernels."""

    mu: tuple[float, ...]
    sigma: tuple[float, ...]

    def __post_init__(self):
        if len(self.mu) != len(self.sigma) or not self.mu:
            raise ValueError(
                f"`mu` and `sigma` must be of one length > 0, received "
                f"{len(self.mu)} and {len(self.sigma)}"
            )
        if min(self.sigma) <= 0:
            raise ValueError(f"`sigma` must be > 0, received {self.sigma}")

    @classmethod
    def even(cls, bins: int = 10, exact_sigma: float = 1e-3) -> "Kernels":
        """An exact-match kernel and `bins` even ones over [-1, 1].

        Of 10: mu 0.9, 0.7, ..., -0.9, sigma half a bin's width, 0.1.
        """
        if bins < 1:
            raise ValueError(f"`bins` must be > 0, received {bins}")
        width = 2.0 / bins
        mu = [1.0 - width / 2 - i * width for i in range(bins)]
        return cls((1.0, *mu), (exact_sigma, *[width / 2] * bins))


def cosines(query: tf.Tensor, document: tf.Tensor) -> tf.Tensor:
    """float64 [B, Q, U] of [B, Q, D] and [B, U, D]; 0 of a vector of zeros.

    In float64, as the exact kernel turns a cosine's rounding in float32 into
    400 ppm of its count: in another order of summation another score.
    """
    query = tf.math.l2_normalize(tf.cast(query, tf.float64), -1)
    document = tf.math.l2_normalize(tf.cast(document, tf.float64), -1)
    return tf.matmul(query, document, transpose_b=True)


def soft_tf(
    cosine: tf.Tensor, document_mask: tf.Tensor, kernels: Kernels
) -> tf.Tensor:
    """Soft term frequencies, float32 [B, Q, K].

    Args:
      cosine: float32 or, for the exact kernel, float64 [B, Q, U].
      document_mask: [B, U], 1 = real.
      kernels: K of them; one at a time, so that [B, Q, U] is the largest
        tensor.
    """
    mask = tf.cast(document_mask, tf.float32)
    counts = []
    for mu, sigma in zip(kernels.mu, kernels.sigma, strict=True):
        gap = tf.cast(cosine - mu, tf.float32)
        fired = tf.exp(-tf.square(gap) / (2.0 * sigma**2))
        counts.append(tf.linalg.matvec(fired, mask))  # [B, Q]
    return tf.stack(counts, -1)


def features(counts: tf.Tensor, query_weights: tf.Tensor) -> tf.Tensor:
    """phi, float32 [B, K], of `soft_tf` [B, Q, K] and weights [B, Q].

    A query's weight is 1, or an idf; 0 = padding.
    """
    weights = tf.cast(query_weights, tf.float32)[:, :, tf.newaxis]
    logs = tf.math.log(tf.maximum(counts, FLOOR))
    return SCALE * tf.reduce_sum(weights * logs, 1)


def pair_features(
    query: tf.Tensor,
    query_weights: tf.Tensor,
    document: tf.Tensor,
    document_mask: tf.Tensor,
    kernels: Kernels,
) -> tf.Tensor:
    """phi [B, K] of pairs: vectors [B, Q, D], [B, U, D]; masks likewise."""
    counts = soft_tf(cosines(query, document), document_mask, kernels)
    return features(counts, query_weights)


def score(phi: tf.Tensor, w: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
    """tanh(w . phi + b), float32 [...], of [..., K], [..., K] and [...]."""
    return tf.tanh(tf.reduce_sum(phi * w, -1) + b)
