"""Layers in files: arguments of constructors, float32 variables, paths."""

import tensorflow as tf
import tf_keras

from modeling.encoders.bert.config import BertConfig
from modeling.ops import saving
from modeling.ops.feed_forward import FeedForward


class Inner(saving.Layer):
    def __init__(self, width: int, rate: float = 0.5, **kwargs):
        super().__init__(**kwargs)
        self.width, self.rate = width, rate

    def build(self, input_shape):
        self.scale = self.add_kept("scale", [self.width], "ones")
        super().build(input_shape)

    def call(self, x):
        return x * tf.cast(self.scale, x.dtype)

    def variable_paths(self):
        return {"norm/scale": "scale"}


class Outer(Inner):
    def __init__(self, width: int, depth: int, **kwargs):
        super().__init__(width, **kwargs)
        self.depth = depth
        self.inner = [Inner(width, name=f"inner_{i}") for i in range(depth)]


def test_a_layer_is_made_anew_from_its_constructors_arguments():
    layer = Outer(3, 2, rate=0.25, name="x")
    values = saving.constructor_arguments(layer, saving.Layer)
    assert values == {"width": 3, "depth": 2, "rate": 0.25}
    again = Outer.from_config(layer.get_config())
    assert again.get_config() == layer.get_config()
    assert (again.name, again.depth, again.rate) == ("x", 2, 0.25)


def test_variables_stay_float32_under_a_policy_of_half_precision():
    layer = Inner(3, dtype="mixed_bfloat16")
    y = layer(tf.ones([2, 3]))
    assert layer.scale.dtype == tf.float32 and y.dtype == tf.bfloat16


def test_paths_lead_through_lists_and_attributes():
    layer = Outer(3, 2)
    assert saving.paths_below(layer, "layer_1", "inner/1") == {
        "layer_1/norm/scale": "inner/1/scale"
    }
    assert saving.paths_below(layer, "", "inner/0") == {
        "norm/scale": "inner/0/scale"
    }


def test_only_our_own_classes_are_registered():
    name = tf_keras.utils.get_registered_name(saving.Dense)
    assert name == "Dense"  # of the module itself
    assert tf_keras.utils.get_registered_name(Inner) == "Inner"
    name = tf_keras.utils.get_registered_name(FeedForward)
    assert name == "xlnet>FeedForward"


def test_a_head_computes_in_float32_with_the_encoders_first_weights():
    config = BertConfig(9, 4, 1, 2, 6, init_std=0.5)
    layer = saving.dense_of(config, 50, "logit", use_bias=False)
    layer.build([None, 80])
    assert layer.dtype_policy.name == "float32" and len(layer.weights) == 1
    assert 0.4 < float(tf.math.reduce_std(layer.kernel)) < 0.6


def test_an_export_holds_variables_and_no_traces(tmp_path):
    layer = Inner(3)
    layer(tf.ones([1, 3]))
    assert set(layer._trackable_children("savedmodel")) >= {"scale"}
    assert layer._object_identifier == "_generic_user_object"
    names = set(layer._trackable_children("savedmodel"))
    assert names == set(layer._trackable_children("checkpoint"))
