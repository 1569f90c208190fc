"""Several heads on one encoder: their names, their own variables."""

import numpy as np

from modeling import ClassificationModel, XLNetConfig
from modeling.checkpoints.names import named_variables
from modeling.encoders.modernbert.config import ModernBertConfig
from modeling.heads.multi_task import MultiTaskModel

CONFIG = XLNetConfig(
    vocab_size=29, d_model=6, n_layer=2, n_head=3, d_head=4, d_inner=10
)
TASKS = {
    "mnli": {"head": "classification", "num_labels": 3},
    "sts-b": {"head": "regression"},
}
IDS = np.arange(10).reshape(2, 5)


def test_a_task_has_its_head_and_its_names():
    model = MultiTaskModel(CONFIG, TASKS)
    assert model(IDS, task="mnli").shape == [2, 3]
    assert model(IDS, task="sts-b").shape == [2, 1]
    names = model.task_variable_names()
    assert "model/classification_mnli/logit/kernel" in names["mnli"]
    assert "model/regression_sts-b/logit/kernel" in names["sts-b"]
    assert not set(names["mnli"]) & set(names["sts-b"])
    every = named_variables(model)
    assert {name for of in names.values() for name in of} <= set(every)
    assert MultiTaskModel(CONFIG, model.tasks).tasks == TASKS


def test_a_head_is_that_of_a_model_of_its_task_alone():
    model = MultiTaskModel(CONFIG, TASKS)
    alone = ClassificationModel(CONFIG, 3)
    ours = named_variables(model)
    for name, variable in named_variables(alone).items():
        of_task = name.replace(
            "model/classification/", "model/classification_mnli/"
        ).replace("model/sequnece_summary/", "model/sequnece_summary_mnli/")
        variable.assign(ours[of_task])
    np.testing.assert_allclose(model(IDS, task="mnli"), alone(IDS), atol=1e-6)


def test_every_task_begins_with_the_released_pooler():
    model = MultiTaskModel(CONFIG, TASKS)
    alone = model.names_alone()
    scope = "model/sequnece_summary"
    assert alone[f"{scope}_mnli/summary/kernel"] == f"{scope}/summary/kernel"
    assert alone[f"{scope}_sts-b/summary/bias"] == f"{scope}/summary/bias"
    assert not [name for name in alone if "/logit/" in name]


def test_modernberts_layer_before_the_classifier_is_the_tasks_own():
    config = ModernBertConfig(29, 8, 2, 2, 6)
    model = MultiTaskModel(config, TASKS)
    names = model.task_variable_names()["mnli"]
    assert "model/lm_loss_mnli/transform/kernel" in names
