"""A fitted K-NRM with its frozen encoder: the model that is exported.

Letters: B texts, T pieces of a row, D model, K features, V vocabulary, P pairs,
Q query pieces, U document pieces.
"""

import tensorflow as tf
from tf_keras.src.mixed_precision import autocast_variable

from modeling.heads import kernel_pooling
from modeling.heads.kernel_pooling import Kernels
from modeling.models.task_model import TaskModel

_SCOPE = "model/kernel_pooling"
_VARIABLES = ("weights", "bias", "center", "piece_weights")


class KernelRankingModel(TaskModel):
    """Scores pairs of texts by kernels over the cosines of their pieces.

    Its variables besides the encoder's are assigned, not trained:
    `kernel_weights` [K], `kernel_bias` [], `kernel_center` [D], which is
    subtracted from vectors, and `kernel_piece_weights` [V] of query pieces. The
    hidden state `layer` is read, 0 = the embeddings. `with_candidate_score`
    adds a feature, the candidates' score.
    """

    def __init__(
        self,
        config,
        mu,
        sigma,
        layer: int = 0,
        with_candidate_score: bool = False,
        **kwargs,
    ):
        # Cosines of bfloat16 vectors would say little: see `call`.
        super().__init__(config, **{"autocast": False} | kwargs)
        self.mu, self.sigma, self.layer = tuple(mu), tuple(sigma), layer
        self.with_candidate_score = with_candidate_score
        self.kernels = Kernels(self.mu, self.sigma)
        shapes = {
            "weights": [len(self.mu) + with_candidate_score],
            "bias": [],
            "center": [self.config.d_model],
            "piece_weights": [self.config.vocab_size],
        }
        for name in _VARIABLES:
            variable = self.add_weight(
                f"kernel_{name}",
                shapes[name],
                initializer="ones" if name == "piece_weights" else "zeros",
                trainable=False,
                dtype="float32",
            )
            setattr(self, f"kernel_{name}", variable)

    def head_variable_paths(self):
        return {f"{_SCOPE}/{name}": f"kernel_{name}" for name in _VARIABLES}

    def vectors(
        self,
        input_ids: tf.Tensor,
        segment_ids: tf.Tensor,
        input_mask: tf.Tensor,
    ) -> tf.Tensor:
        """Centred vectors of a row's pieces, float32 [B, T, D]."""
        output = self.encoder(
            input_ids,
            segment_ids=segment_ids,
            input_mask=input_mask,
            training=False,
            output_hidden_states=True,
        )
        states = tf.cast(output.states_of(self.layer), tf.float32)
        gap = self.config.d_model - states.shape[-1]  # ALBERT's embeddings
        states = tf.pad(states, [[0, 0], [0, 0], [0, gap]])
        return states - self.kernel_center

    def call(
        self,
        query: tf.Tensor,
        query_ids: tf.Tensor,
        query_mask: tf.Tensor,
        document: tf.Tensor,
        document_mask: tf.Tensor,
        candidate_scores: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """Scores, float32 [P], computed in float32 under every policy.

        Args:
          query: `vectors` [P, Q, D] of the queries' pieces.
          query_ids: int32 [P, Q], for the weights of pieces.
          query_mask: [P, Q], 1 = real.
          document, document_mask: `vectors` [P, U, D] and [P, U].
          candidate_scores: [P]; only with `with_candidate_score`.
        """
        with autocast_variable.enable_auto_cast_variables(tf.float32):
            weights = tf.gather(self.kernel_piece_weights, query_ids)
            weights *= tf.cast(query_mask, tf.float32)
            phi = kernel_pooling.pair_features(
                query, weights, document, document_mask, self.kernels
            )
            if self.with_candidate_score:
                phi = tf.concat([phi, candidate_scores[:, tf.newaxis]], -1)
            return kernel_pooling.score(
                phi, self.kernel_weights, self.kernel_bias
            )
