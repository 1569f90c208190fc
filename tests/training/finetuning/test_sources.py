"""Where a run finds architecture, vocabulary, text settings and weights."""

import dataclasses
import json
import shutil

import pytest
import tensorflow as tf

from common.contract.task_spec import TaskSpec
from common.errors import UserError
from common.vocabularies import vocabulary
from common.vocabularies.text_settings import TextChoice, TextSettings
from tests.helpers.runs.classifier import CONFIG, make_options
from training.finetuning import sources

BERT = {
    "model_type": "bert",
    "vocab_size": 30,
    "hidden_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 10,
}
MODERN = BERT | {"model_type": "modernbert", "num_hidden_layers": 3}


def spec_of(**changes):
    spec = TaskSpec("tsv", "span", (), 16, TextSettings(), "0")
    return dataclasses.replace(spec, **changes)


def config_in(folder, width):
    """A folder with an XLNet of `width` and a checkpoint; its path."""
    folder.mkdir(exist_ok=True)
    text = json.dumps(CONFIG | {"d_model": width, "n_token": 30})
    (folder / "xlnet_config.json").write_text(text)
    tf.train.Checkpoint(x=tf.Variable(1.0)).write(str(folder / "model.ckpt-2"))
    return str(folder)


def options_of(folder, path="", start=None, **actions):
    options = make_options(folder, **actions, run={"init_checkpoint": start})
    return dataclasses.replace(options, model_config_path=path)


@pytest.fixture
def world(tmp_path):
    """A flag's file of width 8, a start of 12, a run's folder of 16.

    Beside them other weights of width 20, and bare ones.
    """
    config_in(tmp_path / "named", 20)
    bare = config_in(tmp_path / "bare", 20)
    (tmp_path / "bare" / "xlnet_config.json").unlink()
    assert sources.config_file_in(bare) is None
    config_in(tmp_path / "flag", 8)
    start = config_in(tmp_path / "start", 12)
    config_in(tmp_path / "model", 16)
    return tmp_path, str(tmp_path / "flag" / "xlnet_config.json"), start


@pytest.mark.parametrize(
    "given, actions, trained, width",
    [
        (("path", "start"), {"do_train": True}, True, 8),
        (("start",), {"do_train": True}, True, 12),
        (("start",), {"do_eval": True}, False, 12),
        (("start",), {"do_eval": True}, True, 16),
        (("start",), {"do_eval": True, "predict_ckpt": "bare"}, True, 12),
        (("start",), {"do_eval": True, "predict_ckpt": "named"}, True, 20),
        (("path",), {"do_eval": True, "predict_ckpt": "named"}, True, 8),
        (("start",), {"do_train": True, "predict_ckpt": "named"}, True, 12),
        ((), {"do_train": True}, False, 16),
        ((), {"do_eval": True, "predict_ckpt": "bare"}, True, 16),
    ],
)
def test_which_architecture_a_run_has(world, given, actions, trained, width):
    folder, path, start = world
    if trained:
        spec_of().write(str(folder / "model"))
    if "predict_ckpt" in actions:
        named = str(folder / actions["predict_ckpt"])
        actions = actions | {"predict_ckpt": named}
    options = options_of(
        folder,
        path if "path" in given else "",
        start if "start" in given else None,
        **actions,
    )
    assert sources.find_config(options, 30).d_model == width


def test_no_architecture_names_all_ways(tmp_path):
    with pytest.raises(UserError, match="give --init_checkpoint, --model_con"):
        sources.find_config(options_of(tmp_path, do_train=True), 30)


def test_a_config_is_of_this_vocabulary_and_takes_changes(world):
    folder, path, _ = world
    options = options_of(folder, path, do_train=True)
    with pytest.raises(UserError, match="the vocabulary has 29 pieces, .*flag"):
        sources.find_config(options, 29)
    # Released weights may have more rows than pieces.
    spiece = str(folder / "tokenizer.json")
    assert sources.find_config(options, 29, spiece).vocab_size == 30
    with pytest.raises(UserError, match="tokenizer.json has 31 pieces"):
        sources.find_config(options, 31, spiece)
    options = dataclasses.replace(options, config_changes={"dropout": 0.25})
    assert sources.find_config(options, 30).dropout == 0.25
    changes = {"embedding_size": 4}
    options = dataclasses.replace(options, config_changes=changes)
    with pytest.raises(UserError, match="--embedding_size=4: .* leave it out"):
        sources.find_config(options, 30)


