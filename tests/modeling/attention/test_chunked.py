"""Attention in groups of heads and blocks of rows: the same, and in turn."""

import numpy as np
import pytest
import tensorflow as tf

from modeling.attention import chunked, relative
from modeling.attention.attend import ALL, Stream
from modeling.attention.chunked import ChunkedKeys, Chunks
from modeling.attention.relative import Queries

RANDOM = np.random.default_rng(3)
N, B, T, K, H = 6, 4, 6, 11, 3


def random(*shape):
    return tf.constant(RANDOM.normal(size=shape), tf.float32)


def tensors():
    return [
        random(N, B, T, H),
        random(N, B, T, H),
        random(N, B, T, 1),
        random(N, B, K, H),
        random(N, B, K, H),
        random(N, 2, K + T, H),
    ]


def attend_in(chunks, stream=ALL, **kwargs):
    """A function of `tensors()`; without `segments` no segment term."""

    def attend(content, position, segment, key, value, table):
        if stream.segments is None:
            segment = None
        return chunked.attend(
            Queries(content, position, segment),
            ChunkedKeys(key, value, table, T, K, chunks=chunks),
            stream,
            **kwargs,
        )

    return attend


def value_and_gradients(function, inputs, upstream):
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        y = function(*inputs)
    return y, *tape.gradient(y, inputs, upstream, unconnected_gradients="zero")


@pytest.mark.long
@pytest.mark.parametrize("segments", [False, True])
@pytest.mark.parametrize("one_mask", [False, True])
@pytest.mark.parametrize(
    "chunks",
    [Chunks(1, 2), Chunks(1, 3), Chunks(2, 1), Chunks(6, 1), Chunks(3, 2)],
)
@pytest.mark.parametrize("graph", [False, True])
def test_in_chunks_is_the_same(chunks, one_mask, segments, graph):
    inputs, upstream = tensors(), random(N, B, T, H)
    differ = None
    if segments:
        differ = tf.constant(RANDOM.integers(0, 2, [B, T, K]), tf.float32)
    shape = [1, 1, K] if one_mask else [B, T, K]
    mask = tf.constant(RANDOM.integers(0, 2, shape) * -1e30, tf.float32)

    def run(chunks):
        attend = attend_in(chunks, Stream(mask, differ))

        def both():
            return value_and_gradients(attend, inputs, upstream)

        return tf.function(both, autograph=False)() if graph else both()

    for a, b in zip(run(Chunks()), run(chunks), strict=True):
        np.testing.assert_allclose(a, b, atol=2e-6)


@pytest.mark.long
@pytest.mark.parametrize(
    "chunks, graph",
    [(Chunks(1, 2), False), (Chunks(1, 3), False), (Chunks(3, 2), True)],
)
def test_left_to_right_blocks_leave_out_what_lies_ahead(chunks, graph):
    """A table that ends at distance 0; blocks have fewer keys, nothing else
    changes, whatever else is hidden."""
    inputs, upstream = tensors(), random(N, B, T, H)
    inputs[-1] = inputs[-1][:, :, : K + 1]
    differ = tf.constant(RANDOM.integers(0, 2, [B, T, K]), tf.float32)
    hidden = np.triu(np.ones([T, K]), K - T + 1)[np.newaxis]
    stale = RANDOM.integers(0, 2, [B, T, K]) * (np.arange(K) < K - T)
    mask = tf.constant(np.maximum(hidden, stale) * -1e30, tf.float32)
    real, seen = relative.attend, []

    def attend_once(queries, keys, *args):
        seen.append((keys.query_len, keys.key_len))
        return real(queries, keys, *args)

    def run(chunks):
        attend = attend_in(chunks, Stream(mask, differ))

        def both():
            return value_and_gradients(attend, inputs, upstream)

        return tf.function(both, autograph=False)() if graph else both()

    wanted = run(Chunks())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(relative, "attend", attend_once)
        in_chunks = run(chunks)
    for a, b in zip(wanted, in_chunks, strict=True):
        np.testing.assert_allclose(a, b, atol=2e-6)
    rows = T // chunks.blocks
    sizes = [(rows, K - T + (i + 1) * rows) for i in range(chunks.blocks)]
    assert seen == sizes * chunks.groups


def test_only_left_to_right_rows_are_blocks_in_training():
    causal, both = (8, 2, 512, 1024, 1025), (8, 2, 512, 1024, 1536)
    assert chunked.chunks_for(causal, "gather", True) == Chunks(2, 4)
    assert chunked.chunks_for(both, "gather", True) == Chunks(2, 1)
    assert chunked.chunks_for(both, "gather", False) == Chunks(1, 4)
    for method in ("radix", "factored"):
        assert chunked.chunks_for(causal, method, True) == Chunks(1, 2)
        assert chunked.chunks_for(both, method, True) == Chunks(1, 1)


