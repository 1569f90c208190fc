"""What must hold of any left-to-right model, and exact parameter counts."""

import numpy as np
import pytest
import tensorflow as tf

from common.errors import UserError
from modeling.attention import chunked
from modeling.encoders.transformer_xl import embeddings
from modeling.encoders.transformer_xl.config import TransformerXLConfig
from modeling.heads.causal_lm import CausalLanguageModel
from modeling.heads.cluster_losses import token_losses
from modeling.ops import fused

CUTOFFS = (20_000, 40_000, 200_000)
LM1B = dict(vocab_size=793_471, cutoffs=(60_000, 100_000, 640_000), div_val=4)
WT103 = dict(
    vocab_size=267_735,
    cutoffs=CUTOFFS,
    untie_r=True,
    proj_share_all_but_first=True,
)


def sizes(n_layer, d_model, n_head, d_head, d_inner):
    return dict(
        n_layer=n_layer,
        d_model=d_model,
        n_head=n_head,
        d_head=d_head,
        d_inner=d_inner,
    )


LM1B |= dict(untie_r=True, proj_same_dim=False)
COUNTS = {
    151_119_838: WT103 | sizes(16, 410, 10, 41, 2100),
    285_205_322: WT103 | dict(div_val=4) | sizes(18, 1024, 16, 64, 4096),
    41_055_436: dict(vocab_size=204) | sizes(12, 512, 8, 64, 2048),
    40_964_635: dict(vocab_size=27) | sizes(12, 512, 8, 64, 2048),
    277_231_820: dict(vocab_size=204) | sizes(24, 1024, 8, 128, 3072),
    277_050_395: dict(vocab_size=27) | sizes(24, 1024, 8, 128, 3072),
    355_749_746: LM1B | sizes(18, 1024, 8, 128, 4096),
    466_962_290: LM1B | sizes(20, 1024, 8, 128, 6144),
    838_078_062: LM1B | sizes(24, 1280, 16, 80, 8192),
}
QUICK = (151_119_838, 41_055_436)


@pytest.mark.parametrize(
    "count",
    [
        pytest.param(n, marks=() if n in QUICK else pytest.mark.slow)
        for n in COUNTS
    ],
)
def test_parameter_counts_are_the_originals(count):
    # In a graph variables have shapes and no values.
    with tf.Graph().as_default():
        model = CausalLanguageModel(TransformerXLConfig(**COUNTS[count]))
        found = sum(v.shape.num_elements() for v in model.variables)
    assert found == count


def toy(query_shift="auto", **changes):
    values = dict(
        vocab_size=31,
        cutoffs=(7, 18),
        div_val=2,
        d_embed=12,
        untie_r=True,
        mem_len=5,
        dropout=0.0,
        init_std=0.4,
        proj_init_std=0.4,
    )
    values |= sizes(2, 10, 3, 4, 14)
    tf.keras.utils.set_random_seed(3)
    config = TransformerXLConfig(**(values | changes))
    return CausalLanguageModel(config, query_shift=query_shift)


def test_probabilities_of_all_clusters_sum_to_one_and_are_the_losses():
    model = toy()
    hidden = tf.random.stateless_normal([3, 4, 10], [1, 2])
    log_probs = model.log_probs(hidden)  # [B, T, V]
    total = tf.reduce_sum(tf.exp(log_probs), -1)
    np.testing.assert_allclose(total, np.ones([3, 4]), atol=1e-6)
    targets = tf.random.stateless_uniform([3, 4], [5, 6], 0, 31, tf.int32)
    wanted = -tf.gather(log_probs, targets, batch_dims=2)
    for chunk in (None, 1, 5, 12):
        losses = model.token_losses(hidden, targets, chunk)
        np.testing.assert_allclose(losses, wanted, atol=1e-6)


def test_nothing_comes_from_the_future_and_no_gradient_leaves_with_memory():
    model = toy()
    ids = tf.random.stateless_uniform([2, 6], [7, 8], 0, 31, tf.int32)
    block = model.encoder.blocks[0]
    taken = model.encoder.embeddings(ids)
    for position in range(6):
        with tf.GradientTape() as tape:
            tape.watch(taken)
            model.encoder.embeddings.call = lambda _: taken
            output = model(ids)
            row = tf.reduce_sum(output.sequence_output[:, position] ** 2)
        seen = tf.reduce_sum(tf.abs(tape.gradient(row, taken)), [0, 2]).numpy()
        assert (seen[position + 1 :] == 0).all()
        assert (seen[: position + 1] > 0).all()
    del model.encoder.embeddings.call
    kernel = block.rel_attn.kernels["k"]
    with tf.GradientTape() as tape:
        memory = model(ids).new_memory
        kept = sum(tf.reduce_sum(m**2) for m in memory)
    assert tape.gradient(kept, kernel) is None


