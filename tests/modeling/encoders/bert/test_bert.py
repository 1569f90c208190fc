"""What sharing, files and sizes of BERT and ALBERT mean."""

import json
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from common.errors import UserError
from modeling import PretrainingModel
from modeling.checkpoints import conversion, hf
from modeling.checkpoints.names import named_variables
from modeling.command_options import ConvertOptions
from modeling.encoders import registry
from modeling.encoders.bert.config import AlbertConfig, BertConfig
from tests.modeling.encoders import golden_encoders as g
from training.optim.variable_groups import build_groups
from training.run_options import OptimizerOptions

TINY = dict(vocab_size=19, d_model=8, n_layer=3, n_head=2, d_inner=12)
ALBERT = AlbertConfig(
    **TINY, embedding_size=4, num_groups=1, max_position_embeddings=9
)
IDS = np.asarray([[3, 4, 5, 6], [7, 8, 9, 0]], np.int32)


def _count(config, second=True):
    """(encoder and pooler, all) in weights; no array is made."""
    with tf.Graph().as_default():
        model = PretrainingModel(config, next_sentence=second)
        sizes = {
            name: variable.shape.num_elements()
            for name, variable in named_variables(model).items()
        }
    encoder = sum(
        size
        for name, size in sizes.items()
        if name.startswith((model.encoder.scope, "model/sequnece_summary"))
    )
    return encoder, sum(sizes.values())


@pytest.mark.parametrize(
    "config, encoder, million",
    [
        # Millions of the papers' tables, counted for V = 30,000.
        (BertConfig.base(30000), 109_081_344, 109.1),
        (BertConfig.large(30000), 334_607_360, 334.6),
        (AlbertConfig(30000, 768, 12, 12, 3072), 11_683_584, 11.68),
        (AlbertConfig(30000, 1024, 24, 16, 4096), 17_683_968, 17.68),
        (AlbertConfig(30000, 2048, 24, 16, 8192), 58_724_864, 58.72),
        # The notes' table has 235M; the standard parts do not reach it.
        (AlbertConfig(30000, 4096, 12, 64, 16384), 222_595_584, 222.60),
    ],
)
def test_parameters_of_the_recipes(config, encoder, million):
    encoder_count, whole = _count(config)
    assert encoder_count == encoder
    assert (
        round(encoder_count / 1e6, len(str(million).split(".")[1])) == million
    )
    e, d, v = config.d_embedding, config.d_model, config.vocab_size
    # Transform, its norm, bias of the tied decoder; the two classes.
    assert whole - encoder_count == d * e + 3 * e + v + 2 * d + 2


def test_a_shared_layer_has_one_set_of_variables():
    model = PretrainingModel(ALBERT)
    variables = named_variables(model)
    layers = [n for n in variables if "/group_" in n]
    assert {n.split("/group_")[1][:9] for n in layers} == {"0/inner_0"}
    assert len(model.encoder.applied_layers()) == ALBERT.n_layer
    assert len({id(v) for v in variables.values()}) == len(variables)
    kernel = "model/albert/group_0/inner_0/ff/layer_1/kernel"

    def gradient(count):
        layer = model.encoder.groups[0][0]
        with tf.GradientTape() as tape:
            h = tf.reshape(tf.range(64, dtype=tf.float32) / 64, [2, 4, 8])
            for _ in range(count):
                h = layer(h)
            loss = tf.reduce_sum(h**3)
        return tape.gradient(loss, variables[kernel])

    # The gradient is the sum over the uses, not that of the last one.
    once, twice = gradient(1), gradient(2)
    assert np.abs(once - twice).max() > 1e-3


@pytest.mark.parametrize("recompute", ["none", "layer"])
def test_a_group_of_layers_gives_one_state(recompute):
    config = ALBERT.replace(num_groups=2, inner_group_num=2)
    model = PretrainingModel(config, recompute=recompute)
    output = model(IDS, output_hidden_states=True)
    assert len(model.encoder.applied_layers()) == 2 * config.n_layer
    assert len(output.hidden_states) == config.n_layer + 1
    np.testing.assert_array_equal(
        output.hidden_states[-1], output.sequence_output
    )
    layers = model.encoder.applied_layers()
    x = model.encoder.mapping(output.hidden_states[0])
    np.testing.assert_allclose(
        output.hidden_states[1], layers[1](layers[0](x)), atol=1e-6
    )


