"""A held-out share of the training rows: disjoint, repeatable, stable."""

import json

import numpy as np
import pytest

from common.errors import UserError
from data.finetuning.classifier import held_out as held_out_module
from data.finetuning.classifier import sets as classifier_sets
from data.finetuning.examples import BadRows
from data.finetuning.options import ClassifierDataOptions


def write_rows(folder, count, name="train.jsonl"):
    rows = [{"text": f"row {i}", "label": "ab"[i % 2]} for i in range(count)]
    (folder / name).write_text("".join(json.dumps(r) + "\n" for r in rows))


def texts(folder, split, **options):
    task = classifier_sets.open_set(
        ClassifierDataOptions("jsonl", str(folder), **options)
    )
    return [e.texts[0] for e in task.read(split, BadRows())]


def test_both_parts_are_the_file(tmp_path):
    write_rows(tmp_path, 200)
    every = texts(tmp_path, "train")
    chosen = {"dev_fraction": 0.2}
    train, dev = (texts(tmp_path, s, **chosen) for s in ("train", "dev"))
    assert not set(train) & set(dev)
    assert [t for t in every if t in train] == train
    assert sorted(train + dev) == sorted(every)
    assert 25 <= len(dev) <= 55
    assert texts(tmp_path, "dev", **chosen) == dev
    other = texts(tmp_path, "dev", **chosen, dev_seed=1)
    assert set(other) != set(dev)
    task = classifier_sets.open_set(
        ClassifierDataOptions("jsonl", str(tmp_path), dev_fraction=0.2)
    )
    assert task.eval_splits() == task.predict_splits() == ("dev",)


def test_a_prediction_has_the_rows_that_an_evaluation_has(tmp_path):
    """Rows without a usable label have no place, with labels or without."""
    rows = [
        {"text": f"row {i}", "label": "" if i % 7 == 3 else "ab"[i % 2]}
        for i in range(200)
    ]
    (tmp_path / "train.jsonl").write_text("\n".join(map(json.dumps, rows)))
    task = classifier_sets.open_set(
        ClassifierDataOptions(
            "jsonl", str(tmp_path), labels=("a", "b"), dev_fraction=0.2
        )
    )
    dev, train = (task.read(s, BadRows(skip=True)) for s in ("dev", "train"))
    alone = task.read("dev", BadRows(skip=True), with_labels=False)
    assert alone == dev
    assert not {e.where for e in alone} & {e.where for e in train}


def test_rows_keep_their_side():
    """A function of (seed, row): neither the count nor the share moves one."""
    held_out = held_out_module.held_out_rows
    many = held_out(100_000, 0.1, 3)
    assert (held_out(500, 0.1, 3) == many[:500]).all()
    assert not (many & ~held_out(100_000, 0.2, 3)).any()
    assert many.mean() == pytest.approx(0.1, abs=0.004)
    # Neighbouring rows and seeds are independent.
    assert (many[1:] & many[:-1]).mean() == pytest.approx(0.01, abs=0.002)
    both = many & held_out(100_000, 0.1, 4)
    assert both.mean() == pytest.approx(0.01, abs=0.002)
    assert np.array_equal(np.flatnonzero(held_out(40, 0.1, 0)), [2, 32, 33])


def test_what_is_refused(tmp_path):
    write_rows(tmp_path, 4)
    with pytest.raises(UserError, match="takes 0 of 4 rows"):
        texts(tmp_path, "train", dev_fraction=0.01)
    with pytest.raises(UserError, match="must be in \\[0, 1"):
        texts(tmp_path, "train", dev_fraction=1.0)
    write_rows(tmp_path, 4, "dev.jsonl")
    with pytest.raises(UserError, match=r"but there is .*dev\.jsonl"):
        texts(tmp_path, "train", dev_fraction=0.5)
