"""Attention in chunks, so that less of it is alive at a time.

Letters: B batch, T segment length, Q query rows, K keys, R relative positions,
S directions, N heads, H head size.

- Groups of heads, two at a time, forward and backward, have nothing in common:
  only the temporaries of two groups are alive.
- Blocks of rows: a row needs K of the R = T + K relative positions. Rows in a
  block of T / 4 need T / 4 + K together, so fewer position scores are made and
  thrown away. Their gradients for keys and values have to be summed.
"""

import dataclasses

import tensorflow as tf

from modeling.attention import positions, relative
from modeling.attention.relative import Keys, Queries
from modeling.attention.streams import ALL, Stream
from modeling.ops import dropout

MAX_BLOCKS = 4
MIN_BLOCK_ROWS = 128  # fewer rows make slow matmuls
MAX_GROUPS = 4
MIN_GROUP_BYTES = 2**24  # of the largest scores of a group
CONCURRENT = 2  # groups; fused kernels between the matmuls run on one core


@dataclasses.dataclass(frozen=True)
class Chunks:
    """In how many chunks all T rows attend.

    Attributes:
      groups: of heads; divides N.
      blocks: of rows; divides T.
    """

    groups: int = 1
    blocks: int = 1


@dataclasses.dataclass(frozen=True)
class ChunkedKeys(Keys):
    """`Keys` that all T rows attend to in `chunks`."""

    chunks: Chunks = Chunks()

    def attend(self, queries, stream, seed=None, rate=0.0, few_shapes=False):
        """See `relative.attend`."""
        return attend(queries, self, stream, seed, rate, few_shapes)


def attend(
    queries: Queries,
    keys: ChunkedKeys,
    stream: Stream = ALL,
    seed: tf.Tensor | None = None,
    rate: float = 0.0,
    few_shapes: bool = False,
) -> tf.Tensor:
    """`relative.attend` in the chunks of the keys.

    Arguments and result are the same. Chosen rows are attended from at once;
    each chunk has a dropout `seed` of its own.
    """
    if stream.positions is not None:
        return relative.attend(queries, keys, stream, seed, rate, few_shapes)
    if keys.chunks.groups == 1:
        return _by_rows(queries, keys, stream, seed, rate, few_shapes)
    found: list = []
    for i, (q, kv) in enumerate(_by_heads(queries, keys)):
        if i >= CONCURRENT:
            before = found[i - CONCURRENT]
            found[i - CONCURRENT], q, kv = _in_turn(before, q, kv)
        own_seed = dropout.fold(seed, i)
        found.append(_by_rows(q, kv, stream, own_seed, rate, few_shapes))
    return tf.concat(found, 0)


def _by_heads(queries, keys):
    """(queries, keys) of each group."""
    tensors = _tensors(queries, keys)
    split = [tf.split(x, keys.chunks.groups, 0) for x in tensors]
    return [_filled(queries, keys, own) for own in zip(*split, strict=True)]


def _tensors(queries, keys) -> list:
    found = [keys.k, keys.v, keys.r, queries.content, queries.position]
    return found + ([] if queries.segment is None else [queries.segment])


def _filled(queries, keys, tensors) -> tuple[Queries, Keys]:
    """Those of `_tensors` in place of the ones given."""
    k, v, r, *own = tensors
    if queries.segment is None:
        own.append(None)
    return Queries(*own), dataclasses.replace(keys, k=k, v=v, r=r)


def _in_turn(done, queries, keys):
    """The next group, ready after `done`; in the backward pass before it."""

    @tf.custom_gradient
    def hold(done, *tensors):
        def gradient(d_done, *d_tensors):
            with tf.control_dependencies(d_tensors):
                return tf.identity(d_done), *d_tensors

        with tf.control_dependencies([done]):
            held = [tf.identity(x) for x in tensors]
        return (tf.identity(done), *held), gradient

    done, *held = hold(done, *_tensors(queries, keys))
    return done, *_filled(queries, keys, held)


def _by_rows(queries, keys, stream, seed, rate, few_shapes):
    """`attend` in blocks of rows."""
    count = keys.chunks.blocks
    if count == 1:
        return relative.attend(queries, keys, stream, seed, rate, few_shapes)
    content = tf.split(queries.content, count, 2)
    position = tf.split(queries.position, count, 2)
    segment = [None] * count
    if queries.segment is not None:
        segment = tf.split(queries.segment, count, 2)
    found = [
        relative.attend(
            Queries(content[i], position[i], segment[i]),
            _keys_of(keys, i, count),
            dataclasses.replace(
                stream,
                segments=_rows_of(stream.segments, i, count),
                mask=_rows_of(stream.mask, i, count),
            ),
            dropout.fold(seed, i),
            rate,
            few_shapes,
        )
        for i in range(count)
    ]
    return tf.concat(found, 2)


def _keys_of(keys, number, count):
    """The keys of one of `count` blocks of rows, with its positions."""
    rows = keys.query_len // count
    first = keys.query_len - (number + 1) * rows  # column of R
    r = keys.r[:, :, first : first + rows + keys.key_len]
    return dataclasses.replace(keys, r=r, query_len=rows)


def _rows_of(x, number, count):
    """Rows of block `number` of [B or 1, Q or 1, K] or None."""
    if x is None or x.shape[1] == 1:
        return x
    rows = x.shape[1] // count
    return x[:, number * rows : (number + 1) * rows]


def chunks_for(sizes: tuple, for_tpu: bool, training: bool) -> Chunks:
    """The chunks that are worth while.

    Args:
      sizes: N, B, T, K, R.
      for_tpu: rows are shifted by tiles.
      training: gradients will be asked for; those of blocks of rows would have
        to be summed.
    """
    n_head, batch, query_len, key_len, count = sizes
    if for_tpu or not training:
        return Chunks(blocks=row_blocks(query_len, key_len, count, for_tpu))
    return Chunks(groups=head_groups(n_head, batch, query_len, count))


def head_groups(n_head, batch, query_len, count) -> int:
    """How many groups of heads are worth while; 1 for unknown sizes.

    Args:
      n_head: N.
      batch: B.
      query_len: T.
      count: R.
    """
    sizes = (n_head, batch, query_len, count)
    if not all(isinstance(s, int) for s in sizes):
        return 1
    total = 4 * n_head * batch * query_len * count  # the largest scores
    for groups in range(MAX_GROUPS, 1, -1):
        if n_head % groups == 0 and total // groups >= MIN_GROUP_BYTES:
            return groups
    return 1


def row_blocks(query_len, key_len, count, for_tpu=False) -> int:
    """How many blocks of rows are worth while; 1 for unknown sizes.

    On TPU two where there are as many keys as rows, without memory: of the two
    sides of a matmul its compiler makes the longer one the lanes, but of a
    square one the rows, and then every shift moves the rows of all lanes. A
    fine-tuning step was estimated at twice the time.

    Args:
      query_len: T.
      key_len: K.
      count: R; less than T + K ("uni") has no block of its own.
      for_tpu: rows are shifted by tiles.
    """
    sizes = (query_len, key_len, count)
    if not all(isinstance(s, int) for s in sizes) or count < sum(sizes[:2]):
        return 1
    if for_tpu:
        whole_tiles = query_len % (2 * positions.TILE_ROWS) == 0
        return 2 if query_len == key_len and whole_tiles else 1
    blocks = MAX_BLOCKS
    while blocks > 1 and (
        query_len % blocks or query_len // blocks < MIN_BLOCK_ROWS
    ):
        blocks //= 2
    return blocks
