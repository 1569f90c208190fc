"""Conversions of models of the newer encoders, with their poolers."""

import json
import pathlib

import numpy as np
import pytest
import tensorflow as tf
from safetensors.numpy import load_file, save_file

from common import heads as heads_lib
from common.contract.task_spec import TaskSpec
from common.errors import UserError
from common.vocabularies.text_settings import TextSettings
from modeling import (
    ClassificationModel,
    PretrainingModel,
    TokenClassificationModel,
    XLNetConfig,
    convert_checkpoint,
)
from modeling.checkpoints import conversion, hf
from modeling.checkpoints import restore as checkpoints
from modeling.checkpoints.names import named_variables
from modeling.command_options import ConvertOptions
from modeling.encoders.bert.config import AlbertConfig, BertConfig
from modeling.encoders.modernbert.config import ModernBertConfig
from modeling.encoders.registry import build_encoder
from modeling.encoders.transformer_xl.config import TransformerXLConfig
from modeling.heads import table as heads
from modeling.heads.causal_lm import CausalLanguageModel

SIZES = dict(vocab_size=13, d_model=8, n_layer=2, n_head=2, d_inner=6)
BERT, MODERN = BertConfig(**SIZES), ModernBertConfig(**SIZES)
ALBERT = AlbertConfig(**SIZES, embedding_size=4)
XLNET = XLNetConfig(**SIZES, d_head=4)


def _native(model, head, folder):
    """A native folder of a model with other weights than fresh ones."""
    for i, variable in enumerate(model.variables):
        variable.assign(tf.random.stateless_normal(variable.shape, [1, i]))
    nowhere = checkpoints.Source("native", "", "")
    weights = conversion.Weights(head, model.config, model, {}, [])
    conversion.write(weights, "native", folder, nowhere)
    return folder


def _read(folder, head=None):
    config = checkpoints.find_config(folder)
    return conversion.read(checkpoints.resolve(folder), config, head)


def _assert_equal(before, after):
    before, after = named_variables(before), named_variables(after)
    assert set(before) == set(after)
    for name, variable in before.items():
        np.testing.assert_array_equal(variable, after[name], name)


@pytest.mark.parametrize("regression", [False, True])
def test_classifiers_of_modernbert_go_and_come_back(regression, tmp_path):
    head = "regression" if regression else "classification"
    labels = 1 if regression else 3
    model = ClassificationModel(MODERN, labels, regression=regression)
    native = _native(model, head, str(tmp_path / "native"))
    hf, back = str(tmp_path / "hf"), str(tmp_path / "back")
    conversion.convert(ConvertOptions("native", "hf", native, hf))
    conversion.convert(ConvertOptions("hf", "native", hf, back))
    for folder in (native, hf, back):
        read = _read(folder)
        assert read.head == head and read.model.use_proj
        _assert_equal(model, read.model)


@pytest.mark.parametrize("options", [{"use_proj": False}, {}])
def test_poolers_of_modernbert_are_recognised(options, tmp_path):
    for summary in ("first", "attn"):
        options = options | {"summary_type": summary}
        model = ClassificationModel(MODERN, 2, **options)
        native = _native(model, "classification", str(tmp_path / summary))
        read_model = _read(native).model
        assert read_model.use_proj == options.get("use_proj", True)
        assert read_model.summary_type == summary
        _assert_equal(model, read_model)


def test_the_head_of_a_language_model_is_no_pooler():
    classifier = ClassificationModel(MODERN, 2, use_proj=False)
    names = [*named_variables(PretrainingModel(MODERN))]
    shapes = {name: [8, 8] for name in names}
    shapes["model/classification/logit/kernel"] = [8, 2]
    built = heads.build("classification", MODERN, shapes)
    assert not built.use_proj
    assert set(named_variables(built)) == set(named_variables(classifier))


def test_the_pooler_of_a_folder_without_head_is_left_out(tmp_path):
    """What `BertModel.save_pretrained` writes."""
    model = PretrainingModel(BERT).encoder
    native = _native(model, "encoder", str(tmp_path / "native"))
    hf = str(tmp_path / "hf")
    conversion.convert(ConvertOptions("native", "hf", native, hf))
    arrays = load_file(f"{hf}/model.safetensors")
    arrays["pooler.dense.weight"] = np.ones([8, 8], np.float32)
    arrays["pooler.dense.bias"] = np.ones([8], np.float32)
    save_file(arrays, f"{hf}/model.safetensors")
    back = str(tmp_path / "back")
    lines = conversion.convert(ConvertOptions("hf", "native", hf, back))
    scope = "left out, another head: model/sequnece_summary/summary/"
    assert lines[1:3] == [scope + "kernel", scope + "bias"]
    _assert_equal(model, _read(back).model)
    # A fine-tuning still begins with it.
    classifier = ClassificationModel(BERT, 2)
    checkpoints.restore(classifier, hf, require="encoder")
    assert (classifier.pooler.projection.bias.numpy() == 1).all()


