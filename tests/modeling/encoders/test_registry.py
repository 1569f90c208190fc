"""One reader of configurations; another encoder is its folder and its row."""

import dataclasses
import json
import types
from typing import Any, ClassVar

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from common.errors import UserError
from common.references import resolve
from flags import flag_values
from flags.training import model_flags
from modeling import XLNetConfig
from modeling.checkpoints import conversion, tf1
from modeling.checkpoints import restore as checkpoints
from modeling.checkpoints.names import named_variables
from modeling.encoders import registry
from modeling.encoders.base import Encoder, EncoderOutput
from modeling.encoders.contract import Capabilities, EncoderConfig
from training.finetuning import preflight
from training.jobs import pretraining_job
from training.objectives.build import build_objective
from training.optim.variable_groups import build_groups
from training.reporting.memory_estimate import activation_bytes
from training.run_options import OptimizerOptions

XLNET = {
    "n_token": 17,
    "d_model": 6,
    "n_layer": 2,
    "n_head": 3,
    "d_head": 2,
    "d_inner": 10,
}


def test_a_file_without_model_type_is_xlnet(tmp_path):
    path = tmp_path / "xlnet_config.json"
    path.write_text(json.dumps(XLNET))
    config = registry.read_config(str(path))
    assert config == XLNetConfig.from_json_file(str(path))
    path.write_text(json.dumps(XLNET | {"model_type": "xlnet"}))
    assert registry.read_config(str(path)) == config
    assert registry.config_file_in(str(tmp_path)) == str(path)
    assert registry.config_file_in(str(tmp_path / "none")) is None


def test_an_unknown_model_type_names_file_and_choices(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"model_type": "elmo"}))
    with pytest.raises(UserError, match=r"config.json.*xlnet.*found 'elmo'"):
        registry.read_config(str(path))


@pytest.mark.parametrize("text", ["[1]", "{", "", '"a"', "[" * 100_000])
def test_what_is_no_json_object_is_one_line(tmp_path, text):
    path = tmp_path / "xlnet_config.json"
    path.write_text(text)
    with pytest.raises(UserError) as caught:
        registry.read_config(str(path))
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


def test_what_xlnet_can_do():
    assert registry.spec_of("xlnet").capabilities == Capabilities(
        memory=True,
        query_stream=True,
        directions=2,
        layout="cls_last",
        packed_rows=True,
    )


@pytest.mark.parametrize("model_type", list(registry.ENCODERS))
def test_configurations_have_what_the_contract_says(model_type):
    config = resolve(registry.spec_of(model_type).config)
    names = {field.name for field in dataclasses.fields(config)} | set(
        dir(config)
    )
    assert not set(EncoderConfig.__annotations__) - names


# -- An encoder that is planted: a bag of words. --


@dataclasses.dataclass(frozen=True)
class BagConfig:
    """Sizes of `BagEncoder`."""

    model_type: ClassVar[str] = "bag"

    vocab_size: int
    d_model: int
    n_layer: int = 1
    n_head: ClassVar[int] = 1
    d_head: ClassVar[int] = 1
    d_inner: ClassVar[int] = 1
    causal: ClassVar[bool] = False
    dropout: float = 0.0
    dropatt: ClassVar[float] = 0.0
    mem_len: ClassVar[None] = None
    init_method: str = "normal"
    init_std: float = 0.5
    extra: dict[str, Any] = dataclasses.field(default_factory=dict, hash=False)

    @property
    def dropout_rates(self):
        return (self.dropout,)

    def replace(self, **changes):
        return dataclasses.replace(self, **changes)

    def with_memory(self, length):
        return self

    def architecture(self):
        return {"vocab_size": self.vocab_size, "d_model": self.d_model}

    def to_dict(self):
        return dataclasses.asdict(self) | {"model_type": self.model_type}

    @classmethod
    def from_dict(cls, value):
        return cls(**value)

    def to_json(self):
        return json.dumps(self.to_dict())


@tf_keras.utils.register_keras_serializable("test_registry")
class BagEncoder(Encoder):
    """Every position gets the mean of the words' vectors plus its own."""

    scope = "model/bag/"

    def __init__(self, config, recompute="none", **kwargs):
        super().__init__(**kwargs)
        self.config = registry.config_from_dict(config)
        shape = [self.config.vocab_size, self.config.d_model]
        self.table = self.add_weight("table", shape, initializer="normal")
        self.built = True

    def call(
        self,
        input_ids,
        segment_ids=None,
        input_mask=None,
        training=False,
        seed=None,
    ):
        words = tf.gather(self.table, input_ids)  # [B, T, D]
        mean = tf.reduce_mean(words, 1, keepdims=True)
        return EncoderOutput(words + mean)

    def variable_paths(self):
        return {"table": "table"}

    def get_config(self):
        return {"config": self.config.to_dict()}


BAG_GROUPS = ((r"model/bag/table", True, "embedding"),)


@pytest.fixture
def planted(monkeypatch):
    row = registry.EncoderSpec(
        model_type="bag",
        config=f"{__name__}:BagConfig",
        model=f"{__name__}:BagEncoder",
        groups=f"{__name__}:BAG_GROUPS",
        hugging_face="",
        config_file="bag_config.json",
        capabilities=Capabilities(False, False, 1, "cls_first"),
    )
    monkeypatch.setitem(registry.ENCODERS, "bag", row)
    return BagConfig(vocab_size=13, d_model=4)


