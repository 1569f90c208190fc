"""The scaled word embedding, in one table or one per cluster.

Letters: B batch, T length, D model, E width of the embedding, V vocabulary.
Rules 1 and 8 of the adaptive embedding: cluster i holds the ids cutoffs[i-1]
to cutoffs[i]-1 and has rows of width E // div_val^i.
"""

import functools

import numpy as np
import tensorflow as tf

from modeling.encoders.base import ConfiguredLayer
from modeling.encoders.transformer_xl.config import TransformerXLConfig
from modeling.ops import initializers, tied
from modeling.ops.shapes import static_only

# Elements of a piece of a cluster's table, 32 MB.
PIECE = 2**23


class AdaptiveEmbedding(ConfiguredLayer):
    """Tables and projections; the softmax is tied to them.

    With `div_val` 1 there is one table [V, E] (and a projection [E, D] where
    E is not D), otherwise a table [size, E // div_val^i] and a projection for
    every cluster.

    Call: int [B, T] -> [B, T, D] of the compute type, scaled by sqrt(D).
    """

    @property
    def sizes(self) -> list[int]:
        """Ids of every cluster."""
        ends = self.config.cluster_ends
        return [b - a for a, b in zip(ends, ends[1:], strict=False)]

    def build(self, input_shape):
        config = self.config
        table = initializers.from_config(config)
        self.tables, self.projections = [], {}
        with tf.name_scope("adaptive_embed"):
            if config.div_val == 1:
                shapes = [(config.vocab_size, config.embedding_width)]
            else:
                shapes = [
                    (size, config.cluster_width(i))
                    for i, size in enumerate(self.sizes)
                ]
            for i, shape in enumerate(shapes):
                self.tables.append(
                    self.add_kept(f"lookup_table_{i}", shape, table)
                )
                if self._projects(shape[1]):
                    self.projections[str(i)] = self.add_kept(
                        f"proj_W_{i}",
                        (shape[1], config.d_model),
                        projection_init(config),
                    )
        super().build(input_shape)

    def _projects(self, width):
        config = self.config
        same = config.div_val > 1 and config.proj_same_dim
        return same or width != config.d_model

    def call(self, ids, reader=tied.PLAIN):
        """int [B, T] -> [B, T, D].

        Every id is looked up in every cluster, in a row that does not count
        where it is of another one: shapes are static, and no id is left out.
        """
        ends, dtype = self.config.cluster_ends, self.compute_dtype
        total = None
        for i, table in enumerate(self.tables):
            cluster_ids, inside = ids, None
            if len(self.tables) > 1:
                inside = (ids >= ends[i]) & (ids < ends[i + 1])  # [B, T]
                cluster_ids = tf.where(inside, ids - ends[i], 0)
            rows = tf.cast(reader(table, cluster_ids), dtype)  # [B, T, E_i]
            rows = _project(rows, self.projections.get(str(i)))  # [B, T, D]
            if inside is not None:
                rows = tf.where(inside[..., tf.newaxis], rows, 0)
            total = rows if total is None else total + rows
        return total * tf.cast(self.config.d_model**0.5, dtype)

    def cluster_tables(self) -> list[tf.Tensor]:
        """Float32 tables of all clusters, [size, E_i]."""
        tables = [tf.convert_to_tensor(table) for table in self.tables]
        if len(tables) == len(self.sizes):
            return tables
        return _rows(tables[0], self.sizes)

    def cluster_pieces(self, tables) -> tuple[list, list]:
        """What stands for the clusters' tables, and what gets the gradient.

        For every cluster the table [size, E_i], and None: it gets the
        gradient. A large one's is made by a function, without a gradient,
        and its rows in pieces [s, E_i] get that.
        """
        if len(tables) == len(self.sizes):
            return [*tables], [None] * len(tables)
        width, ends = tables[0].shape[1], self.config.cluster_ends
        split = [[self.sizes[0]]]
        split += [_piece_sizes(size, width) for size in self.sizes[1:]]
        rows = iter(_rows(tables[0], sum(split, [])))
        flat = tf.reshape(tf.stop_gradient(tables[0]), [-1])
        weights, pieces = [], []
        for i, sizes in enumerate(split):
            parts = [next(rows) for _ in sizes]
            whole = functools.partial(_rows_at, flat, *ends[i : i + 2], width)
            weights.append(whole if len(parts) > 1 else parts[0])
            pieces.append(parts if len(parts) > 1 else None)
        return weights, pieces

    def projection_of(self, i: int) -> tf.Variable | None:
        """[E_i, D] of cluster i, None where rows have width D."""
        return self.projections.get(str(i if self.config.div_val > 1 else 0))

    def variable_paths(self) -> dict[str, str]:
        """The original's variable names -> attribute paths."""
        paths = {}
        for i in range(len(self.tables)):
            scope = "adaptive_embed/"
            scope += f"cutoff_{i}/" if self.config.div_val > 1 else ""
            paths[f"{scope}lookup_table"] = f"tables/{i}"
            if str(i) in self.projections:
                paths[f"{scope}proj_W"] = f"projections/{i}"
        return paths


def _piece_sizes(size, width):
    """Rows of the pieces of a cluster; multiples of 64 are aligned."""
    most = max(PIECE // width // 64 * 64, 64)
    return [min(most, size - first) for first in range(0, size, most)]


def _project(rows, projection):
    """[B, T, E] and [E, D] or None -> [B, T, D]."""
    if projection is None:
        return rows
    shape = tf.concat([tf.shape(rows)[:-1], [projection.shape[1]]], 0)
    flat = tf.reshape(rows, [-1, rows.shape[-1]])  # [B*T, E]
    flat = tf.matmul(flat, tf.cast(projection, rows.dtype))
    out = tf.reshape(flat, shape)
    out.set_shape([*rows.shape[:-1], projection.shape[1]])
    return out


def _rows_at(flat, first, end, width):
    """Rows first..end-1 of a table [V, E] that lies flat."""
    return tf.reshape(flat[first * width : end * width], [-1, width])


def _rows(table, sizes):
    """The rows [V, E] of every cluster, [size, E] each.

    Flat slices are no copies where they are aligned in memory, and gradients
    are written one after another into one table. (The gradient of a split is
    a concatenation, which has all of them beside it.)
    """
    if static_only():
        return tf.split(table, sizes)
    width = table.shape[1]
    ends = np.cumsum([0, *sizes]).tolist()

    @tf.custom_gradient
    def run(table):
        def gradient(*parts):
            with tf.control_dependencies(parts[:1]):  # not before it is needed
                whole = tf.raw_ops.Empty(shape=table.shape, dtype=table.dtype)
            # TensorStridedSliceUpdate takes 2.5 times as long.
            for part, a, b in zip(parts, ends, ends[1:], strict=False):
                rows = tf.range(a, b)
                whole = tf.raw_ops.InplaceUpdate(x=whole, i=rows, v=part)
            return whole

        flat = tf.reshape(table, [-1])
        return [
            _rows_at(flat, a, b, width)
            for a, b in zip(ends, ends[1:], strict=False)
        ], gradient

    return run(table)


def projection_init(config: TransformerXLConfig) -> dict:
    """The serialised initializer of projections (`proj_init_std`)."""
    return initializers.from_config(
        config.replace(init_std=config.proj_init_std)
    )