@pytest.mark.parametrize("to_format", ["native", "hf"])
def test_the_encoder_alone_of_a_native_folder(to_format, tmp_path):
    """--head=encoder said that every variable is missing."""
    model = ClassificationModel(XLNET, 3)
    native = _native(model, "classification", str(tmp_path / "native"))
    out = str(tmp_path / "out")
    options = ConvertOptions("native", to_format, native, out, head="encoder")
    lines = conversion.convert(options)
    left = [line for line in lines if line.startswith("left out")]
    assert len(left) == 4 and all("another head: " in line for line in left)
    _assert_equal(model.encoder, _read(out).model)


def test_layers_that_are_too_many_are_no_other_head(tmp_path):
    native = _native(PretrainingModel(BERT), "pretraining", str(tmp_path / "n"))
    fewer = BERT.replace(n_layer=1)
    source = checkpoints.resolve(native)
    with pytest.raises(UserError, match="encoder/groups/1.*no variable"):
        conversion.read(source, fewer, "encoder")


def _written(config, folder, task="classification", **options):
    """config.json and report of a fine-tuned classifier in their form."""
    known = {
        k: options[k] for k in ("summary_type", "use_proj") if k in options
    }
    model = ClassificationModel(config, 3, **known)
    native = _native(model, "classification", str(folder / "native"))
    hf = str(folder / "hf")
    lines = conversion.convert(
        ConvertOptions(
            "native", "hf", native, hf, task=task, head_options=options
        )
    )
    config = json.loads(pathlib.Path(hf, "config.json").read_text())
    return config, lines, hf


@pytest.mark.long
@pytest.mark.parametrize("config", [BERT, ALBERT], ids=lambda c: c.model_type)
@pytest.mark.parametrize(
    "options, found",
    [
        ({"summary_type": "mean"}, "found mean; "),
        ({"summary_type": "last"}, "found last; "),
        ({"use_proj": False}, "found first without projection; "),
    ],
)
def test_bert_has_no_class_for_another_pooling(
    config, options, found, tmp_path
):
    with pytest.raises(UserError, match=found) as caught:
        _written(config, tmp_path, **options)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "hf").exists()


@pytest.mark.parametrize("summary_type", [None, "first"])
def test_bert_with_cls_is_written(summary_type, tmp_path):
    config, _, _ = _written(BERT, tmp_path, summary_type=summary_type)
    assert config["architectures"] == ["BertForSequenceClassification"]


@pytest.mark.parametrize(
    "summary_type, pooling, wanted",
    [
        (None, "mean", "mean"),
        ("first", "mean", "cls"),
        ("first", "cls", "cls"),
        ("mean", "cls", "mean"),
    ],
)
def test_modernbert_says_how_it_pools(summary_type, pooling, wanted, tmp_path):
    config = MODERN.replace(pooling=pooling)
    options = {"summary_type": summary_type, "pooling": "masked"}
    written, _, hf = _written(config, tmp_path, **options)
    assert written["classifier_pooling"] == wanted
    summary = {"cls": "first", "mean": "mean"}[wanted]
    assert _read(hf).model.summary_type == summary


@pytest.mark.parametrize(
    "options",
    [
        {"summary_type": "last"},
        {"use_proj": False},
        {"summary_type": "mean", "pooling": "original"},
    ],
)
def test_modernbert_has_no_class_for_another_pooling(options, tmp_path):
    with pytest.raises(UserError, match="wanted --summary_type=first or mean"):
        _written(MODERN, tmp_path, **options)


@pytest.mark.parametrize("use_proj", [True, False])
def test_modernbert_tags_through_a_prediction_head(use_proj, tmp_path):
    """transformers drew the head at random that a folder had not."""
    model = TokenClassificationModel(MODERN, 3, use_proj=use_proj)
    native = _native(model, "token_classification", str(tmp_path / "native"))
    hf, back = str(tmp_path / "hf"), str(tmp_path / "back")
    options = ConvertOptions("native", "hf", native, hf)
    if not use_proj:
        with pytest.raises(UserError, match="found none; use") as caught:
            conversion.convert(options)
        assert "\n" not in str(caught.value)
        assert not (tmp_path / "hf").exists()
        return
    conversion.convert(options)
    conversion.convert(ConvertOptions("hf", "native", hf, back))
    _assert_equal(model, _read(back).model)


