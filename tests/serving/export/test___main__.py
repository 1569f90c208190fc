"""The command: what it exports of a directory, and what it refuses."""

import dataclasses

import numpy as np
import pytest

from common.errors import UserError
from common.vocabularies import vocabulary
from common.vocabularies.text_settings import TextChoice
from data.finetuning import thresholds
from modeling import PretrainingModel
from modeling.checkpoints import restore as checkpoints
from modeling.encoders.registry import write_config
from modeling.encoders.transformer_xl.config import TransformerXLConfig
from serving.export import __main__ as export
from serving.export.embedding import export_embedding
from serving.generation.options import ModelOptions
from serving.options import ExportOptions
from serving.signatures.sequence import text_names
from tests.helpers import released, released_folders
from tests.serving.export.toy_exports import (
    LABELS,
    RELEASED,
    make_spec,
    masked_folder,
    random_weights,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A released folder with weights of a masked language model."""
    pytest.importorskip("tokenizers")
    made = tmp_path_factory.mktemp("released")
    return masked_folder(released.wordpiece_folder(made))


def test_the_language_model_of_a_folder_is_exported(folder, monkeypatch):
    seen = []
    monkeypatch.setattr(
        "serving.export.exporter.export_model", lambda *a: seen.extend(a)
    )
    options = ExportOptions(folder, task="lm", output_dir=f"{folder}/lm")
    source = checkpoints.resolve(folder)
    assert export._export_head(f"{folder}/lm", options, source)[0] == (
        "pretraining"
    )
    _, model, spec, spiece, *_ = seen
    wanted = random_weights(PretrainingModel(RELEASED))
    for ours, theirs in zip(model.variables, wanted.variables, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert spec.max_seq_length == RELEASED.max_position_embeddings
    assert spiece == f"{folder}/vocab.txt"


def read_spec(folder, **options):
    """What is read of a fine-tuned folder."""
    source = checkpoints.Source("native", f"{folder}/model.ckpt-8", str(folder))
    options = ExportOptions(str(folder), **options)
    return export._read_spec(options, "", source, None)


def test_a_task_is_that_of_its_folder(tmp_path):
    spec = make_spec("multi_label", LABELS, num_texts=2)
    spec.write(str(tmp_path))
    for task in ("", "tsv", "multi_label"):
        assert read_spec(tmp_path, task=task) == spec
    longer = read_spec(tmp_path, max_seq_length=31)
    assert longer == dataclasses.replace(spec, max_seq_length=31)
    with pytest.raises(UserError, match="--task=rte, but .*task.json says tsv"):
        read_spec(tmp_path, task="rte")


def test_a_classifier_of_pairs_that_others_tuned(tmp_path):
    """Its configuration does not say that it reads two texts."""
    folder = released_folders.write_head(tmp_path / "bert", "bert_sequence")
    source = checkpoints.resolve(str(folder))
    config = checkpoints.find_config(str(folder))

    def names(**options):
        options = ExportOptions(str(folder), **options)
        spec = export._read_spec(options, "", source, config)
        return text_names(spec)

    assert names() == ("text",)
    assert names(num_texts=2) == ("text_a", "text_b")
    with pytest.raises(UserError, match="2 segments .*, found 3 texts"):
        names(num_texts=3)
    spec = make_spec("multi_label", LABELS, num_texts=2)
    spec.write(str(tmp_path))
    with pytest.raises(UserError, match="--num_texts=3: .* of 2 texts; leave"):
        read_spec(tmp_path, num_texts=3)
    make_spec("span", ()).write(str(tmp_path))
    with pytest.raises(UserError, match="--num_texts=2: .*says span"):
        read_spec(tmp_path, num_texts=2)
    for task in ("embedding", "lm"):
        with pytest.raises(UserError, match="--num_texts=2 is for classifiers"):
            ExportOptions(str(folder), task=task, num_texts=2)


def test_a_pretrained_folder_is_told_the_other_tasks(tmp_path):
    with pytest.raises(UserError, match="task.json does not exist: .*=lm"):
        read_spec(tmp_path)


def test_a_left_to_right_folder_is_told_its_task(tmp_path):
    """It was asked for a SentencePiece file, which it does not read."""
    sizes = dict(d_model=4, n_layer=1, n_head=1, d_head=4, d_inner=4)
    write_config(str(tmp_path), TransformerXLConfig(vocab_size=9, **sizes))
    source = checkpoints.Source(
        "native", f"{tmp_path}/model.ckpt-8", str(tmp_path)
    )
    for task in ("", "embedding"):
        options = ExportOptions(str(tmp_path), task)
        run = export_embedding if task else export._export_head
        with pytest.raises(UserError, match="left-to-right .*--task=lm$"):
            run(f"{tmp_path}/export", options, source)


@pytest.mark.parametrize("found_with", ["model.ckpt-8", "best/model.ckpt-3"])
def test_a_threshold_is_exported_with_its_own_weights(
    tmp_path, capsys, found_with
):
    kept = {"label_threshold": 0.75, thresholds.WEIGHTS: found_with}
    make_spec("multi_label", LABELS, **kept).write(str(tmp_path))
    found = read_spec(tmp_path).data_options
    said = capsys.readouterr().out
    if found_with == "model.ckpt-8":
        assert found == {"label_threshold": 0.75} and not said
    else:
        assert found == {"label_threshold": None}
        assert f"label_threshold=0.75 was found with {found_with}" in said


@pytest.mark.parametrize(
    "task, is_causal, wanted",
    [
        ("lm", True, "causal"),
        ("pretraining", True, "causal"),
        ("lm", False, "head"),
        ("", True, "head"),
        ("embedding", False, "embedding"),
    ],
)
def test_the_kind_of_export_is_of_task_and_model(
    monkeypatch, tmp_path, capsys, task, is_causal, wanted
):
    folder = str(tmp_path)
    options = ExportOptions(folder, task)
    source = checkpoints.Source("native", f"{folder}/model.ckpt-8", folder)
    seen = []

    def made(kind, result):
        return lambda target, *_: seen.append((kind, target)) or result

    for name, value in (
        ("modeling.checkpoints.restore.resolve", lambda *_: source),
        ("serving.generation.causal.is_causal", lambda _: is_causal),
        ("serving.export.embedding.export_embedding", made("embedding", "e")),
    ):
        monkeypatch.setattr(name, value)
    monkeypatch.setattr(export.flag_values, "build", lambda _: options)
    monkeypatch.setattr(export, "_export_causal", made("causal", "c"))
    monkeypatch.setattr(export, "_export_head", made("head", ("span", "h")))
    export.main()
    assert seen == [(wanted, f"{folder}/export")]
    line = {
        "causal": "exported language_model to c",
        "head": "exported span to h",
        "embedding": "exported embedding to e",
    }[wanted]
    assert capsys.readouterr().out.splitlines()[-1] == line
    # A place that cannot be written is known before a model is read.
    (tmp_path / "export").write_text("")
    with pytest.raises(NotADirectoryError):
        export.main()
    assert len(seen) == 1


def test_nothing_is_written_into_the_cache_of_the_hub(monkeypatch):
    folder = f"/cache/models--org--name/snapshots/{'a' * 40}"
    monkeypatch.setattr(
        export.flag_values, "build", lambda _: ExportOptions(folder)
    )
    with pytest.raises(UserError, match="--output_dir is needed: .*the hub"):
        export.main()


def test_a_language_model_has_the_length_that_its_encoder_has(folder, capsys):
    source = checkpoints.resolve(folder)
    spiece = f"{folder}/vocab.txt"
    for length, asked in ((24, 0), (9, 9)):
        options = ExportOptions(folder, "lm", max_seq_length=asked)
        spec = export._read_spec(options, spiece, source, RELEASED)
        assert (spec.head, spec.max_seq_length) == ("pretraining", length)
    # One without a table of places.
    options = ExportOptions(folder, "lm")
    spec = export._read_spec(options, spiece, source, object())
    assert spec.max_seq_length == 512
    assert spec.spiece_sha256 == vocabulary.read(spiece).sha256
    assert capsys.readouterr().out.startswith("text: ")


def test_a_left_to_right_export_has_no_length(tmp_path):
    options = ExportOptions(str(tmp_path), "lm", "model", max_seq_length=64)
    with pytest.raises(UserError, match="--max_seq_length=64: model is a left"):
        export._export_causal(str(tmp_path / "out"), options)


def test_a_left_to_right_model_is_read_as_the_flags_say(monkeypatch):
    """Its text settings and the choice of its weights."""
    seen = []
    monkeypatch.setattr("serving.generation.causal.load_causal", seen.append)
    monkeypatch.setattr(
        "serving.export.causal.export_causal", lambda *arguments: "1"
    )
    said = TextChoice(uncased=True)
    options = ExportOptions(
        "m", "lm", "c", "best", "v.model", text=said, model_name="n"
    )
    assert export._export_causal("out", options) == "1"
    wanted = ModelOptions("c", "v.model", said, "best")
    assert seen == [wanted]