@pytest.mark.parametrize(
    "head, options, labels",
    [
        ("classification", {"num_labels": 3}, [2, 0]),
        ("regression", {}, [0.5, -1.0]),
        ("token_classification", {"num_labels": 3}, [[1, -1, 2], [0, 2, 1]]),
    ],
)
def test_a_planted_encoder_trains_with_every_kind_of_head(
    planted, head, options, labels
):
    objective = build_objective(head, planted, **options)
    model = objective.build_model()
    batch = {
        "input_ids": np.asarray([[9, 10, 11], [12, 9, 10]], np.int32),
        "segment_ids": np.zeros([2, 3], np.int32),
        "input_mask": np.ones([2, 3], np.int32),
        "label_ids": np.asarray(labels),
        "example_weight": np.ones(2, np.float32),
    }
    if head == "regression":
        batch["label_ids"] = batch["label_ids"].astype(np.float32)
    with tf.GradientTape() as tape:
        loss = objective.loss(model, batch, None, True, tf.constant([1, 2]))
    variables = named_variables(model)
    gradient = tape.gradient(loss.loss_sum, variables["model/bag/table"])
    assert float(tf.norm(tf.convert_to_tensor(gradient))) > 0
    groups = build_groups(variables, planted.n_layer, OptimizerOptions())
    assert groups["model/bag/table"].layer == -1


def test_a_planted_encoder_is_saved_and_read(planted, tmp_path):
    objective = build_objective("classification", planted, num_labels=3)
    model = objective.build_model()
    weights = conversion.Weights("classification", planted, model, {}, [])
    nowhere = checkpoints.Source("native", "", str(tmp_path))
    folder = str(tmp_path / "bag")
    conversion.write(weights, "native", folder, nowhere)
    config = checkpoints.find_config(folder)
    assert config == planted
    other = build_objective("classification", config, num_labels=3)
    again = other.build_model()
    report = checkpoints.restore(again, folder)
    assert not report.fresh
    for name, variable in named_variables(model).items():
        np.testing.assert_array_equal(variable, named_variables(again)[name])


def test_sizes_of_a_planted_encoder_are_counted(planted):
    assert preflight.encoder_weights(planted) == 13 * 4
    assert activation_bytes(planted, 2, 5, 0, 4, False) > 2 * 5 * 4 * 4
    objective = build_objective("classification", planted, num_labels=3)
    assert objective.config.dropout_rates == (0.0,)


def test_what_a_planted_encoder_cannot_do_is_one_line(planted, tmp_path):
    """Flags ask `Capabilities`, and so do objectives and file formats."""
    assert registry.changed(planted, {"dropout": 0.3, "mem_len": 0}) == (
        planted.replace(dropout=0.3)
    )
    assert pretraining_job.memory_defaults(planted, 8, 4) == {}
    weights = {"model/bag/table": np.zeros([13, 4], np.float32)}
    for message, wrong in (
        ("--mem_len needs .* memory .*xlnet", {"mem_len": 4}),
        ("--clamp_len=3: .*'bag' has no such setting", {"clamp_len": 3}),
    ):
        with pytest.raises(UserError, match=message):
            registry.changed(planted, wrong)
    with pytest.raises(UserError, match="--segment_recurrence needs .*memory"):
        build_objective(
            "classification", planted, segments=2, segment_len=4, num_labels=3
        )
    with pytest.raises(UserError, match="pretraining needs .*query stream"):
        build_objective("pretraining", planted)
    with pytest.raises(UserError, match="no TF1 checkpoints of 'bag'"):
        tf1.write(str(tmp_path / "x.ckpt"), weights, {}, planted)
    assert not list(tmp_path.iterdir())


class Given(dict):
    """Parsed flags: those that are given, None for the others."""

    def __getitem__(self, name):
        value = self.get(name)
        return types.SimpleNamespace(value=value, present=value is not None)

    def __getattr__(self, name):
        return self.get(name)


def test_flags_meet_the_file_of_a_planted_encoder(
    planted, tmp_path, monkeypatch
):
    path = tmp_path / "bag_config.json"
    path.write_text(planted.to_json())
    for given, wanted in (
        ({"dropout": 0.25}, planted.replace(dropout=0.25)),
        ({"untie_r": True}, "`untie_r` wanted True, found None"),
        ({"same_length": True}, "--same_length=True: .*'bag' has no such"),
    ):
        given = Given(given, model_config_path=str(path))
        for module in (model_flags, flag_values):
            monkeypatch.setattr(module, "FLAGS", given)
        if isinstance(wanted, BagConfig):
            assert model_flags.from_flags(13) == wanted
            continue
        with pytest.raises(UserError, match=wanted):
            model_flags.from_flags(13)


@pytest.mark.parametrize("name", list(registry.ENCODERS))
def test_wrong_values_of_any_field_are_told(name):
    """Whatever JSON holds in a field's place is taken or refused in a line."""
    sizes = XLNET | {"vocab_size": 17, "d_model": 12, "d_head": 4}
    fields = {
        field.name
        for field in dataclasses.fields(resolve(registry.spec_of(name).config))
    }
    kept = {k: v for k, v in sizes.items() if k in fields}
    config = registry.config_from_dict(kept | {"model_type": name})
    good, refused = config.to_dict(), 0
    wrong = (None, [[]], {"a": 1}, "x", 0, -1, float("inf"), True, [1], [3, ""])
    for key in good:
        for value in wrong:
            try:
                registry.config_from_dict(good | {key: value})
            except UserError:
                refused += 1
    assert refused > 5 * len(good)
