"""Layers in a row: seeds of layers, what is run again, memory, choices."""

import numpy as np
import pytest
import tensorflow as tf

from modeling import XLNetConfig, XLNetModel
from modeling.encoders import stack
from modeling.encoders.stack import RecurrentStack, Stack
from modeling.ops import dropout
from modeling.ops.matmul import Matmul
from modeling.ops.tpu_matmul import TpuMatmul

CONFIG = XLNetConfig(
    vocab_size=11,
    d_model=4,
    n_layer=3,
    n_head=2,
    d_head=3,
    d_inner=6,
    mem_len=5,
    reuse_len=2,
)


class Toy(Stack):
    scope = "model/toy/"


class ToyWithMemory(RecurrentStack):
    scope = "model/toy/"
    bias_names = ("u", "v")
    shares_biases = False
    has_factors = True


@pytest.mark.parametrize("recompute", ["none", "layer"])
def test_layers_follow_each_other_and_all_states_are_there(recompute):
    encoder, seeds = Toy(CONFIG, recompute), []

    def layer(factor):
        def run(streams, shared, context):
            seeds.append(context.seed)
            h, g = streams
            return h * factor + shared[0], g + h

        return run

    context = encoder.begin(True, tf.constant([3, 4]))
    x, shared = tf.ones([1, 2, 4]), tf.fill([4], 0.5)
    with tf.GradientTape() as tape:
        tape.watch([x, shared])
        rows = encoder.run(
            [layer(f) for f in (2.0, 3.0, 5.0)], (x, x), context, (shared,)
        )
        loss = tf.reduce_sum(rows.streams[0])
    # 1 -> 2.5 -> 8 -> 40.5
    inputs, outputs = (
        [float(h[0, 0, 0]) for h in states]
        for states in (rows.inputs, rows.outputs)
    )
    assert inputs == [1.0, 2.5, 8.0] and outputs == [2.5, 8.0, 40.5]
    assert float(rows.streams[1][0, 0, 0]) == 1 + 1 + 2.5 + 8
    d_x, d_shared = tape.gradient(loss, [x, shared])
    assert set(d_x.numpy().flat) == {30.0}
    assert set(d_shared.numpy().flat) == {2 * (15.0 + 5.0 + 1.0)}
    wanted = [dropout.fold(context.seed, i).numpy() for i in range(3)]
    found = {tuple(np.asarray(seed)) for seed in seeds[:3]}
    assert found == {tuple(seed) for seed in wanted}


def test_numbers_of_layers_leave_those_around_them_out():
    encoder = Toy(CONFIG)
    parts = [encoder.dropout_part(number) for number in range(5)]
    assert parts == [0, 1, 2, 5, 6]  # 3: around the layers, 4: the head
    context = encoder.begin(True, tf.constant([3, 4]))
    np.testing.assert_array_equal(
        encoder.outer_seed(context), dropout.fold(context.seed, 3)
    )


def test_dropout_without_a_seed_is_refused_and_evaluation_has_none():
    encoder = Toy(CONFIG)
    with pytest.raises(ValueError, match="needs `seed`"):
        encoder.begin(True, None)
    assert encoder.begin(False, tf.constant([3, 4])).seed is None


def test_the_form_for_tpu_where_gradients_come_in_order():
    x = tf.ones([1, 2, 4])
    assert type(Toy(CONFIG).matmul_for(x)) is Matmul
    assert type(Toy(CONFIG, "layer").matmul_for(x)) is Matmul
    for method in ("layer_barrier", "order"):
        assert isinstance(Toy(CONFIG, method).matmul_for(x), TpuMatmul)


def test_memory_is_one_per_layer():
    encoder = ToyWithMemory(CONFIG)
    assert encoder.memory_of_layers(None) == [None] * 3
    with pytest.raises(ValueError, match="must hold 3 tensors, .* received 2"):
        encoder.memory_of_layers([tf.zeros([1, 5, 4])] * 2)
    inputs = [tf.fill([1, 4, 4], float(i)) for i in range(3)]
    new = encoder.new_memory(inputs, [None] * 3, reuse_len=2)
    assert [m.shape.as_list() for m in new] == [[1, 2, 4]] * 3
    assert [float(m[0, 0, 0]) for m in new] == [0.0, 1.0, 2.0]
    bare = ToyWithMemory(CONFIG.replace(mem_len=None))
    assert bare.new_memory(inputs, [None] * 3) is None


def test_positions_are_factored_on_tpu_unless_distances_are_clipped(
    monkeypatch,
):
    class TPUStrategy:
        pass

    monkeypatch.setattr(tf.distribute, "get_strategy", TPUStrategy)
    clipped = CONFIG.replace(clamp_len=3)
    assert XLNetModel(CONFIG).shift_method() == "factored"
    assert XLNetModel(clipped).shift_method() == "radix"
    assert XLNetModel(CONFIG, query_shift="gather").shift_method() == "gather"
    with pytest.raises(ValueError, match="needs sinusoids of unclipped"):
        XLNetModel(clipped, query_shift="factored")


def test_choices_are_listed():
    assert ToyWithMemory(CONFIG).shift_method() == "gather"
    for shift in ("radix", "factored"):
        toy = ToyWithMemory(CONFIG, query_shift=shift)
        assert toy.shift_method() == shift
    with pytest.raises(ValueError, match="`query_shift` must be one of"):
        ToyWithMemory(CONFIG, query_shift="roll")
    with pytest.raises(ValueError, match="`x` must be one of .*, received 'c'"):
        stack.check_choice("x", "c", ("a", "b"))


def test_dropout_of_factored_positions_takes_whole_columns():
    """Of the table, the same ones in both directions."""
    config = CONFIG.replace(d_model=150, dropout=0.4)
    encoder = ToyWithMemory(config, query_shift="factored")
    seed = tf.constant([3, 4])
    plain, dropped = (
        encoder.position_table(4, 9, "bi", -1, True, s).numpy()
        for s in (None, seed)
    )
    assert plain.shape == dropped.shape == (2, 128, 150)
    signs = np.repeat([-1, 1], 75)  # of sines and cosines
    np.testing.assert_array_equal(dropped[0], dropped[1] * signs)
    kept = dropped[0].any(0)
    assert 75 < kept.sum() < 105
    np.testing.assert_allclose(
        dropped[0][:, kept], plain[0][:, kept] / 0.6, rtol=1e-6
    )
