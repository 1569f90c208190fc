"""Sizes that are known, and whether all must be."""

import tensorflow as tf

from modeling.ops import shapes


def test_known_sizes_are_numbers_and_others_tensors():
    assert shapes.sizes(tf.zeros([2, 3])) == [2, 3]
    seen = []

    @tf.function(
        input_signature=[tf.TensorSpec([None, 4, None])], autograph=False
    )
    def run(x):
        found = shapes.sizes(x)
        seen.append([size for size in found if isinstance(size, int)])
        return tf.stack(found)

    assert run(tf.zeros([2, 4, 5])).numpy().tolist() == [2, 4, 5]
    assert seen == [[4]]


def test_only_a_program_of_xla_has_static_shapes_alone():
    seen = {}
    for jit in (False, True):

        @tf.function(jit_compile=jit, autograph=False)
        def run(x, jit=jit):
            seen[jit] = shapes.static_only()
            return x + 1.0

        run(tf.zeros([2]))
    assert seen == {False: False, True: True}
    assert not shapes.static_only()
