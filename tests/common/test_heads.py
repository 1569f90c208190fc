"""The table of heads: every row stands for real things, and a row is enough."""

import json
import re

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from common import heads
from common.errors import UserError
from common.references import resolve
from modeling import XLNetConfig
from modeling.checkpoints import conversion, hf
from modeling.checkpoints import restore as checkpoints
from modeling.checkpoints.names import named_variables
from modeling.encoders.transformer_xl.config import TransformerXLConfig
from modeling.heads import table
from modeling.heads.classification import TokenClassificationModel
from modeling.models.task_model import TaskModel
from training.objectives.build import build_objective
from training.objectives.finetuning import ClassificationObjective
from training.objectives.segment_recurrent import recurrent
from training.optim import variable_groups
from training.run_options import OptimizerOptions

CONFIG = XLNetConfig(
    vocab_size=21,
    d_model=6,
    n_layer=2,
    n_head=3,
    d_head=2,
    d_inner=10,
    dropout=0.0,
    dropatt=0.0,
)


TRANSFORMER_XL = TransformerXLConfig(
    vocab_size=21,
    d_model=6,
    n_layer=2,
    n_head=3,
    d_head=2,
    d_inner=10,
)


@pytest.mark.parametrize("name", heads.HEADS)
def test_every_row_points_at_what_it_says(name):
    row = heads.HEADS[name]
    model = resolve(row.model)
    assert issubclass(model, TaskModel)
    assert not row.objective or resolve(row.objective).name == name
    assert not row.signatures or callable(resolve(row.signatures))
    if row.reads_segments:
        objective = resolve(row.objective)
        assert issubclass(recurrent(objective), objective)
    if not row.marker:
        return
    config = TRANSFORMER_XL if "transformer_xl" in row.encoders else CONFIG
    made = table.build(name, config, {marker: [6, 3] for marker in row.marker})
    assert type(made) is model
    variables = named_variables(made)
    assert row.marker[0] in variables
    own = [n for n in variables if not n.startswith(made.encoder.scope)]
    patterns = [rf"(model/)?{scope}/.*" for scope in row.scopes]
    for variable in own:
        assert "seq" in variable or any(
            re.fullmatch(p, variable) for p in patterns
        ), f"{variable} lies in none of the row's scopes"


def test_an_unknown_head_is_refused_with_the_list():
    with pytest.raises(UserError, match="classification.*received 'tagging'"):
        heads.get("tagging")


# -- A head that is planted: its class, its row, nothing else. --


@tf_keras.utils.register_keras_serializable("test_heads")
class FirstTokenModel(TokenClassificationModel):
    """Logits of the first token, [B, Y]."""

    def call(self, input_ids, training=False, seed=None, **arguments):
        logits = super().call(
            input_ids, training=training, seed=seed, **arguments
        )
        return logits[:, 0]

    def head_variable_paths(self):
        return {
            f"model/first_token/logit/{name}": f"token_dense/{name}"
            for name in ("kernel", "bias")
        }


class FirstTokenObjective(ClassificationObjective):
    """Cross-entropy of the first token."""

    name = "first_token"


def first_token_signatures(context):
    """A signature list that says whom it was made for."""
    return {context.spec.head: "signature"}


@pytest.fixture
def planted(monkeypatch):
    row = heads.HeadSpec(
        name="first_token",
        model=f"{__name__}:FirstTokenModel",
        objective=f"{__name__}:FirstTokenObjective",
        signatures=f"{__name__}:first_token_signatures",
        metric="accuracy",
        fields={"label_ids": heads.Field("B", "int32", "class index")},
        marker=("model/first_token/logit/kernel", "first_dense/kernel"),
        scopes=("first_token",),
        hf_class="ForFirstToken",
        hf_names={
            "model/first_token/logit/kernel": ("first.weight", True),
            "model/first_token/logit/bias": ("first.bias", False),
        },
        counts_outputs=True,
    )
    monkeypatch.setitem(heads.HEADS, row.name, row)
    return row


def test_a_planted_head_trains(planted):
    objective = build_objective("first_token", CONFIG, num_labels=4)
    model = objective.build_model()
    batch = {
        "input_ids": np.asarray([[9, 10, 11], [12, 9, 10]], np.int32),
        "segment_ids": np.zeros([2, 3], np.int32),
        "input_mask": np.ones([2, 3], np.int32),
        "label_ids": np.asarray([3, 1], np.int32),
        "example_weight": np.ones(2, np.float32),
    }
    with tf.GradientTape() as tape:
        output = objective.loss(model, batch, None, True, None)
    gradients = tape.gradient(output.loss_sum, model.trainable_variables)
    assert float(output.weight_sum) == 2
    kernel = named_variables(model)["model/first_token/logit/kernel"]
    assert any(
        v is kernel and float(tf.norm(g)) > 0
        for v, g in zip(model.trainable_variables, gradients, strict=True)
        if g is not None
    )


def test_a_planted_head_has_an_optimizer_group(planted):
    pattern = variable_groups.head_pattern()
    assert re.fullmatch(pattern + "kernel", "model/first_token/logit/kernel")
    groups = variable_groups.build_groups(
        ["model/first_token/logit/kernel"], 2, OptimizerOptions()
    )
    assert groups["model/first_token/logit/kernel"].layer is None


def test_a_planted_head_is_served(planted):
    from types import SimpleNamespace

    from serving.signatures.build import build

    context = SimpleNamespace(spec=SimpleNamespace(head="first_token"))
    assert build(context) == {"first_token": "signature"}


def test_a_planted_head_goes_to_hugging_face_and_back(planted, tmp_path):
    model = FirstTokenModel(CONFIG, 4)
    weights = conversion.Weights("first_token", CONFIG, model, {}, [])
    nowhere = checkpoints.Source("native", "", str(tmp_path))
    folder = str(tmp_path / "hf")
    conversion.write(weights, "hf", folder, nowhere)
    again = conversion.read(
        checkpoints.resolve(folder), checkpoints.find_config(folder), None
    )
    assert again.head == "first_token"
    for name, variable in named_variables(model).items():
        np.testing.assert_array_equal(
            variable, named_variables(again.model)[name], name
        )
    config = json.loads((tmp_path / "hf" / hf.CONFIG).read_text())
    assert config["architectures"] == ["XLNetForFirstToken"]