@pytest.mark.long
@pytest.mark.parametrize("summary_type", ["last", "first", "mean"])
@pytest.mark.parametrize("use_proj", [False, True])
def test_xlnet_says_how_it_pools(summary_type, use_proj, tmp_path):
    options = {"summary_type": summary_type, "use_proj": use_proj}
    written, lines, hf = _written(XLNET, tmp_path, pooling="masked", **options)
    assert written.get("summary_type", "last") == summary_type
    assert written.get("summary_use_proj", True) == use_proj
    noted = any("theirs counts padding" in line for line in lines)
    assert noted == (summary_type != "last")
    model = _read(hf).model
    assert (model.summary_type, model.use_proj) == (summary_type, use_proj)
    assert model.pooling == "masked"


def test_a_pooling_of_theirs_that_we_have_not(tmp_path):
    _, _, hf = _written(XLNET, tmp_path, summary_type="mean")
    path = pathlib.Path(hf, "config.json")
    fields = json.loads(path.read_text())
    path.write_text(json.dumps(fields | {"summary_type": "cls_index"}))
    with pytest.raises(UserError, match="found 'cls_index'"):
        _read(hf)


@pytest.mark.long
@pytest.mark.parametrize(
    "config", [XLNET, BERT, MODERN], ids=lambda c: c.model_type
)
def test_tasks_of_several_labels_say_so(config, tmp_path):
    (tmp_path / "many").mkdir()
    (tmp_path / "one").mkdir()
    written, _, _ = _written(config, tmp_path / "many", "multi_label")
    assert written["problem_type"] == "multi_label_classification"
    written, _, _ = _written(config, tmp_path / "one")
    assert "problem_type" not in written


def test_the_command_hands_the_tasks_options_on(tmp_path, monkeypatch):
    spec = TaskSpec(
        task_name="tsv",
        head="multi_label",
        labels=("a", "b", "c"),
        max_seq_length=8,
        text=TextSettings(),
        spiece_sha256="",
        head_options={"summary_type": "mean"},
    )
    model = ClassificationModel(MODERN, 3)
    native = _native(model, "classification", str(tmp_path / "native"))
    spec.write(native)
    hf = str(tmp_path / "hf")
    options = ConvertOptions("native", "hf", native, hf)
    monkeypatch.setattr(
        convert_checkpoint.flag_values, "build", lambda _: options
    )
    convert_checkpoint.main()
    config = json.loads(pathlib.Path(hf, "config.json").read_text())
    assert config["classifier_pooling"] == "mean"
    assert config["problem_type"] == "multi_label_classification"
    assert config["id2label"]["2"] == "c"


@pytest.mark.parametrize(
    "config", [XLNET, BERT, ALBERT, MODERN], ids=lambda c: c.model_type
)
def test_ids_of_symbols_are_the_vocabularys(config, tmp_path):
    """A class of theirs takes ids of its released vocabulary without them."""
    wanted = {
        "xlnet": {"pad_token_id": 7, "bos_token_id": None, "eos_token_id": 9},
        "bert": {"pad_token_id": 7},
        "albert": {"pad_token_id": 7, "bos_token_id": 3, "eos_token_id": 4},
        "modernbert": {
            "pad_token_id": 7,
            **{"bos_token_id": 3, "cls_token_id": 3},
            **{"eos_token_id": 4, "sep_token_id": 4},
        },
    }[config.model_type]
    symbols = {"pad": 7, "bos": -1, "eos": 9, "cls": 3, "sep": 4}
    arrays = {"model/lm_loss/bias": np.zeros(13)}
    said = {}
    for known in (symbols, None):
        hf.write_config(
            str(tmp_path), config, "pretraining", arrays, symbols=known
        )
        written = json.loads((tmp_path / "config.json").read_text())
        said[known is None] = {
            k: v for k, v in written.items() if k.endswith("token_id")
        }
    assert said[False] == wanted
    # No vocabulary is known: only what lies outside the embedding goes.
    assert set(said[True].values()) <= {None}
    assert ("pad_token_id" in said[True]) == (config is MODERN)


