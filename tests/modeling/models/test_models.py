"""Models as Keras objects: sizes, names, configs, checkpoints, exports."""

import resource
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from modeling import (
    ClassificationModel,
    MultipleChoiceModel,
    PretrainingModel,
    SpanModel,
    TokenClassificationModel,
    XLNetConfig,
    XLNetModel,
)
from modeling.checkpoints.names import named_variables

MODEL_CONFIG = XLNetConfig(
    vocab_size=29,
    d_model=12,
    n_layer=2,
    n_head=3,
    d_head=5,
    d_inner=20,
    init_std=0.3,
)
MODELS = {
    "backbone": lambda c: XLNetModel(c, blind_rows="original"),
    "pretraining": lambda c: PretrainingModel(c, next_sentence=True),
    "classification": lambda c: ClassificationModel(
        c, 4, "attn", cls_index=2, pooling="original"
    ),
    "regression": lambda c: ClassificationModel(c, 1, "mean", regression=True),
    "span": lambda c: SpanModel(c, 2, 3, query_shift="factored"),
    "multiple_choice": lambda c: MultipleChoiceModel(c, "first", False),
    "token_classification": lambda c: TokenClassificationModel(c, 6),
}
IDS = np.random.default_rng(0).integers(0, 29, (4, 7)).astype(np.int32)


def _call(model, **arguments):
    ids = IDS
    if isinstance(model, MultipleChoiceModel):
        ids = IDS[:, :6].reshape(4, 2, 3)
    return model(ids, **arguments)


def _arrays(output):
    return [np.asarray(x) for x in tf.nest.flatten(output) if x is not None]


@pytest.mark.long
@pytest.mark.parametrize(
    "size,count",
    [
        ("base", 116_718_336),
        pytest.param("large", 360_268_800, marks=pytest.mark.slow),
    ],
)
def test_parameter_counts(size, count):
    """Counted from the shapes, without making 1.4 GB of weights."""
    with tf.Graph().as_default():
        model = PretrainingModel(getattr(XLNetConfig, size)())
        assert model.encoder.count_params() == count
        assert model.count_params() == count + 32000


