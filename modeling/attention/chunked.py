"""Attention in chunks, so that less of it is alive at a time.

Letters: B batch, T segment length, Q query rows, K keys, R relative positions,
S directions, N heads, H head size.

- Groups of heads, two at a time, forward and backward, have nothing in common:
  only the temporaries of two groups are alive.
- Blocks of rows: a row needs K of the R = T + K relative positions. Rows in a
  block of T / 4 need T / 4 + K together, so fewer position scores are made and
  thrown away. Their gradients for keys and values have to be summed.
- Blocks of rows left to right ("uni"): the last row of a block sees nothing
  ahead of it, so the block is a segment of its own whose memory is everything
  before it, and half of the triangle of new keys is never computed.
"""

import dataclasses
from collections.abc import Callable

import tensorflow as tf

from modeling.attention import relative
from modeling.attention.attend import ALL, Stream
from modeling.attention.positions import shifts
from modeling.attention.relative import Keys, Queries
from modeling.ops import dropout
from modeling.ops import fused as fusion
from modeling.ops.rematerialization import in_turn
from modeling.ops.shapes import sizes

MAX_BLOCKS = 4
MIN_BLOCK_ROWS = 128  # fewer rows make slow matmuls
MAX_GROUPS = 4
MIN_GROUP_BYTES = 2**24  # of the largest scores of a group
UNKNOWN_ROWS = 4  # packed rows, as many as a batch needs, are hardly fewer
CONCURRENT = 2  # groups; one was as fast on two cores, more cores are untried


@dataclasses.dataclass(frozen=True)
class Chunks:
    """All T rows attend in `blocks` of rows and `groups` of heads (of N)."""

    groups: int = 1
    blocks: int = 1


@dataclasses.dataclass(frozen=True)
class ChunkedKeys(Keys):
    """`Keys` that all T rows attend to in `chunks`."""

    chunks: Chunks = Chunks()

    def attend(self, queries, stream, seed=None, rate=0.0):
        return attend(queries, self, stream, seed, rate)


def attend(
    queries: Queries,
    keys: ChunkedKeys,
    stream: Stream = ALL,
    seed: tf.Tensor | None = None,
    rate: float = 0.0,
) -> tf.Tensor:
    """`relative.attend` in the chunks of the keys.

    The plain form of two groups of heads and two blocks of rows:

      concat([concat([attend(q[g, rows], k[g], v[g], r[g, columns of rows])
                      for rows in (first, second)], axis=rows)
              for g in (first, second)], axis=heads)

    Arguments and result are the same. Chosen rows are attended from at once;
    each chunk has a dropout `seed` of its own.
    """
    if stream.positions is not None:
        return relative.attend(queries, keys, stream, seed, rate)
    if keys.chunks.groups == 1:
        return _by_rows(queries, keys, stream, seed, rate)
    tensors = [keys.k, keys.v, keys.r, queries.content, queries.position]
    if queries.segment is not None:
        tensors.append(queries.segment)

    def group(i, k, v, r, content, position, segment=None):
        own_seed = dropout.fold(seed, i)
        own = dataclasses.replace(keys, k=k, v=v, r=r)
        q = Queries(content, position, segment)
        return _by_rows(q, own, stream, own_seed, rate)

    return by_heads(tensors, keys.chunks.groups, group)


def by_heads(tensors: list, groups: int, run: Callable) -> tf.Tensor:
    """run(i, *tensors [N / groups, ...]) of each group of heads, joined.

    Two groups at a time: one is ready after the one before the last, and its
    gradients come before those of that one.
    """
    results: list = []
    split = zip(*(tf.split(x, groups, 0) for x in tensors), strict=True)
    for i, group in enumerate(split):
        if i >= CONCURRENT:
            before = i - CONCURRENT
            results[before], *group = in_turn(results[before], *group)
        results.append(run(i, *group))
    return tf.concat(results, 0)


def _by_rows(queries, keys, stream, seed, rate):
    """`attend` in blocks of rows."""
    count = keys.chunks.blocks
    if count == 1:
        return relative.attend(queries, keys, stream, seed, rate)
    content = tf.split(queries.content, count, 2)
    position = tf.split(queries.position, count, 2)
    segment = [None] * count
    if queries.segment is not None:
        segment = tf.split(queries.segment, count, 2)
    vectors = []
    for i, block_keys in enumerate(_keys_of_blocks(keys, count)):
        vectors.append(
            relative.attend(
                Queries(content[i], position[i], segment[i]),
                block_keys,
                dataclasses.replace(
                    stream,
                    segments=_part_of(
                        stream.segments, i, count, block_keys.key_len
                    ),
                    mask=_part_of(stream.mask, i, count, block_keys.key_len),
                ),
                dropout.fold(seed, i),
                rate,
            )
        )
    return tf.concat(vectors, 2)


