"""A step of one of several tasks is the single-task step on the same batch."""

import numpy as np
import pytest
import tensorflow as tf

from modeling import PretrainingModel, XLNetConfig
from modeling.checkpoints import conversion, native, restore
from modeling.checkpoints.names import named_variables
from modeling.command_options import ConvertOptions
from modeling.heads.multi_task import MultiTaskModel
from tests.helpers import released_folders
from training.objectives.build import build_objective
from training.objectives.multi_task import MultiTaskObjective, TaskPart
from training.optim.variable_groups import TOP, build_groups
from training.run_options import OptimizerOptions
from training.step import static_lengths

CONFIG = XLNetConfig(
    vocab_size=13,
    d_model=6,
    n_layer=1,
    n_head=2,
    d_head=3,
    d_inner=7,
    dropout=0.2,
    dropatt=0.1,
)
# name, head, classes, length, weight of the loss
TASKS = (
    ("mnli", "classification", 3, 5, 1.0),
    ("sts-b", "regression", None, 8, 0.5),
    ("sst-2", "classification", 2, 4, 1.0),
)
SEED = (3, 4)


def make_objective():
    parts = []
    for name, head, classes, length, weight in TASKS:
        options = {"summary_type": "last"}
        if classes:
            options["num_labels"] = classes
        single = build_objective(head, CONFIG, **options)
        parts.append(TaskPart(name, single, length, weight))
    return MultiTaskObjective(CONFIG, parts)


def make_batch(number, rows=3, width=8):
    """A batch of a task, padded to the longest of all."""
    _, _, classes, length, _ = TASKS[number]
    rng = np.random.default_rng(number)
    real = np.zeros((rows, width), np.int32)
    for row, count in enumerate(rng.integers(2, length + 1, rows)):
        real[row, width - count :] = 1
    labels = (
        rng.integers(0, classes, rows) if classes else rng.normal(size=rows)
    )
    return {
        "input_ids": rng.integers(3, 13, (rows, width)).astype(np.int32) * real,
        "segment_ids": np.where(real, 0, 4).astype(np.int32),
        "input_mask": real,
        "label_ids": labels.astype(np.float32),
        "example_weight": np.array([1, 1, 0], np.float32),
        "task": np.full(rows, number, np.int32),
    }


def gradients_of(loss, variables):
    with tf.GradientTape() as tape:
        total = loss()
    zero = tf.UnconnectedGradients.ZERO
    found = tape.gradient(total, variables, unconnected_gradients=zero)
    return [tf.convert_to_tensor(g).numpy() for g in found]


@pytest.mark.parametrize("kind", ["xlnet", "bert", "albert", "modernbert"])
def test_the_optimizer_knows_every_heads_variables(kind):
    """ModernBERT's heads have a prediction head each."""
    config = released_folders.config(kind, 13)
    parts = [
        TaskPart(name, build_objective(head, config, **options), 8)
        for name, head, options in (
            ("sst-2", "classification", {"num_labels": 2}),
            ("a.b", "regression", {}),
        )
    ]
    objective = MultiTaskObjective(config, parts)
    model = objective.build_model()
    tasks = objective.variable_tasks(model)
    groups = build_groups(
        named_variables(model), config.n_layer, OptimizerOptions(), tasks
    )
    assert {g.task for g in groups.values()} == {None, 0, 1}
    assert {groups[name].layer for name in tasks} == {TOP}


@pytest.mark.parametrize("form", ["hf", "native"])
def test_every_task_begins_with_the_released_pooler(tmp_path, form):
    """As a model of one task does; outputs begin anew.

    ModernBERT's is the layer before its language model's decoder, in our own
    pretrained folders as in released ones.
    """
    folder = released_folders.write("modernbert bpe", tmp_path)
    if form == "native":
        given, folder = str(folder), tmp_path / "native"
        options = ConvertOptions("hf", "native", given, str(folder))
        conversion.convert(options)
    config = restore.find_config(str(folder))
    single = build_objective("classification", config, num_labels=2)
    parts = [TaskPart(name, single, 8) for name in ("sst-2", "cola")]
    alone = single.build_model()
    report = restore.restore(alone, str(folder), require="encoder")
    assert all("/logit/" in name for name in report.fresh)
    model = MultiTaskObjective(config, parts).build_model()
    report = restore.restore(model, str(folder), require="encoder")
    assert all("/logit/" in name for name in report.fresh)
    assert not any("transform" in name for name in report.unused)
    wanted = named_variables(alone)["model/lm_loss/transform/kernel"].numpy()
    for task in ("sst-2", "cola"):
        found = named_variables(model)[f"model/lm_loss_{task}/transform/kernel"]
        np.testing.assert_array_equal(found.numpy(), wanted)


