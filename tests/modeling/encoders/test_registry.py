"""One reader of configurations; another encoder is its folder and its row."""

import dataclasses
import json
from typing import Any, ClassVar

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from common.errors import UserError
from modeling import XLNetConfig
from modeling.checkpoints import conversion
from modeling.checkpoints import restore as checkpoints
from modeling.checkpoints.names import named_variables
from modeling.encoders import registry
from modeling.encoders.base import Encoder, EncoderOutput
from modeling.encoders.contract import Capabilities
from training.objectives.build import build_objective
from training.optim.variable_groups import build_groups
from training.options import OptimizerOptions

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
        memory=True, query_stream=True, directions=2, layout="cls_last"
    )


# -- An encoder that is planted: a bag of words. --


@dataclasses.dataclass(frozen=True)
class BagConfig:
    """Sizes of `BagEncoder`."""

    model_type: ClassVar[str] = "bag"

    vocab_size: int
    d_model: int
    n_layer: int = 1
    dropout: float = 0.0
    mem_len: int | None = None
    init_method: str = "normal"
    init_std: float = 0.5
    extra: dict[str, Any] = dataclasses.field(default_factory=dict, hash=False)

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
