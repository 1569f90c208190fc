"""BERT and ALBERT: Hugging Face's numbers, sharing, packed rows."""

import numpy as np
import pytest
import tensorflow as tf

from common.errors import UserError
from modeling import ClassificationModel, PretrainingModel
from modeling.attention import plain
from modeling.attention.relative import probabilities
from modeling.checkpoints import restore as checkpoints
from modeling.checkpoints.names import named_variables
from modeling.encoders.bert.backbone import BertModel
from modeling.encoders.bert.config import AlbertConfig, BertConfig
from tests.modeling.encoders import golden_encoders as g
from training.optim.variable_groups import build_groups
from training.run_options import OptimizerOptions

CASES = g.cases("bert", "albert")
SECOND = {"nsp": "next_sentence_label", "sop": "sentence_order_label"}


def _inputs(arrays, kind):
    stored = g.below(arrays, f"{kind}/in")
    return {
        "input_ids": stored["input_ids"],
        "segment_ids": stored["token_type_ids"],
        "input_mask": None if kind == "nopad" else stored["attention_mask"],
    }


@pytest.fixture(scope="module", params=CASES)
def case(request, golden):
    folder = golden / "encoders"
    weights = g.read(folder, request.param)
    return g.arrays_of(folder, request.param), weights, folder / request.param


def _states(encoder, hidden_states, inputs):
    """The states with those within ALBERT's groups, as the golden ones."""
    mask = plain.mask_of(inputs["input_mask"])
    inner = encoder.config.inner_layers
    states, layers = [hidden_states[0]], encoder.applied_layers()
    for i, state in enumerate(hidden_states[1:]):
        x = hidden_states[i]
        if i == 0 and encoder.mapping is not None:
            x = encoder.mapping(x)
        for layer in layers[i * inner : (i + 1) * inner - 1]:
            x = layer(x, mask)
            states.append(x)
        states.append(state)
    return states


@pytest.mark.long
@pytest.mark.parametrize("kind", ["pad", "nopad"])
def test_states_losses_and_gradients(case, kind):
    arrays, weights, folder = case
    model, inputs = weights.model, _inputs(arrays, kind)
    second = "nsp" if f"{kind}/nsp_logits" in arrays else "sop"
    assert weights.head == "pretraining"
    with tf.GradientTape(persistent=True) as tape:
        out = model(**inputs, output_hidden_states=True)
        logits = model.lm_logits(out.sequence_output)
        mlm = g.mean_loss(logits, arrays[f"{kind}/in/labels"])
        pair = model.next_sentence_logits(
            out.sequence_output, input_mask=inputs["input_mask"]
        )
        labels = arrays[f"{kind}/in/{SECOND[second]}"]
        pair_loss = g.mean_loss(pair, labels)
        loss = mlm + pair_loss
    states = g.below(arrays, f"{kind}/hidden")
    mapped = states.pop("embedding_hidden_mapping_in", None)
    g.assert_close(out.hidden_states[0], states.pop("embeddings"), "embeddings")
    if mapped is not None:
        computed = model.encoder.mapping(out.hidden_states[0])
        g.assert_close(computed, mapped, "mapping")
    assert len(out.hidden_states) == model.config.n_layer + 1
    layer_states = _states(model.encoder, out.hidden_states, inputs)
    assert len(states) == len(layer_states) - 1 > 0
    for name, wanted in states.items():
        state = layer_states[int(name.removeprefix("layer_")) + 1]
        g.assert_close(state, wanted, name)
    for name, computed in (
        ("mlm_logits", logits),
        (f"{second}_logits", pair),
        ("mlm_loss", mlm),
        (f"{second}_loss", pair_loss),
        ("loss", loss),
    ):
        g.assert_close(computed, arrays[f"{kind}/{name}"], name)
    pooled = model.pooler(out.sequence_output, input_mask=inputs["input_mask"])
    g.assert_close(pooled, arrays[f"{kind}/pooled"], "pooled")
    wanted = g.below(arrays, f"{kind}/grad")
    if wanted:
        g.assert_gradients(tape, loss, model, "pretraining", wanted)
    if alone := g.below(arrays, f"{kind}/grad_mlm"):
        g.assert_gradients(tape, mlm, model, "pretraining", alone, False)


def test_attention_probabilities(case):
    arrays, weights, folder = case
    encoder = weights.model.encoder
    for kind in ("pad", "nopad"):
        inputs = _inputs(arrays, kind)
        output = encoder(**inputs, output_hidden_states=True)
        states = _states(encoder, output.hidden_states, inputs)
        layers = encoder.applied_layers()
        for i, wanted in g.below(arrays, f"{kind}/attention").items():
            x = states[int(i)]
            if int(i) == 0 and encoder.mapping is not None:
                x = encoder.mapping(x)
            q, k, _ = layers[int(i)].attention.heads(x)
            mask = plain.mask_of(inputs["input_mask"])
            p = probabilities(plain.scores(q, k, mask), tf.float32)
            made = tf.transpose(p, [1, 0, 2, 3])
            g.assert_close(made, wanted, f"{kind} layer {i}")


@pytest.mark.long
def test_classification(case):
    arrays, weights, folder = case
    classes = arrays["cls/weight/classifier.weight"].shape[0]
    model = ClassificationModel(weights.config, classes)
    assert model.summary_type == "first"
    report = checkpoints.restore(model, str(folder), require="encoder")
    # The pooler comes along: only the classifier is new.
    assert set(report.fresh) == {
        "model/classification/logit/kernel",
        "model/classification/logit/bias",
    }
    model.class_dense.kernel.assign(arrays["cls/weight/classifier.weight"].T)
    model.class_dense.bias.assign(arrays["cls/weight/classifier.bias"])
    inputs = _inputs(arrays, "pad")
    inputs["input_ids"] = arrays["cls/in/input_ids"]
    with tf.GradientTape() as tape:
        logits = model(**inputs)
        loss = g.mean_loss(logits, arrays["cls/in/labels"])
    g.assert_close(logits, arrays["cls/logits"], "logits")
    g.assert_close(loss, arrays["cls/loss"], "loss")
    g.assert_gradients(
        tape, loss, model, "classification", g.below(arrays, "cls/grad"), False
    )


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


@pytest.mark.long
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


def test_groups_that_do_not_divide_the_layers_are_hugging_faces():
    model = BertModel(ALBERT.replace(n_layer=18, num_groups=14))
    numbers = [
        next(g for g, group in enumerate(model.groups) if layer in group)
        for layer in model.applied_layers()
    ]
    # `albert_layer_groups[int(i / (18 / 14))]` of transformers 5, by hand.
    assert numbers == [
        *(0, 0, 1, 2, 3, 3, 4, 5, 6),
        *(6, 7, 8, 9, 10, 10, 11, 12, 13),
    ]


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