def test_every_task_begins_with_the_pooler_of_our_pairs_of_sentences(tmp_path):
    """BERT's of next-sentence prediction, from our own pretrained folder."""
    config = released_folders.config("bert", 13)
    source = PretrainingModel(config, next_sentence=True)
    folder = str(tmp_path / "native")
    native.write(folder, source, config)
    single = build_objective("classification", config, num_labels=2)
    parts = [TaskPart(name, single, 8) for name in ("sst-2", "cola")]
    for model in (
        single.build_model(),
        MultiTaskObjective(config, parts).build_model(),
    ):
        report = restore.restore(model, folder, require="encoder")
        assert all("/logit/" in name for name in report.fresh)
    for head in model.heads.values():
        np.testing.assert_array_equal(
            head.pooler.projection.kernel, source.pooler.projection.kernel
        )


@pytest.mark.slow
def test_gradients_are_those_of_single_tasks_in_any_order():
    objective = make_objective()
    model = objective.build_model()
    variables = named_variables(model)
    assert "model/classification_mnli/logit/kernel" in variables
    assert "model/regression_sts-b/logit/bias" in variables
    assert "model/sequnece_summary_sst-2/summary/kernel" in variables
    build_groups(variables, 1, OptimizerOptions())  # rules cover them all
    values = list(variables.values())
    for number in (2, 0, 1):
        part = objective.parts[number]
        batch = {k: tf.constant(v) for k, v in make_batch(number).items()}

        def loss_of(task_rows):
            output = objective.loss(
                model, task_rows, None, True, tf.constant(SEED)
            )
            return output.loss_sum

        def together(batch=batch, loss_of=loss_of):
            return static_lengths.by_length(objective, batch, loss_of)

        found = dict(
            zip(variables, gradients_of(together, values), strict=True)
        )
        single = part.objective.build_model()
        head = model.heads[part.name]
        theirs = named_variables(head)
        for name, variable in named_variables(single).items():
            variable.assign(theirs[name])
        length = part.length
        rows = {
            k: v[:, -length:] if v.shape.rank == 2 else v
            for k, v in batch.items()
        }
        if part.objective.name == "classification":
            rows["label_ids"] = tf.cast(rows["label_ids"], tf.int32)

        def alone(rows=rows, single=single, part=part):
            output = part.objective.loss(
                single, rows, None, True, tf.constant(SEED)
            )
            return part.weight * output.loss_sum

        own = named_variables(single)
        wanted = dict(
            zip(own, gradients_of(alone, list(own.values())), strict=True)
        )
        names = {id(v): name for name, v in variables.items()}
        touched = set()
        for name, gradient in wanted.items():
            name = names[id(theirs[name])]
            touched.add(name)
            np.testing.assert_allclose(
                found[name], gradient, rtol=1e-5, atol=1e-7, err_msg=name
            )
        assert any(np.abs(g).max() > 0 for g in wanted.values())
        for name in variables.keys() - touched:  # other tasks' heads
            assert not found[name].any(), name


def test_the_model_comes_back_from_its_configuration():
    model = make_objective().build_model()
    twin = MultiTaskModel.from_config(model.get_config())
    shapes = {n: v.shape for n, v in named_variables(model).items()}
    assert {n: v.shape for n, v in named_variables(twin).items()} == shapes
    ids = tf.constant([[3, 4, 5, 6]])
    assert twin(ids, task="mnli").shape == (1, 3)
    with pytest.raises(KeyError):
        twin(ids, task="cola")
