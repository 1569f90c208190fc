"""Outputs of toy classifiers with their labels."""

import dataclasses

import numpy as np

from data.finetuning.classifier.sets import THRESHOLD
from data.finetuning.classifier.task import ClassifierTask
from data.finetuning.options import ClassifierDataOptions, FeatureOptions
from tests.helpers.runs.classifier import make_options, write_task

# Of four rows and two labels; best on dev at 0.3, half-way from 0.2 to 0.4.
SHARES = np.array([[0.9, 0.1], [0.4, 0.2], [0.2, 0.9], [0.1, 0.4]])
GOLD = ("r", "r", "w", "w")


def make_owner(folder, spiece, trained=None, actions=(), **data):
    write_task(folder)
    rows = [f"red {i}\t{name}" for i, name in enumerate(GOLD)]
    for split in ("train", "dev", "test"):
        text = "\n".join(["text\tlabel", *rows])
        (folder / f"{split}.tsv").write_text(text + "\n")
    options = make_options(folder, **dict.fromkeys(actions, True))
    data = ClassifierDataOptions("tsv", str(folder), "multi_label", **data)
    features = FeatureOptions(spiece, 16)
    return ClassifierTask(data, features, options, trained), options


def outputs_and_labels(job):
    logits = np.log(SHARES) - np.log1p(-SHARES)
    gold = np.array([[g == "r", g == "w"] for g in GOLD], np.float32)
    return {"logits": logits}, {"label_ids": gold}


def keeping(job, value):
    """task.json of a model whose evaluation found a threshold."""
    data_options = job.spec().data_options | {THRESHOLD: value}
    return dataclasses.replace(job.spec(), data_options=data_options)