def test_rates_by_layer_are_refused_where_layers_are_shared():
    names = named_variables(PretrainingModel(ALBERT))
    build_groups(names, ALBERT.n_layer, OptimizerOptions())
    for option, flag in (
        ({"lr_layer_decay_rate": 0.75}, "--lr_layer_decay_rate"),
        ({"freeze_layers": 1}, "--freeze_layers"),
    ):
        options = OptimizerOptions(**option)
        with pytest.raises(UserError, match=f"{flag} needs layers"):
            build_groups(names, ALBERT.n_layer, options)
    bert = named_variables(PretrainingModel(BertConfig(**TINY)))
    options = OptimizerOptions(lr_layer_decay_rate=0.5)
    groups = build_groups(bert, 3, options)
    assert groups["model/bert/layer_0/ff/layer_1/kernel"].lr_multiplier == 0.25
    assert not groups["model/bert/layer_0/attention/q/bias"].decayed


@pytest.mark.parametrize("config", [BertConfig(**TINY), ALBERT])
def test_the_file_reads_back(config, tmp_path):
    changed = config.replace(dropout=0.3, extra={"pad_token_id": 0})
    path = registry.write_config(str(tmp_path), changed)
    assert path.endswith("config.json")
    assert registry.read_config(path) == changed
    assert registry.config_from_dict(changed.to_dict()) == changed
    assert json.loads(pathlib.Path(path).read_text())["hidden_size"] == 8
    assert registry.config_file_in(str(tmp_path)) == path


@pytest.mark.parametrize(
    "change, message",
    [
        ({"hidden_size": 9}, "multiple of `n_head`"),
        ({"hidden_act": "swish"}, "hidden_act.*'swish'"),
        ({"num_hidden_layers": 0}, "n_layer.*>= 1"),
        ({"hidden_dropout_prob": 1.0}, "must be in"),
        ({"position_embedding_type": "relative_key"}, "absolute"),
        ({"is_decoder": True}, "is_decoder"),
        ({"d_model": 16}, "disagree"),
    ],
)
def test_a_wrong_file_is_one_line(change, message, tmp_path):
    path = tmp_path / "config.json"
    fields = json.loads(BertConfig(**TINY).to_json())
    path.write_text(json.dumps(fields | change))
    with pytest.raises(UserError, match=message) as caught:
        registry.read_config(str(path))
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


def test_memory_is_refused():
    config = BertConfig(**TINY)
    assert config.with_memory(None) is config
    with pytest.raises(UserError, match="bert has no memory"):
        config.with_memory(4)


@pytest.mark.parametrize("case", g.cases("bert", "albert", "modernbert"))
def test_folders_come_back_bit_for_bit(case, golden, tmp_path):
    from safetensors.numpy import load_file

    folder = golden / "encoders" / case
    native, back = str(tmp_path / "native"), str(tmp_path / "hf")
    for options in (
        ConvertOptions("hf", "native", str(folder), native),
        ConvertOptions("native", "hf", native, back),
    ):
        conversion.convert(options)
    wanted = load_file(folder / "model.safetensors")
    read_back = load_file(f"{back}/model.safetensors")
    assert set(read_back) == set(wanted)
    for name, value in wanted.items():
        assert read_back[name].dtype == value.dtype
        np.testing.assert_array_equal(read_back[name], value, err_msg=name)
    theirs = json.loads((folder / "config.json").read_text())
    ours = json.loads(pathlib.Path(back, "config.json").read_text())
    assert {k: ours.get(k) for k in theirs} == theirs


@pytest.mark.parametrize("head", ["multiple_choice", "token_classification"])
def test_heads_of_their_classes(head, tmp_path):
    from modeling.heads import table

    shapes = {
        "model/token_classification/logit/kernel": [8, 3],
        "pooler/projection/kernel": [8, 8],
    }
    model = table.build(head, ALBERT, shapes)
    arrays = {n: v.numpy() for n, v in named_variables(model).items()}
    hf.write_weights(str(tmp_path), arrays, ALBERT, head)
    hf.write_config(str(tmp_path), ALBERT, head, arrays)
    again, read_head, left_out = hf.read_weights(str(tmp_path), ALBERT)
    assert read_head == head and set(again) == set(arrays) and not left_out
    for name, value in arrays.items():
        np.testing.assert_array_equal(again[name], value)


