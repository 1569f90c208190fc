"""`--init_head`: a classifier begins with the head of another task's.

An output whose label the other task has, too, begins as that one; the others
begin as the mean of what is left there. So RTE's `entailment` begins as MNLI's,
and its `not_entailment` between `neutral` and `contradiction`.
"""

import os
from collections.abc import Callable

import numpy as np

from common.contract import task_spec
from common.contract.task_spec import TaskSpec
from common.errors import UserError
from common.weights.weights_line import AUTO
from data.finetuning.options import ALIASES
from modeling.checkpoints import restore
from modeling.checkpoints.names import encoder_of, named_variables
from training.finetuning.options import TASKS
from training.objectives.build import build_objective

_LOGIT = "model/classification/logit/"


def head_start(
    name: str,
    spec: TaskSpec,
    init_checkpoint: str | None,
    choice: str = AUTO,
) -> Callable:
    """Model -> (): gives its head the values of another task's.

    The checkpoint is the folder of its model, or of a run on several tasks.
    Raises UserError: there is no such model, or the tasks share no label.
    """
    folder = _find(name, init_checkpoint or "")
    other_spec = TaskSpec.read(folder)
    if spec.head != "classification" or other_spec.head != "classification":
        raise UserError("--init_head is for classification")
    if not set(spec.labels) & set(other_spec.labels):
        raise UserError(
            f"--init_head={name}: its labels {', '.join(other_spec.labels)} are "
            f"none of {', '.join(spec.labels)}"
        )
    objective = build_objective(
        other_spec.head, restore.find_config(folder), **other_spec.head_options
    )
    other = objective.build_model()
    source = restore.resolve(folder, choice)
    restore.restore(other, source, require="all")
    values = {n: v.numpy() for n, v in named_variables(other).items()}
    rows = _rows(spec.labels, other_spec.labels)  # [Y, Y of the other]

    def start(model) -> tuple[()]:
        scope = encoder_of(model).scope
        for variable_name, variable in named_variables(model).items():
            if variable_name.startswith(scope):
                continue
            value = values.get(variable_name)
            if value is not None and variable_name.startswith(_LOGIT):
                value = value @ rows.T
            if value is None or value.shape != tuple(variable.shape):
                raise UserError(
                    f"--init_head={name}: `{variable_name}` has another shape "
                    f"in {folder}"
                )
            variable.assign(value)
        return ()

    return start


def _find(name: str, path: str) -> str:
    said = name.lower()
    known = ALIASES.get(said, said)  # any case and alias, as --task_name
    places = [
        os.path.join(path, TASKS, n) for n in dict.fromkeys((said, known))
    ]
    for candidate in (path, *places):
        folder = task_spec.find_folder(candidate) if candidate else None
        if folder and TaskSpec.read(folder).task_name == known:
            return folder
    raise UserError(
        f"--init_head={name}: --init_checkpoint must be the --model_dir of a "
        f"model of {name}, or of run_multitask.py with it; found {path!r}"
    )


def _rows(labels, others) -> np.ndarray:
    """Shares of the other task's outputs in each of ours."""
    left = [i for i, other in enumerate(others) if other not in labels]
    rows = np.zeros((len(labels), len(others)), np.float32)
    for i, label in enumerate(labels):
        if label in others:
            rows[i, others.index(label)] = 1.0
        elif left:
            rows[i, left] = 1.0 / len(left)
    return rows