@pytest.mark.parametrize(
    "form, same_length", [("tpu", False), ("blocks", True)]
)
def test_fast_forms_of_attention_are_the_plain_one(
    form, same_length, monkeypatch
):
    """Tiles of rows on TPU, blocks with fewer keys there and on CPU."""
    shape = {"mem_len": 16, "same_length": same_length}
    ids = tf.random.stateless_uniform([2, 32], [7, 8], 0, 31, tf.int32)
    memory = tuple(
        tf.random.stateless_normal([2, 16, 10], [i, 3]) for i in range(2)
    )

    def run(query_shift):
        model = toy(query_shift=query_shift, **shape)
        with tf.GradientTape() as tape:
            output = model(
                ids, memory=memory, memory_length=[5, 16], training=True
            )
            losses = model.token_losses(output.sequence_output, ids)
        found = tape.gradient(losses, model.trainable_variables)
        return [losses, *map(tf.convert_to_tensor, found)]

    wanted = run("gather")
    if form == "blocks":
        monkeypatch.setattr(chunked, "MIN_BLOCK_ROWS", 8)
    found = run("radix" if form == "tpu" else "gather")
    for a, b in zip(wanted, found, strict=True):
        scale = max(1.0, np.abs(a).max())
        np.testing.assert_allclose(a / scale, b / scale, atol=2e-6)


def run_in_pieces(model, ids, pieces, hidden=True):
    """Probabilities [B, T, V] of the text read in segments of these lengths."""
    config, found, start = model.config, [], 0
    shape = [ids.shape[0], config.mem_len, config.d_model]
    memory = (tf.zeros(shape),) * config.n_layer
    length = tf.zeros([ids.shape[0]], tf.int32) if hidden else None
    for piece in pieces:
        output = model(
            ids[:, start : start + piece], memory=memory, memory_length=length
        )
        memory = output.new_memory
        length = output.new_memory_length if hidden else None
        found.append(np.exp(model.log_probs(output.sequence_output)))
        start += piece
    return np.concatenate(found, 1)


@pytest.mark.parametrize(
    "clamp_len", [3, pytest.param(-1, marks=pytest.mark.slow)]
)
def test_same_length_with_full_memory_does_not_depend_on_the_segments(
    clamp_len,
):
    model = toy(same_length=True, clamp_len=clamp_len)
    ids = tf.random.stateless_uniform([2, 20], [9, 1], 0, 31, tf.int32)
    for hidden in (False, True):
        whole = run_in_pieces(model, ids, [20], hidden)
        for pieces in ([4] * 5, [1] * 20, [7, 2, 8, 3]):
            found = run_in_pieces(model, ids, pieces, hidden)
            np.testing.assert_allclose(found, whole, atol=1e-6)
    other = toy(same_length=False)
    ours = run_in_pieces(other, ids, [20])
    assert np.abs(run_in_pieces(other, ids, [4] * 5) - ours).max() > 1e-3


def test_hidden_start_is_a_start_without_memory():
    model = toy()
    ids = tf.random.stateless_uniform([2, 4], [3, 1], 0, 31, tf.int32)
    bare = model(ids).sequence_output
    memory = (tf.fill([2, 5, 10], 9.0),) * 2
    output = model(ids, memory=memory, memory_length=tf.zeros([2], tf.int32))
    np.testing.assert_allclose(output.sequence_output, bare, atol=1e-6)
    assert list(output.new_memory_length) == [4, 4]
    zeros = (tf.zeros([2, 5, 10]),) * 2
    seen = model(ids, memory=zeros).sequence_output
    assert np.abs(seen - bare).max() > 1e-2


