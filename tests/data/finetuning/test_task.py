"""What all kinds of tasks share: thresholds, losses, rows that stand in."""

import dataclasses
import types

import numpy as np
import pytest

from common.contract.symbols import SymbolIds
from common.contract.task_spec import TaskSpec
from common.errors import UserError
from common.vocabularies.text_settings import TextSettings
from data.finetuning import task as task_lib
from data.finetuning.examples import BadRows
from data.finetuning.features.pair_features import Sequence1D
from data.finetuning.features.table import from_sequences
from data.finetuning.options import FeatureOptions
from data.finetuning.task import Split, Task
from training.finetuning.options import FinetuneOptions
from training.run_options import RunOptions


class ToyTask(Task):
    head = "classification"

    def spec(self):
        return TaskSpec(
            "toy", self.head, ("a", "b", "c"), 9, TextSettings(), "0"
        )


@pytest.fixture
def make(monkeypatch, tmp_path):
    """A task without a tokenizer."""
    monkeypatch.setattr(
        task_lib.task_tokens,
        "open_tokenizer",
        lambda *_: types.SimpleNamespace(symbols=SymbolIds()),
    )

    def run(trained=None, features=None, **options):
        chosen = FinetuneOptions(
            run=RunOptions(model_dir=str(tmp_path)), **options
        )
        features = features or FeatureOptions("spiece", 9)
        return ToyTask(None, features, chosen, trained)

    return run


def table(labels):
    rows = [Sequence1D([11, 4, 3], [0, 0, 2])] * len(labels)
    return from_sequences(rows, {"label_ids": np.array(labels, np.int32)})


def test_texts_that_the_vocabulary_cannot_say_are_said(make, capsys):
    task = make(do_train=True)
    known = [Sequence1D([11, 12, 4, 3], [0, 0, 0, 2])] * 4
    foreign = Sequence1D([11, 0, 4, 3], [0, 0, 0, 2])
    labels = {"label_ids": np.zeros(5, np.int32)}
    for rows, share in (([*known, foreign], ""), ([foreign] * 5, "25.0%")):
        task.say_read(
            "toy train", from_sequences(rows, labels), False, BadRows()
        )
        warned = f"warning: toy train: {share} of the tokens are <unk>: the "
        assert (warned in capsys.readouterr().out) == bool(share)


def test_padding_counts_or_is_left_out(make):
    features = FeatureOptions("spiece", 32, length_buckets="16")
    for options, message in (
        ({"pooling": "original"}, "--pooling=original counts padding"),
        ({"pack": True}, "--pack leaves padding out"),
    ):
        with pytest.raises(UserError, match=message):
            make(features=features, do_train=True, **options)


def test_only_the_dev_file_of_the_training_finds_a_threshold(make, tmp_path):
    dev, other = tmp_path / "dev", tmp_path / "other"
    dev.write_text("one")
    other.write_text("two")
    task = make(do_train=True)
    assert not task.finds_threshold_on(str(dev))
    task.find_dev_data(str(dev))
    assert task.finds_threshold_on(str(dev))
    assert not task.finds_threshold_on(str(other))
    spec = dataclasses.replace(
        task.spec(), data_options={"dev_data": task.dev_data}
    )
    later = make(spec, do_eval=True)
    later.find_dev_data(str(other))
    assert later.finds_threshold_on(str(dev))
    assert not later.finds_threshold_on(str(other))


def test_weights_of_classes_are_one_for_each(make):
    task = make(do_train=True, class_weights=(1.0, 2.0, 4.0))
    assert task.loss_options() == {}
    task.train = Split("train", [], table([0, 1, 1]))
    assert task.loss_options() == {"class_weights": [1.0, 2.0, 4.0]}
    task = make(do_train=True, class_weights=(1.0, 2.0), label_smoothing=0.1)
    task.train = Split("train", [], table([0, 1]))
    with pytest.raises(UserError, match="--class_weights: wanted 3, one for"):
        task.loss_options()
    task.head = "regression"
    with pytest.raises(UserError, match="--label_smoothing is for classes"):
        task.loss_options()


def test_options_of_a_trained_head_stay_while_it_is_not_trained(make):
    spec = dataclasses.replace(
        make(do_eval=True).spec(),
        head_options={"use_proj": True, "num_labels": 3},
    )
    assert make(spec, do_eval=True).kept_head_options() == {"use_proj": True}
    assert make(spec, do_train=True).kept_head_options() == {}


def test_the_first_rows_stand_for_all(make):
    split = Split("dev", [], table([0, 1, 2, 0, 1]))
    found = make(do_eval=True).outputs_of_first(
        split, {"logits": np.array([[1.0], [2.0]])}
    )
    assert found["logits"].tolist() == [[1.0], [2.0], [1.0], [2.0], [1.0]]