@pytest.mark.parametrize("chunks", [Chunks(1, 2), Chunks(2, 1)])
def test_chunks_drop_independently(chunks):
    """Equal rows (and heads) in two chunks must not share a dropout mask."""
    n, t, k = 2, 4, 50
    zero = tf.zeros([n, 1, t, 2])
    keys = ChunkedKeys(
        tf.zeros([n, 1, k, 2]),
        tf.eye(k, batch_shape=[n, 1]),
        tf.zeros([n, 1, k + t, 2]),
        t,
        k,
        chunks=chunks,
    )
    out = chunked.attend(
        Queries(zero, zero, None), keys, seed=tf.constant([1, 2]), rate=0.5
    )
    kept = out.numpy().reshape(n * t, k) > 0  # probabilities that stayed
    for i in range(n * t):
        for j in range(i):
            assert 0.2 < (kept[i] == kept[j]).mean() < 0.8


@pytest.mark.parametrize("concurrent", [1, 2])
def test_groups_of_heads_come_in_turn(monkeypatch, concurrent):
    """Forward in order, backward in the reverse order, so many at a time."""
    monkeypatch.setattr(chunked, "CONCURRENT", concurrent)
    real, log = relative.attend, []

    def logged(queries, keys, *args):
        number = len(numbers)
        numbers.append(number)

        def note(what, x):
            def write(x):
                log.append((what, number))
                return x

            y = tf.numpy_function(write, [x], x.dtype)
            return tf.ensure_shape(y, x.shape)

        @tf.custom_gradient
        def enter(x):
            return note("enter", x), lambda dy: note("left", dy)

        @tf.custom_gradient
        def leave(y):
            return note("leave", y), lambda dy: note("back", dy)

        queries = Queries(enter(queries.content), queries.position, None)
        return leave(real(queries, keys, *args))

    numbers: list = []
    monkeypatch.setattr(relative, "attend", logged)
    inputs, upstream = tensors(), random(N, B, T, H)
    run = tf.function(
        lambda: value_and_gradients(attend_in(Chunks(3, 1)), inputs, upstream),
        autograph=False,
    )
    run()
    log.clear()
    run()
    assert len(log) == 4 * 3
    at = {event: place for place, event in enumerate(log)}
    for i in range(3):
        assert at["enter", i] < at["leave", i] < at["back", i] < at["left", i]
    for i in range(3 - concurrent):
        assert at["leave", i] < at["enter", i + concurrent]
        assert at["left", i + concurrent] < at["back", i]


def test_dropped_probabilities_are_not_recomputed_before_the_backward_pass():
    """Else the forward pass would compute them, and they would be kept."""
    seed = tf.constant([3, 4])

    @tf.function(autograph=False)
    def run(*given):
        # An upstream gradient that is there late.
        with tf.GradientTape() as tape:
            tape.watch(given)
            y = attend_in(Chunks(), seed=seed, rate=0.3)(*given)
        late = tf.identity(2.0 * y, name="late")
        return tape.gradient(y, given[4], late)

    graph = run.get_concrete_function(*tensors()).graph
    late = graph.get_operation_by_name("late")
    after, frontier = set(), [late]
    while frontier:
        for op in _users(frontier.pop(), graph):
            if op.name not in after:
                after.add(op.name)
                frontier.append(op)
    # `masked` selects what it keeps: once per run of it.
    drops = [op for op in graph.get_operations() if op.type == "SelectV2"]
    assert len(drops) == 3  # forward, recomputed, and of the gradient
    assert sum(op.name in after for op in drops) == 2


def _users(op, graph):
    users = [user for x in op.outputs for user in x.consumers()]
    return users + [
        other for other in graph.get_operations() if op in other.control_inputs
    ]


@pytest.mark.parametrize(
    "sizes, wanted",
    [
        ((512, 896, 1408), 4),
        ((256, 256, 512), 2),
        ((384, 384, 768), 2),
        ((130, 130, 260), 1),
        ((512, 896, 897), 4),
        ((None, 896, 1408), 1),
        ((512, 512, 1024, "radix"), 2),
        ((512, 896, 1408, "radix"), 1),
        ((48, 48, 96, "radix"), 2),
        ((40, 40, 80, "radix"), 1),
        ((512, 512, 513, "radix"), 2),
        ((512, 512, 513, "factored"), 2),
        ((512, 512, 1024, "factored"), 1),
        ((40, 80, 81, "factored"), 1),
        ((512, 896, 897, "radix"), 2),
        ((1, 896, 897), 1),
        ((None, 512, 1024, "radix"), 1),
    ],
)
def test_how_many_blocks_of_rows(sizes, wanted):
    assert chunked.row_blocks(*sizes) == wanted


@pytest.mark.parametrize(
    "sizes, wanted",
    [
        ((12, 1, 128, 256), 1),
        ((12, 1, 512, 1024), 1),
        ((12, 2, 512, 1024), 3),
        ((12, 4, 512, 1408), 4),
        ((10, 4, 512, 1408), 2),
        ((7, 4, 512, 1408), 1),
        ((12, None, 512, 1408), 4),
        ((12, None, 128, 256), 1),
        ((12, 4, None, 1408), 1),
    ],
)
def test_how_many_groups_of_heads(sizes, wanted):
    assert chunked.head_groups(*sizes) == wanted