@pytest.mark.long
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("untie_r", [True, False])
def test_config_round_trip_and_names(name, untie_r):
    config = MODEL_CONFIG.replace(untie_r=untie_r, extra={"a": 1})
    model = MODELS[name](config)
    again = type(model).from_config(model.get_config())
    assert again.get_config() == model.get_config()
    assert again.config == config
    first, second = named_variables(model), named_variables(again)
    assert [(k, v.shape) for k, v in first.items()] == [
        (k, v.shape) for k, v in second.items()
    ]
    assert len(first) == len(model.trainable_variables)
    again.set_weights(model.get_weights())
    for a, b in zip(_arrays(_call(model)), _arrays(_call(again)), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.long
@pytest.mark.parametrize(
    "name",
    [
        name if name == "span" else pytest.param(name, marks=pytest.mark.slow)
        for name in MODELS
    ],
)
def test_checkpoint_and_export(name, tmp_path):
    model = MODELS[name](MODEL_CONFIG)
    expected = _arrays(_call(model))
    path = tf.train.Checkpoint(model=model).save(str(tmp_path / "ckpt"))
    other = MODELS[name](MODEL_CONFIG)
    tf.train.Checkpoint(model=other).restore(path).assert_consumed()
    for a, b in zip(expected, _arrays(_call(other)), strict=True):
        np.testing.assert_array_equal(a, b)

    spec = [None, None, None] if name == "multiple_choice" else [None, None]

    @tf.function(
        input_signature=[tf.TensorSpec(spec, tf.int32)], autograph=False
    )
    def serve(ids):
        output = tf.nest.flatten(model(ids))
        return {str(i): x for i, x in enumerate(output) if x is not None}

    module = tf.Module()
    module.model, module.serve = model, serve
    tf.saved_model.save(module, str(tmp_path / "saved"))
    loaded = tf.saved_model.load(str(tmp_path / "saved"))
    served = loaded.serve(
        IDS[:, :6].reshape(4, 2, 3) if name == "multiple_choice" else IDS
    )
    for a, b in zip(
        expected, [served[k].numpy() for k in sorted(served)], strict=True
    ):
        np.testing.assert_allclose(a, b, atol=1e-5)


def test_dropout_needs_a_seed_and_is_a_function_of_it():
    model = PretrainingModel(MODEL_CONFIG)
    call = dict(target_positions=[[1, 3]] * 4, training=True)
    with pytest.raises(ValueError, match="seed"):
        model(IDS, **call)
    a, b, c = (
        model(IDS, **call, seed=tf.constant(seed)).query_output.numpy()
        for seed in ([1, 2], [1, 2], [1, 3])
    )
    np.testing.assert_array_equal(a, b)
    assert np.abs(a - c).max() > 0.1
    quiet = model(IDS, target_positions=call["target_positions"], seed=[1, 2])
    plain = model(IDS, target_positions=call["target_positions"])
    np.testing.assert_array_equal(quiet.query_output, plain.query_output)
    still = PretrainingModel(MODEL_CONFIG.replace(dropout=0.0, dropatt=0.0))
    still(IDS, training=True)


@pytest.mark.long
@pytest.mark.parametrize("rate", ["dropout", "dropatt", "activation_dropout"])
def test_every_rate_has_an_effect(rate):
    rates = {"dropout": 0.0, "dropatt": 0.0, "activation_dropout": 0.0}
    model = XLNetModel(MODEL_CONFIG.replace(**rates))
    noisy = XLNetModel(MODEL_CONFIG.replace(**(rates | {rate: 0.5})))
    noisy.set_weights(model.get_weights())
    call = dict(target_positions=[[1, 3]] * 4, training=True, seed=[3, 4])
    for name in ("sequence_output", "query_output"):
        a, b = (getattr(m(IDS, **call), name) for m in (model, noisy))
        assert np.abs(a - b).max() > 0.1, name


@pytest.mark.parametrize(
    "call,words",
    [
        (dict(perm_mask=np.zeros((4, 7, 7)), ranks=IDS), "not both"),
        (
            dict(
                target_positions=[[1]] * 4, target_mapping=np.zeros((4, 1, 7))
            ),
            "not both",
        ),
        (dict(ranks=IDS), "is_target"),
        (dict(memory=[np.zeros((4, 2, 12))]), "one per layer"),
    ],
)
def test_contradictory_calls(call, words):
    with pytest.raises(ValueError, match=words):
        XLNetModel(MODEL_CONFIG)(IDS, **call)
    with pytest.raises(ValueError, match="even batch"):
        XLNetModel(MODEL_CONFIG)(IDS[:3], bi_data=True)


def test_memory_grows_to_mem_len_and_keeps_its_type():
    model = XLNetModel(MODEL_CONFIG.replace(mem_len=5, reuse_len=3))
    output = model(IDS)
    assert [m.shape.as_list() for m in output.new_memory] == [[4, 3, 12]] * 2
    np.testing.assert_array_equal(output.new_memory_length, [3] * 4)
    again = model(IDS, memory=output.new_memory)
    assert again.new_memory[1].shape == [4, 5, 12]
    half = [tf.cast(m, tf.float16) for m in again.new_memory]
    assert model(IDS, memory=half).new_memory[0].dtype == tf.float16
    longer = model(IDS, memory=[tf.zeros([4, 11, 12])] * 2)
    assert longer.new_memory[0].shape == [4, 5, 12]


_BASE_STEP = """
import numpy as np, tensorflow as tf
from modeling import PretrainingModel, XLNetConfig
model = PretrainingModel(XLNetConfig.base(mem_len=384, reuse_len=256))
rng = np.random.default_rng(0)
ids = tf.constant(rng.integers(9, 32000, (2, 512)), tf.int32)
ranks = tf.constant(np.stack([rng.permutation(512) for _ in range(2)]), tf.int32)
where = tf.constant(np.tile(np.arange(0, 510, 6), (2, 1)), tf.int32)
memory = tuple(tf.zeros([2, 384, 768]) for _ in range(12))

@tf.function
def step():
    with tf.GradientTape() as tape:
        out = model(ids, segment_ids=ids % 2, ranks=ranks,
                    is_target=tf.ones([2, 512]), target_positions=where,
                    memory=memory, bi_data=True, training=True, seed=[1, 2])
        loss, weight, _ = model.lm_loss(
            out.query_output, tf.gather(ids, where, batch_dims=1),
            tf.ones([2, 85]))
        loss /= weight
    gradients = tape.gradient(loss, model.trainable_variables)
    return loss, [tf.convert_to_tensor(g) for g in gradients if g is not None]

loss, gradients = step()
assert np.isfinite(loss) and len(gradients) == len(model.trainable_variables)
print("loss", float(loss))
"""


@pytest.mark.slow
def test_base_step_fits_in_12_gb():
    """B 2, T 512, M 384: forward and backward, peak of the process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    done = subprocess.run(
        [sys.executable, "-c", _BASE_STEP], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
    print(f"{done.stdout} peak {peak:.2f} GiB (children before: {before})")
    assert peak < 12