def test_ids_that_are_right_stay_as_they_are(tmp_path):
    """A released folder comes back key by key."""
    config = BERT.replace(extra={"pad_token_id": 5})
    arrays = {"model/lm_loss/bias": np.zeros(13)}
    for pad, extra in ((5, {"pad_token_id": 5}), (0, {})):
        config = BERT.replace(extra=extra)
        hf.write_config(
            str(tmp_path), config, "pretraining", arrays, symbols={"pad": pad}
        )
        written = json.loads((tmp_path / "config.json").read_text())
        ids = {k: v for k, v in written.items() if k.endswith("_id")}
        assert ids == extra


def test_what_a_pipeline_needs_of_a_fine_tuned_model(tmp_path):
    (tmp_path / "one").mkdir()
    config, _, hf_folder = _written(XLNET, tmp_path / "one")
    assert config["use_mems_eval"] is False
    # Of a folder that others wrote every key stays as it is.
    native, back = str(tmp_path / "n"), str(tmp_path / "back")
    path = pathlib.Path(hf_folder, "config.json")
    theirs = json.loads(path.read_text())
    del theirs["use_mems_eval"]
    path.write_text(json.dumps(theirs))
    conversion.convert(ConvertOptions("hf", "native", hf_folder, native))
    conversion.convert(ConvertOptions("native", "hf", native, back))
    assert json.loads(pathlib.Path(back, "config.json").read_text()) == theirs
    arrays = {
        "model/regression/logit/kernel": np.zeros((8, 1)),
        "model/sequnece_summary/summary/kernel": np.zeros((8, 8)),
    }
    hf.write_config(str(tmp_path), BERT, "regression", arrays)
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["problem_type"] == "regression"  # else a sigmoid


def test_a_left_to_right_model_keeps_its_vocabulary(tmp_path):
    """Generation, scoring and export asked for it after each conversion."""
    config = TransformerXLConfig(**SIZES, d_head=4, mem_len=3)
    model = CausalLanguageModel(config)
    native = _native(model, "language_model", str(tmp_path / "native"))
    (tmp_path / "native" / "vocabulary.json").write_text('{"format": 1}')
    prefix, again = str(tmp_path / "tf1" / "model.ckpt"), tmp_path / "again"
    conversion.convert(ConvertOptions("native", "tf1", native, prefix))
    conversion.convert(ConvertOptions("tf1", "native", prefix, str(again)))
    for folder in (tmp_path / "tf1", again):
        content = (folder / "vocabulary.json").read_text()
        assert content == '{"format": 1}'


def test_an_encoder_alone_is_read_from_its_native_folder(tmp_path):
    """Vectors and trainings found none of its weights."""
    encoder = build_encoder(BERT)
    native = _native(encoder, heads_lib.ENCODER, str(tmp_path / "native"))
    model = PretrainingModel(BERT)
    checkpoints.restore(model, native, require="encoder")
    _assert_equal(encoder, model.encoder)


def test_what_makes_sentence_vectors_travels(tmp_path):
    """Vectors of a native copy were those of its pieces."""
    theirs, native = tmp_path / "theirs", str(tmp_path / "native")
    made = _native(build_encoder(BERT), "encoder", str(tmp_path / "made"))
    conversion.convert(ConvertOptions("native", "hf", made, str(theirs)))
    rule = {
        "modules.json": [{"type": "Pooling", "path": "1_Pooling"}],
        "sentence_bert_config.json": {"max_seq_length": 9},
        "config_sentence_transformers.json": {"truncate_dim": 4},
        "1_Pooling/config.json": {"pooling_mode": "mean"},
    }
    (theirs / "1_Pooling").mkdir()
    for name, value in rule.items():
        (theirs / name).write_text(json.dumps(value))
    (theirs / "README.md").write_text("a card")
    back = str(tmp_path / "back")
    conversion.convert(ConvertOptions("hf", "native", str(theirs), native))
    conversion.convert(ConvertOptions("native", "hf", native, back))
    for folder in map(pathlib.Path, (native, back)):
        for name, value in rule.items():
            assert json.loads((folder / name).read_text()) == value
        assert not (folder / "README.md").exists()


def test_what_their_class_has_no_place_for_names_the_way_out():
    arrays = {"start_logits/dense/kernel": np.zeros((4, 1), np.float32)}
    wanted = "BertForQuestionAnswering has no place .*use --to_format=native"
    with pytest.raises(UserError, match=wanted):
        hf.to_theirs(arrays, BERT, "span")