@pytest.mark.parametrize(
    "config, asked, kind, layout",
    [
        (None, None, "last", "cls_last"),
        (BERT, None, "first", "cls_first"),
        (BERT, "mean", "mean", "cls_first"),
        (MODERN | {"classifier_pooling": "mean"}, None, "mean", "cls_first"),
        (MODERN | {"classifier_pooling": "mean"}, "attn", "attn", "cls_first"),
        (MODERN | {"classifier_pooling": "cls"}, None, "first", "cls_first"),
    ],
)
def test_the_encoder_decides_what_the_user_does_not(
    tmp_path, config, asked, kind, layout
):
    path = ""
    if config:
        path = str(tmp_path / "own.json")
        (tmp_path / "own.json").write_text(json.dumps(config))
    options = options_of(tmp_path, path, do_train=True, summary_type=asked)
    found, row = sources.settle(options)
    assert (found.summary_type, row) == (kind, layout)
    assert found.run is options.run
    rule = {"type": "RobertaProcessing", "sep": ["</s>", 2], "cls": ["<s>", 0]}
    spiece = tmp_path / "tokenizer.json"
    spiece.write_text(json.dumps({"post_processor": rule}))
    _, row = sources.settle(options, str(spiece))
    if layout == "cls_first":
        layout += "_sep_sep" + "_one_segment" * (config is BERT)
    assert row == layout


@pytest.mark.shared
def test_named_weights_have_their_own_vocabulary(world, spiece_model):
    """Not that of the folder that takes the results."""
    folder, _, start = world
    options = options_of(
        folder, start=start, do_eval=True, predict_ckpt=str(folder / "named")
    )
    for place in ("named", "model"):
        shutil.copy(spiece_model, folder / place / "spiece.model")
    spec_of(spiece_sha256="another").write(str(folder / "model"))
    path = sources.find_spiece(options, "")
    assert path == str(folder / "named" / "spiece.model")
    found = sources.find_text(options, path, TextChoice(), [].append)
    assert found == TextSettings()
    (folder / "named" / "spiece.model").unlink()
    path = sources.find_spiece(options, "")
    assert path == str(folder / "model" / "spiece.model")
    with pytest.raises(
        UserError, match="model/task.json: wanted spiece_sha256"
    ):
        sources.find_text(options, path, TextChoice(), [].append)


def test_a_folder_without_a_task_has_no_spec(tmp_path):
    assert sources.read_spec(str(tmp_path)) is None
    spec_of(max_seq_length=9).write(str(tmp_path))
    assert sources.read_spec(str(tmp_path)).max_seq_length == 9


def test_named_weights_come_before_those_of_the_folder(world):
    folder, _, start = world
    options = options_of(folder, start=start, do_eval=True)
    own = str(folder / "model" / "model.ckpt-2")
    assert sources.weights_of(options).path == own
    named = dataclasses.replace(options, predict_ckpt=start)
    assert sources.weights_of(named).path == f"{start}/model.ckpt-2"
    shutil.rmtree(folder / "model")
    assert sources.weights_of(options).path == f"{start}/model.ckpt-2"


def test_where_a_vocabulary_is_looked_for(world):
    folder, _, start = world
    options = options_of(folder, start=start, do_train=True)
    assert sources.find_spiece(options, "given.model") == "given.model"
    with pytest.raises(UserError, match="model and .*start: wanted a vocabul"):
        sources.find_spiece(options, "")
    with pytest.raises(UserError, match="model holds no .* --init_checkpoint"):
        sources.find_spiece(options_of(folder, do_train=True), "")
    with pytest.raises(UserError, match="found none; give --spiece_model"):
        sources.find_spiece(options_of(folder, do_eval=True), "")
    with pytest.raises(UserError, match="none.model holds no checkpoint: tr"):
        sources.find_spiece(options_of(folder / "none", do_eval=True), "")
    for place in ("start", "model"):  # the run's own comes first
        (folder / place / "spiece.model").write_text("x")
        found = sources.find_spiece(options, "")
        assert found == str(folder / place / "spiece.model")


def test_text_settings_are_those_that_models_were_trained_with(
    world, spiece_model
):
    folder, _, start = world
    spiece = str(folder / "spiece.model")
    shutil.copyfile(spiece_model, spiece)  # nothing is recorded beside it
    options = options_of(folder, start=start, do_train=True)
    digest = vocabulary.read(spiece).sha256
    lower = TextSettings(uncased=True)
    spec_of(text=lower, spiece_sha256=digest).write(start)
    said = []
    found = sources.find_text(options, spiece, TextChoice(), said.append)
    assert found == lower
    (line,) = said
    assert line.startswith("text         ") and digest[:12] in line
    # The run's own folder is of other settings; then of another vocabulary.
    spec_of(spiece_sha256=digest).write(str(folder / "model"))
    with pytest.raises(UserError, match="start/task.json"):
        sources.find_text(options, spiece, TextChoice(), said.append)
    spec_of(text=lower, spiece_sha256="0").write(str(folder / "model"))
    with pytest.raises(UserError, match="model/task.json"):
        sources.find_text(options, spiece, TextChoice(), said.append)
    assert len(said) == 1