def _keys_of_blocks(keys, count) -> list[Keys]:
    """The keys of `count` blocks of rows, each with its positions."""
    rows, keys_by_block = keys.query_len // count, []
    factored = keys.method == "factored"
    if not factored and not is_causal(
        keys.query_len, keys.key_len, sizes(keys.r)[2]
    ):
        for i in range(count):
            first = keys.query_len - (i + 1) * rows  # column of R
            r = keys.r[:, :, first : first + rows + keys.key_len]
            keys_by_block.append(dataclasses.replace(keys, r=r, query_len=rows))
        return keys_by_block
    # Of the keys and their factors a prefix; of the table, whose columns are
    # the distances K, .., 0, as long a suffix.
    ends = [keys.key_len - i * rows for i in reversed(range(count))]
    before = tuple((0, end) for end in ends)
    nearest = tuple((keys.key_len - end, keys.key_len + 1) for end in ends)
    if factored:
        tables = [keys.r[:end] for end in ends]
    else:
        tables = _parts(keys.r, nearest)
    parts = _parts(keys.k, before), _parts(keys.v, before), tables
    for end, k, v, r in zip(ends, *parts, strict=True):
        keys_by_block.append(
            dataclasses.replace(
                keys, k=k, v=v, r=r, query_len=rows, key_len=end
            )
        )
    return keys_by_block


def _parts(x, spans):
    """x[:, :, a:b] for every (a, b); one pass adds up their gradients."""
    size = x.shape[2]

    @tf.custom_gradient
    def run(x):
        def gradient(*upstream):
            return _added(*upstream, spans=spans, size=size)

        return tuple(x[:, :, a:b] for a, b in spans), gradient

    return run(x)


@fusion.compiled
def _added(*parts, spans, size):
    """[..., b - a, H] at their places in [..., size, H], in sum."""
    lead, last = [[0, 0], [0, 0]], [[0, 0]]
    return tf.add_n(
        [
            tf.pad(x, [*lead, [a, size - b], *last])
            for x, (a, b) in zip(parts, spans, strict=True)
        ]
    )


def _part_of(x, number, count, key_len):
    """Rows of block `number` and its keys, of [B or 1, Q or 1, K] or None."""
    if x is None:
        return None
    x = x[:, :, :key_len]
    if x.shape[1] == 1:
        return x
    rows = x.shape[1] // count
    return x[:, number * rows : (number + 1) * rows]


def chunks_for(shape: tuple, method: str, training: bool) -> Chunks:
    """The chunks that are worth while, of N, B, T, K, R.

    For training gradients of blocks of rows have to be summed, which only pays
    where blocks have fewer keys. `method`: see `Streams.shift`.
    """
    n_head, batch, query_len, key_len, count = shape
    blocks = row_blocks(query_len, key_len, count, method)
    if method != "gather" or not training:
        return Chunks(blocks=blocks)
    groups = head_groups(n_head, batch, query_len, count)
    if not is_causal(query_len, key_len, count):
        blocks = 1
    return Chunks(groups, blocks)


def is_causal(query_len, key_len, count) -> bool:
    """Whether the table ends at distance 0: no key ahead is ever seen.

    Args:
      query_len: T, of which one row alone cannot tell (and need not).
      key_len, count: K and R; of unknown sizes nothing is known.
    """
    shape = (query_len, key_len, count)
    if not all(isinstance(s, int) for s in shape):
        return False
    return count == key_len + 1 and query_len > 1


def head_groups(n_head, batch, query_len, count) -> int:
    """How many groups of heads are worth while; 1 for an unknown T or R."""
    if not all(isinstance(s, int) for s in (n_head, query_len, count)):
        return 1
    if not isinstance(batch, int):
        batch = UNKNOWN_ROWS
    total = 4 * n_head * batch * query_len * count  # the largest scores
    for groups in range(MAX_GROUPS, 1, -1):
        if n_head % groups == 0 and total // groups >= MIN_GROUP_BYTES:
            return groups
    return 1


def row_blocks(query_len, key_len, count, method="gather") -> int:
    """How many blocks of rows are worth while; 1 for unknown sizes.

    On TPU two left to right. With "radix" two, too, where there are as many
    keys as rows, without memory: of the two sides of a matmul its compiler
    makes the longer one the lanes, but of a square one the rows, and then every
    shift moves the rows of all lanes. A fine-tuning step was estimated at twice
    the time.
    """
    shape = (query_len, key_len, count)
    if not all(isinstance(s, int) for s in shape):
        return 1
    if method != "gather":
        whole_tiles = query_len % (2 * shifts.TILE_ROWS) == 0
        square = method == "radix" and query_len == key_len
        return 2 if whole_tiles and (square or is_causal(*shape)) else 1
    blocks = MAX_BLOCKS
    while blocks > 1 and (
        query_len % blocks or query_len // blocks < MIN_BLOCK_ROWS
    ):
        blocks //= 2
    return blocks
