"""Thresholds that an evaluation found, and the weights that they are of.

task.json keeps them among its `data_options`: other weights of the same folder
have others.
"""

import dataclasses

from common.contract.task_spec import TaskSpec
from data.finetuning import task_settings
from data.finetuning.classifier import sets as classifier_sets

NAMES = (task_settings.THRESHOLD, classifier_sets.THRESHOLD)
WEIGHTS = "threshold_weights"


def of(spec: TaskSpec | None) -> dict[str, float]:
    """Name -> threshold that a task.json holds."""
    known = spec.data_options if spec else {}
    return {n: known[n] for n in NAMES if known.get(n) is not None}


def for_weights(
    spec: TaskSpec | None, name: str
) -> tuple[dict[str, float], list[str]]:
    """The thresholds of these weights, and lines about those of others.

    The spec is task.json of the weights' folder, or None; the name that of the
    checkpoint in it, e.g. "best/model.ckpt-2".
    """
    kept = of(spec)
    # A file of a version that did not write it says nothing.
    theirs = spec.data_options.get(WEIGHTS, name) if spec else name
    if theirs == name:
        return kept, []
    return {}, [
        f"note: {kind}={value:.5g} was found with {theirs}: not used with "
        f"{name}; --do_eval finds one"
        for kind, value in kept.items()
    ]


def replace(spec: TaskSpec, found: dict, name: str = "") -> TaskSpec:
    """`spec` with these thresholds and no other ones."""
    others = {n: None for n in NAMES if n in spec.data_options}
    options = spec.data_options | others | found
    options.pop(WEIGHTS, None)
    if found and name:
        options[WEIGHTS] = name
    return dataclasses.replace(spec, data_options=options)


def keep(spec: TaskSpec, earlier: TaskSpec | None) -> TaskSpec:
    """The spec with the threshold that an evaluation found in its folder.

    The dev file that this run names comes before the one of the folder.
    """
    known = earlier.data_options if earlier else {}
    kept = of(earlier)
    name = known.get(WEIGHTS, "") if kept else ""
    spec = replace(spec, kept, name)
    dev_data = task_settings.DEV_DATA
    if spec.data_options.get(dev_data) is None and known.get(dev_data):
        options = spec.data_options | {dev_data: known[dev_data]}
        spec = dataclasses.replace(spec, data_options=options)
    return spec
