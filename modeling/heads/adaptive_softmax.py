"""Adaptive softmax: frequent ids in the head, the others in tail clusters.

Letters: n rows, D model, E embedding width, E_i that of cluster i, S_i its
size, V vocabulary.

log p(id in tail i) = log p(entry cutoffs[0] + i - 1 of the head)
                      + log p(id inside the cluster)

Tables are those of the embedding. Hidden vectors go through a transposed
projection: the softmax's own, or with `proj_share_all_but_first` the
embedding's for tail clusters.
"""

import tensorflow as tf

from modeling.heads import cluster_losses
from modeling.ops import initializers, saving
from modeling.ops.rematerialization import in_turn
from modeling.ops.shapes import static_only


class AdaptiveSoftmax(saving.Layer):
    """Biases, entries of the tail clusters, own projections; float32.

    Without cutoffs it is one softmax with a bias.

    Args:
      config: with `cluster_ends`, `cluster_width`, `div_val`,
        `proj_share_all_but_first`, `proj_same_dim`, `d_model`, or its
        `to_dict()`.
    """

    def __init__(self, config, **kwargs):
        super().__init__(**(kwargs | {"dtype": "float32"}))
        self.config = config

    @property
    def count(self) -> int:
        """Clusters, the head included."""
        return len(self.config.cluster_ends) - 1

    def build(self, input_shape):
        config, count = self.config, self.count
        ends = config.cluster_ends
        normal = initializers.from_config(config)
        self.biases = [
            self.add_weight(f"b_{i}", [ends[i + 1] - ends[i]], None, "zeros")
            for i in range(count)
        ]
        self.projections = {}
        for i in range(count):
            self._add_projection(i)
        self.cluster_w = self.cluster_b = None
        if count > 1:
            self.cluster_w = self.add_weight(
                "cluster_W",
                [count - 1, config.cluster_width(0)],
                None,
                initializers.fresh(normal),
            )
            self.cluster_b = self.add_weight(
                "cluster_b", [count - 1], None, "zeros"
            )
        super().build(input_shape)

    def _add_projection(self, i):
        """[E_i, D], unless it is shared or not needed."""
        config = self.config
        width = config.cluster_width(i)
        if self.count == 1 or (i > 0 and config.proj_share_all_but_first):
            return
        plain = config.div_val == 1 or not config.proj_same_dim
        if plain and width == config.d_model:
            return
        initializer = initializers.from_config(
            config.replace(init_std=config.proj_init_std)
        )
        self.projections[str(i)] = self.add_weight(
            f"proj_{i}",
            [width, config.d_model],
            None,
            initializers.fresh(initializer),
        )

    def _project(self, hidden, i, embedding):
        """[n, D] -> [n, E_i]."""
        shared = self.count == 1 or (
            i > 0 and self.config.proj_share_all_but_first
        )
        weights = self.projections.get(str(i))
        if shared:
            weights = embedding.projection_of(i)
        if weights is None:
            return hidden
        return tf.matmul(hidden, tf.cast(weights, tf.float32), transpose_b=True)

    def tables(
        self, embedding, weights=None
    ) -> list[tuple[tf.Tensor, tf.Tensor]]:
        """(weights [S_i, E_i], bias [S_i]) of the head and of every tail.

        The head's rows are the first cluster's and one per tail. Whoever calls
        `log_probs` in a loop makes them before it: where rows are not aligned
        in memory, taking the clusters from the embedding copies all of it.
        `weights` are the rows of all clusters, where they are there already.
        """
        tables = weights or embedding.cluster_tables()
        parts = [
            (weights, tf.convert_to_tensor(bias))
            for weights, bias in zip(tables, self.biases, strict=True)
        ]
        if self.count > 1:
            weights, bias = parts[0]
            parts[0] = (
                tf.concat([weights, self.cluster_w], 0),
                tf.concat([bias, self.cluster_b], 0),
            )
        return parts

    def token_losses(
        self, hidden, targets, embedding, chunk_size=None, read=None
    ):
        """-log p of every target int [n], float32 [n].

        Args:
          hidden: [n, D], of the activations' type.
          chunk_size: rows of logits alive at a time; None = all of the
            head's, `cluster_losses.CHUNK` of a tail's.
          read: the tables of `AdaptiveEmbedding.read`, in training.
        """
        ends = self.config.cluster_ends
        dtype, hidden = hidden.dtype, tf.cast(hidden, tf.float32)
        targets = tf.cast(targets, tf.int32)
        tables, pieces = self._training_tables(embedding, read)
        inside = [
            (targets >= ends[i]) & (targets < ends[i + 1])
            for i in range(self.count)
        ]
        entry = targets
        for i in range(1, self.count):
            entry = tf.where(inside[i], ends[1] + i - 1, entry)
        total = tf.zeros_like(targets, tf.float32)  # [n]
        # The head last, whose logits are then the first that the backward
        # pass needs no more.
        for i in reversed(range(self.count)):
            table, bias = tables[i]
            own = [self._project(hidden, i, embedding), bias]
            own += pieces[i] or [table]
            if not static_only():
                total, *own = in_turn(total, *own)
            projected, bias, *parts = own
            total += cluster_losses.token_losses(
                projected,
                table if pieces[i] else parts[0],
                bias,
                *((targets - ends[i], inside[i]) if i else (entry, None)),
                chunk_size,
                parts if pieces[i] else None,
                dtype,
            )
        return total

    def _training_tables(self, embedding, read):
        """`tables`, and per cluster what gets the gradient or None = it does.

        A large cluster's gradient is as large: it goes in pieces into that of
        the whole table.
        """
        if read is None:
            return self.tables(embedding), [None] * self.count
        weights, pieces = embedding.cluster_pieces(read)
        return self.tables(embedding, weights), pieces

    def log_probs(self, hidden, embedding, tables=None):
        """float32 [n, D] -> [n, V], log-probabilities of all ids.

        `tables` are `self.tables(embedding)`, where they are there already.
        """
        clusters = [
            tf.nn.log_softmax(
                tf.matmul(
                    self._project(hidden, i, embedding),
                    weights,
                    transpose_b=True,
                )
                + bias
            )
            for i, (weights, bias) in enumerate(
                tables or self.tables(embedding)
            )
        ]
        head = clusters[0]
        size = self.config.cluster_ends[1]
        log_probs = [head[:, :size]]
        for i in range(1, self.count):
            log_probs.append(head[:, size + i - 1, tf.newaxis] + clusters[i])
        return tf.concat(log_probs, 1)

    def variable_paths(self) -> dict[str, str]:
        """The original's variable names -> attribute paths."""
        if self.count == 1:
            return {"bias": "biases/0"}
        paths = {f"cutoff_{i}/b": f"biases/{i}" for i in range(self.count)}
        for i in self.projections:
            paths[f"cutoff_{i}/proj"] = f"projections/{i}"
        paths["cutoff_0/cluster_W"] = "cluster_w"
        paths["cutoff_0/cluster_b"] = "cluster_b"
        return paths
