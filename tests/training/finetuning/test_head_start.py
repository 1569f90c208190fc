"""`--init_head`: outputs of one task's head that begin as another's."""

import dataclasses

import numpy as np
import pytest

from common.contract.task_spec import TaskSpec
from common.errors import UserError
from common.vocabularies.text_settings import TextSettings
from modeling import XLNetConfig
from modeling.checkpoints import native
from modeling.checkpoints.names import named_variables
from training.finetuning import head_start as starts
from training.finetuning.head_start import head_start
from training.finetuning.options import TASKS
from training.objectives.build import build_objective

CONFIG = XLNetConfig(
    vocab_size=13, d_model=6, n_layer=1, n_head=2, d_head=3, d_inner=7
)
HEAD = {"summary_type": "last", "use_proj": True}
MNLI = ("contradiction", "entailment", "neutral")
RTE = ("entailment", "not_entailment")
KERNEL = "model/classification/logit/kernel"
BIAS = "model/classification/logit/bias"
PROJECTION = "model/sequnece_summary/summary/kernel"


def spec_of(name, labels, head="classification", **options):
    options = HEAD | {"num_labels": len(labels)} | options
    return TaskSpec(name, head, labels, 16, TextSettings(), "0", options)


def build(count, **options):
    objective = build_objective(
        "classification", CONFIG, num_labels=count, **(HEAD | options)
    )
    return objective.build_model()


def arrays(model):
    return {n: v.numpy() for n, v in named_variables(model).items()}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run of several tasks with a model of MNLI; that model's variables."""
    joint = tmp_path_factory.mktemp("run") / "joint"
    model = build(3)
    named_variables(model)[BIAS].assign([1.0, 2.0, 5.0])
    folder = joint / TASKS / "mnli"
    folder.parent.mkdir(parents=True)
    native.write(str(folder), model, CONFIG, spec_of("mnli", MNLI).write)
    return joint, arrays(model)


@pytest.mark.parametrize("place", ["", f"{TASKS}/mnli"])
def test_a_head_begins_as_another_tasks(trained, place):
    """From the folder of the run, and from that of the task."""
    joint, theirs = trained
    target = build(2)
    before = arrays(target)
    start = head_start("mnli", spec_of("rte", RTE), str(joint / place))
    start(target)
    ours = arrays(target)
    kernel = theirs[KERNEL]
    np.testing.assert_allclose(
        ours[KERNEL],
        np.stack([kernel[:, 1], (kernel[:, 0] + kernel[:, 2]) / 2], 1),
        rtol=1e-6,
    )
    np.testing.assert_allclose(ours[BIAS], [2.0, 3.0], rtol=1e-6)
    np.testing.assert_array_equal(ours[PROJECTION], theirs[PROJECTION])
    # The encoder has its values from the checkpoint itself.
    encoder = [name for name in ours if "/transformer/" in name]
    assert len(encoder) > 5
    for name in encoder:
        np.testing.assert_array_equal(ours[name], before[name])


@pytest.mark.parametrize("name", ["MNLI", "sts"])
def test_a_task_is_named_as_its_flag_takes_it(tmp_path, name):
    known = {"MNLI": "mnli", "sts": "sts-b"}[name]
    for folder in {known, name.lower()}:
        home = tmp_path / folder / "tasks" / folder
        home.mkdir(parents=True)
        spec_of(known, ("a", "b")).write(str(home))
        assert starts._find(name, str(tmp_path / folder)) == str(home)


def test_a_head_of_another_shape_is_refused(trained):
    joint, _ = trained
    start = head_start("mnli", spec_of("rte", RTE), str(joint))
    with pytest.raises(UserError, match="summary.* has another shape in"):
        start(build(2, summary_type="attn"))


@pytest.mark.parametrize(
    "name, wanted, message",
    [
        (
            "qnli",
            spec_of("rte", RTE),
            "--init_head=qnli: .* --model_dir of a model of qnli, .* found '/",
        ),
        (
            "mnli",
            spec_of("sst-2", ("0", "1")),
            "contradiction, entailment, neutral are none of 0, 1",
        ),
        ("mnli", spec_of("sts-b", (), "regression"), "is for classification"),
    ],
)
def test_a_task_that_has_no_such_start(trained, name, wanted, message):
    with pytest.raises(UserError, match=message) as e:
        head_start(name, wanted, str(trained[0]))
    assert "\n" not in str(e.value)


def test_without_a_checkpoint_there_is_no_model_of_the_task():
    with pytest.raises(UserError, match="found ''"):
        head_start("mnli", spec_of("rte", RTE), None)


def test_a_model_with_another_head_is_no_start(trained, tmp_path):
    spec = dataclasses.replace(spec_of("mnli", MNLI), head="regression")
    spec.write(str(tmp_path))
    with pytest.raises(UserError, match="--init_head is for classification"):
        head_start("mnli", spec_of("rte", RTE), str(tmp_path))


@pytest.mark.parametrize(
    "labels, others, wanted",
    [
        ("ab", "ba", [[0, 1], [1, 0]]),
        ("ax", "abc", [[1, 0, 0], [0, 0.5, 0.5]]),
        ("axy", "ab", [[1, 0], [0, 1], [0, 1]]),
        ("abx", "ab", [[1, 0], [0, 1], [0, 0]]),  # nothing is left for x
    ],
)
def test_shares_of_the_others_outputs(labels, others, wanted):
    np.testing.assert_array_equal(starts._rows(labels, others), wanted)