def test_a_question_answering_head_has_no_place_there(tmp_path):
    from modeling import SpanModel

    model = SpanModel(ALBERT)
    arrays = {n: v.numpy() for n, v in named_variables(model).items()}
    with pytest.raises(UserError, match="no place for"):
        hf.write_weights(str(tmp_path), arrays, ALBERT, "span")


def test_old_names_and_buffers_of_theirs(golden, tmp_path):
    """Released BERTs call gains gamma and keep the tied decoder."""
    from safetensors.numpy import load_file, save_file

    folder = next(
        golden / "encoders" / c for c in g.cases("bert") if c != "missing"
    )
    arrays = load_file(folder / "model.safetensors")
    config = registry.read_config(str(folder / "config.json"))
    wanted = hf.read_weights(str(folder), config).arrays
    old = {}
    for name, value in arrays.items():
        if "LayerNorm" in name:
            name = name.replace("weight", "gamma").replace("bias", "beta")
        old[name] = value
    words = "bert.embeddings.word_embeddings.weight"
    old["cls.predictions.decoder.weight"] = old[words]
    old["bert.embeddings.position_ids"] = np.arange(5)[np.newaxis]
    save_file(old, tmp_path / "model.safetensors")
    text = (folder / "config.json").read_text()
    (tmp_path / "config.json").write_text(text)
    found, head, _ = hf.read_weights(str(tmp_path), config)
    assert head == "pretraining" and set(found) == set(wanted)
    old["cls.predictions.decoder.weight"] = old[words] + 1
    save_file(old, tmp_path / "model.safetensors")
    with pytest.raises(UserError, match="differs from"):
        hf.read_weights(str(tmp_path), config)


def test_packed_rows_equal_rows_of_their_own():
    """Documents of one row, positions restarting, do not see each other."""
    model = PretrainingModel(BertConfig(**TINY)).encoder
    for variable in model.variables:
        variable.assign(tf.random.stateless_normal(variable.shape, [3, 5]))
    apart = model(IDS, input_mask=np.asarray([[1] * 4, [1, 1, 1, 0]]))
    row = np.concatenate([IDS[0], IDS[1, :3], [0]])[np.newaxis]
    packed = model(
        row,
        input_mask=np.asarray([[1] * 7 + [0]]),
        positions=np.asarray([[0, 1, 2, 3, 0, 1, 2, 0]]),
        documents=np.asarray([[1, 1, 1, 1, 2, 2, 2, 0]]),
    ).sequence_output[0]
    np.testing.assert_allclose(packed[:4], apart.sequence_output[0], atol=2e-5)
    np.testing.assert_allclose(
        packed[4:7], apart.sequence_output[1, :3], atol=2e-5
    )
    leaky = model(row, positions=np.asarray([[0, 1, 2, 3, 0, 1, 2, 0]]))
    gap = leaky.sequence_output[0, :4] - apart.sequence_output[0]
    assert np.abs(gap).max() > 1e-3


def test_dropout_and_recomputation(tmp_path):
    config = ALBERT.replace(dropout=0.2, dropatt=0.3)
    plain = PretrainingModel(config)
    again = PretrainingModel(config, recompute="layer")
    for a, b in zip(plain.variables, again.variables, strict=True):
        b.assign(a)
    seed = tf.constant([3, 4])
    results = []
    for model in (plain, again):
        with tf.GradientTape() as tape:
            out = model(IDS, training=True, seed=seed).sequence_output
            loss = tf.reduce_sum(out**3)
        table = model.encoder.embeddings.lookup_table
        kernel = model.encoder.groups[0][0].ff.kernel_1
        table, kernel = tape.gradient(loss, [table, kernel])
        results.append((out, tf.convert_to_tensor(table), kernel))
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)
    assert np.abs(results[0][0] - plain(IDS).sequence_output).max() > 0.01
    with pytest.raises(ValueError, match="needs `seed`"):
        plain(IDS, training=True)
    with pytest.raises(ValueError, match="max_position_embeddings"):
        plain(np.zeros([1, 10], np.int32))