def test_clusters_write_their_gradients_into_one_table():
    """Nothing of the table's size stands beside it, and numbers are the same.

    A compiled program has the gradient of a split, a concatenation.
    """
    model = toy(div_val=1)
    table = model.encoder.embeddings.tables[0]
    hidden = tf.random.stateless_normal([2, 8, 10], [1, 3])
    targets = tf.random.stateless_uniform([2, 8], [1, 4], 0, 31, tf.int32)

    def run():
        with tf.GradientTape() as tape:
            losses = model.token_losses(hidden, targets)
            loss = tf.reduce_sum(losses * tf.range(1.0, 9.0))
        return losses, tape.gradient(loss, table)

    def step():
        fused.expect_few_shapes()  # as the encoder does in training
        return run()

    plain = tf.function(step, autograph=False)
    wanted = tf.function(run, autograph=False, jit_compile=True)()
    for ours, theirs in zip(plain(), wanted, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
    graph = plain.get_concrete_function().graph
    kinds = [op.type for op in graph.get_operations()]
    assert kinds.count("Empty") == 1
    clusters = len(model.config.cluster_ends) - 1
    assert kinds.count("TensorStridedSliceUpdate") == clusters > 2
    assert not {"SplitV", "Split", "OneHot"} & set(kinds)
    assert "InplaceSub" in kinds
    # What is exported changes nothing where it lies.
    losses = tf.function(model.token_losses, autograph=False)
    graph = losses.get_concrete_function(hidden, targets).graph.as_graph_def()
    kinds = {node.op for node in graph.node}
    for function in graph.library.function:
        kinds |= {node.op for node in function.node_def}
    assert "Softmax" in kinds and "InplaceSub" not in kinds


@pytest.mark.parametrize("chunk", [None, 3])
@pytest.mark.parametrize("div_val", [1, 2])
def test_gradients_of_rows_and_softmax_meet_in_one_array(
    monkeypatch, div_val, chunk
):
    """No second table is made and added; a large cluster's comes in pieces."""
    monkeypatch.setattr(
        embeddings, "_piece_sizes", lambda size, _: [size - 2, 2]
    )
    model = toy(div_val=div_val)
    variables = model.encoder.embeddings.tables
    ids = tf.random.stateless_uniform([2, 8], [1, 3], 0, 31, tf.int32)

    def run(shared):
        with tf.GradientTape() as tape:
            output = model(ids, training=True, seed=tf.constant([1, 2]))
            losses = model.token_losses(
                output.sequence_output,
                ids[:, ::-1],
                chunk,
                tables=output.tables if shared else None,
            )
            loss = tf.reduce_sum(losses * tf.range(1.0, 9.0))
        return [tf.convert_to_tensor(g) for g in tape.gradient(loss, variables)]

    together, apart = (
        tf.function(lambda shared=s: run(shared), autograph=False)
        for s in (True, False)
    )
    for ours, theirs in zip(together(), apart(), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-7)
        assert np.abs(ours).max() > 0

    def sums(function):
        shapes = [v.shape for v in variables]
        operations = function.get_concrete_function().graph.get_operations()
        return [
            op
            for op in operations
            if op.type == "AddN" and op.outputs[0].shape in shapes
        ]

    assert not sums(together)
    assert len(sums(apart)) == len(variables)
    assert model(ids).tables is None


@pytest.mark.parametrize("jit", [False, True])
def test_no_token_is_left_out_whatever_the_clusters(jit):
    """All rows in one cluster, or none, in compiled form with static shapes."""
    table = tf.random.stateless_normal([9, 4], [1, 1])
    bias = tf.random.stateless_normal([9], [1, 2])
    hidden = tf.random.stateless_normal([10, 4], [1, 3])
    targets = tf.random.stateless_uniform([10], [1, 4], 0, 9, tf.int32)
    upstream = tf.random.stateless_normal([10], [1, 5])
    plain = tf.nn.log_softmax(tf.matmul(hidden, table, transpose_b=True) + bias)

    @tf.function(jit_compile=jit, autograph=False)
    def run(active):
        with tf.GradientTape() as tape:
            tape.watch([hidden, table, bias])
            found = token_losses(hidden, table, bias, targets, active, 4)
            loss = tf.reduce_sum(found * upstream)
        return found, tape.gradient(loss, [hidden, table, bias])

    for rows in ([], [3], [0, 1, 2, 3], [1, 4, 5, 8, 9], list(range(10))):
        active = np.isin(np.arange(10), rows)
        found, gradients = run(tf.constant(active))
        wanted = -tf.gather(plain, targets, batch_dims=1) * active
        np.testing.assert_allclose(found, wanted, atol=1e-6)
        with tf.GradientTape() as tape:
            tape.watch([hidden, table, bias])
            logits = tf.matmul(hidden, table, transpose_b=True) + bias
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
                targets, logits
            )
            loss = tf.reduce_sum(losses * upstream * active)
        for ours, theirs in zip(
            gradients, tape.gradient(loss, [hidden, table, bias]), strict=True
        ):
            np.testing.assert_allclose(ours, theirs, atol=1e-5)


@pytest.mark.parametrize(
    "changes,message",
    [
        (dict(cutoffs=(18, 7)), "must rise and lie below.*31"),
        (dict(cutoffs=(7, 31)), "must rise and lie below"),
        (dict(cutoffs=(), div_val=2), "needs `cutoffs`"),
        (dict(div_val=9), "width 12 // 9\\^2 = 0"),
        (dict(d_model=9), "must be even"),
        (dict(memory_start="ones"), "memory_start.*hidden.*zeros"),
        (dict(dropatt=1.0), r"must be in \[0, 1\)"),
        (dict(cutoffs=("7",)), "whole number"),
    ],
)
def test_a_wrong_configuration_is_one_line(changes, message):
    with pytest.raises(UserError, match=message) as caught:
        toy(**changes)
    assert "\n" not in str(caught.value)
