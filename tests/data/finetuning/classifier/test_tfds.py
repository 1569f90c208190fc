"""Sets of tensorflow_datasets, by a toy package."""

import sys
import types

import pytest

from common.errors import UserError
from data.finetuning.classifier import sets as classifier_sets
from data.finetuning.examples import BadRows
from data.finetuning.options import ClassifierDataOptions


def build(name, folder="", **kwargs):
    options = ClassifierDataOptions(name, str(folder), **kwargs)
    return classifier_sets.open_set(options)


class FakeBuilder:
    """A set of three examples, as tensorflow_datasets shows one."""

    def __init__(self, name):
        if name != "toy/set":
            raise RuntimeError("no such set\nmore lines")
        label = types.SimpleNamespace(int2str=("bad", "good").__getitem__)
        self.info = types.SimpleNamespace(
            features={"idx": None, "sentence": None, "label": label},
            splits={"train": 3, "validation": 3},
        )

    def download_and_prepare(self):
        pass

    def as_dataset(self, split):
        return [
            {"idx": i, "sentence": f"s é {i}".encode(), "label": i % 2}
            for i in range(3)
        ]


def test_tfds_names(monkeypatch):
    fake = types.ModuleType("tensorflow_datasets")
    fake.builder, fake.as_numpy = FakeBuilder, list
    monkeypatch.setitem(sys.modules, "tensorflow_datasets", fake)
    task = build("tfds:toy/set")
    assert task.labels == ("bad", "good")
    examples = task.read("dev", BadRows())
    assert [(e.texts[0], e.label) for e in examples[:2]] == [
        ("s é 0", "bad"),
        ("s é 1", "good"),
    ]
    assert examples[1].where == "tfds:toy/set/validation:1"
    with pytest.raises(UserError, match="RuntimeError: no such set$"):
        build("tfds:other")
    with pytest.raises(UserError, match="no test split, only train"):
        task.read("test", BadRows())
    monkeypatch.setitem(sys.modules, "tensorflow_datasets", None)
    with pytest.raises(UserError, match="pip install tensorflow-datasets"):
        build("tfds:toy/set")
