"""run_tagger.py end to end on toy sentences, both layouts."""

import dataclasses
import json

import numpy as np
import pytest

from common.contract.task_spec import TaskSpec
from common.errors import UserError
from data.finetuning.options import FeatureOptions, TaggingDataOptions
from serving.export import export_model
from serving.saved_model import SavedModel
from tests.helpers.runs.classifier import WORDS, make_options
from tests.helpers.runs.tagger import write_sentences


def run(folder, spiece, options, features=None, trained=None, **data):
    from data.finetuning.tagging.task import TaggingTask
    from training.finetuning.driver import Driver

    job = TaggingTask(
        TaggingDataOptions(str(folder), **data),
        features or FeatureOptions(spiece, 16),
        options,
        trained,
    ).load()
    return Driver(
        job, options, export=export_model, say=lambda line: None
    ).run()


@pytest.mark.slow
@pytest.mark.shared
@pytest.mark.parametrize(
    ("kind", "steps", "least"), [("conll", 60, 0.7), ("jsonl", 150, 0.9)]
)
def test_train_evaluate_predict_export(
    tmp_path, spiece_model, kind, steps, least
):
    """Windows and buckets; the folder alone answers; the export agrees."""
    write_sentences(tmp_path, kind)
    options = make_options(
        tmp_path,
        steps=steps,
        run={"train_batch_size": 24},
        do_train=True,
        do_eval=True,
        do_predict=True,
        slice_by_length=True,
    )
    features = FeatureOptions(
        spiece_model, 16, length_buckets="8,16" if kind == "jsonl" else ""
    )
    results = run(tmp_path, spiece_model, options, features, doc_stride=5)[
        "dev"
    ]
    assert results["f1"] > least
    path = tmp_path / "model" / "eval_dev_by_length.json"
    rows = json.loads(path.read_text())["quartiles"]
    assert sum(row["examples"] for row in rows) > 4
    assert min(r["f1"] for r in rows) <= results["f1"]
    assert results["f1"] <= max(r["f1"] for r in rows)
    assert results["baseline_f1"] == pytest.approx(1)
    model_dir = tmp_path / "model"
    assert "COL" in (model_dir / "predictions/dev_report.txt").read_text()
    spec = TaskSpec.read(str(model_dir))
    assert spec.labels[0] == "O" and spec.head == "token_classification"
    path = model_dir / f"predictions/test_predictions.{kind}"
    written = path.read_text()
    exporting = make_options(tmp_path, do_export=True, do_eval=True)
    again = run(tmp_path, spiece_model, exporting, trained=spec, doc_stride=5)
    assert again["dev"]["f1"] == pytest.approx(results["f1"])
    loaded = SavedModel(str(model_dir / "export/1"))
    found = loaded({"text": ["tower red winter"]})
    count = int(found["num_pieces"][0])
    starts = found["piece_starts"][0][:count]
    # A lone word mark has no character, and no label to learn.
    own = found["piece_ends"][0][:count] > starts
    at = int(np.flatnonzero(own & (starts == 6))[0])
    assert found["labels"][0][at] == b"B-COL"
    if kind == "conll":
        rows = [r.split("\t") for r in written.splitlines() if r]
        assert all(len(r) == 3 for r in rows)
        assert {r[0] for r in rows} == set(WORDS)
    else:
        first = json.loads(written.splitlines()[0])
        assert set(first) == {"id", "text", "spans", "gold"}


@pytest.mark.long
@pytest.mark.shared
def test_what_is_missing_is_said(tmp_path, spiece_model, capsys):
    write_sentences(tmp_path)
    with pytest.raises(UserError, match="--text_column and --tag_column"):
        TaggingDataOptions(text_column=1, tag_column=1)
    evaluating = make_options(tmp_path, do_eval=True)
    with pytest.raises(UserError, match="tags are not known"):
        run(tmp_path, spiece_model, evaluating)
    (tmp_path / "dev.conll").write_text("red\tB-SHIP\n")
    training = make_options(tmp_path, do_train=True, do_eval=True)
    run(tmp_path, spiece_model, training)
    assert "dev.conll:1: the tag 'B-SHIP' is not" in capsys.readouterr().out
    report = (tmp_path / "model/predictions/dev_report.txt").read_text()
    assert "SHIP" in report
    (tmp_path / "dev.conll").unlink()
    with pytest.raises(UserError, match="no dev file: give --eval_file"):
        run(tmp_path, spiece_model, training)


@pytest.mark.slow
@pytest.mark.shared
@pytest.mark.parametrize("kind", ["conll", "jsonl"])
def test_an_ensemble_of_one_is_that_one(tmp_path, spiece_model, kind):
    """Members with other windows; alone each keeps its file, byte by byte."""
    from data.finetuning.tagging.task import TaggingTask
    from training.finetuning import ensemble

    write_sentences(tmp_path, kind)
    asked = {"do_eval": True, "do_predict": True}
    members, alone, name = [], [], f"predictions/test_predictions.{kind}"
    for number, length in enumerate((16, 12)):
        options = make_options(
            tmp_path,
            steps=25,
            run={
                "train_batch_size": 24,
                "model_dir": str(tmp_path / f"model_{number}"),
            },
            do_train=True,
            **asked,
        )
        features = FeatureOptions(spiece_model, length)
        results = run(tmp_path, spiece_model, options, features, doc_stride=5)
        folder = tmp_path / f"model_{number}"
        alone.append((results["dev"], (folder / name).read_bytes()))
        options = dataclasses.replace(options, do_train=False)
        job = TaggingTask(
            TaggingDataOptions(str(tmp_path), doc_stride=5),
            features,
            options,
            TaskSpec.read(str(folder)),
        ).load()
        members.append(ensemble.Member(str(folder), job, options))
    together = tmp_path / "together"
    options = make_options(
        tmp_path,
        run={"model_dir": str(together)},
        ensemble=("a",),
        **asked,
    )

    def vote(*chosen):
        found = ensemble.run(list(chosen), options, lambda line: None)["dev"]
        return found, (together / name).read_bytes()

    for member, (metrics, written) in zip(members, alone, strict=True):
        found, rows = vote(member)
        assert rows == written
        assert found == {k: metrics[k] for k in found} and "f1" in found
    metrics, rows = vote(*members)
    assert metrics["f1"] > 0.3
    assert rows.count(b"\n") == alone[0][1].count(b"\n")
    options = dataclasses.replace(options, greedy=True)
    best = max(m["f1"] for m, _ in alone)
    assert vote(*members)[0]["f1"] >= best
