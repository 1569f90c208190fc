"""Hugging Face folders: our logits are theirs; round trips change no bit."""

import json
import os
import pathlib
import stat

import numpy as np
import pytest
import tensorflow as tf
from safetensors.numpy import load_file, save_file

from common.errors import UserError
from common.heads import HEADS
from common.vocabularies import vocabulary
from common.vocabularies.text_settings import TextSettings
from modeling import XLNetConfig
from modeling.checkpoints import conversion, hf
from modeling.checkpoints import restore as checkpoints
from modeling.checkpoints.names import named_variables
from modeling.command_options import ConvertOptions
from modeling.encoders.bert.config import BertConfig
from modeling.heads import table as heads

STORED = pathlib.Path(__file__).resolve().parents[2] / "golden"
CASES = [
    "lm",
    "classification",
    "span",
    "multiple_choice",
    "token_classification",
]


def _model(folder, **sizes):
    config = checkpoints.find_config(str(folder))
    stored = conversion.read(checkpoints.resolve(str(folder)), config, None)
    if sizes:
        model = type(stored.model)(config, **sizes)
        checkpoints.restore(model, str(folder))
        return model
    return stored.model


def _compare(folder, name, tolerance=1e-5):
    with np.load(folder / "outputs.npz") as f:
        inputs = {k[3:]: tf.constant(f[k]) for k in f.files if k[:3] == "in/"}
        expected = {k[4:]: f[k] for k in f.files if k[:4] == "out/"}
    call = {
        "input_ids": inputs["input_ids"],
        "segment_ids": inputs["token_type_ids"],
        "input_mask": inputs.get("attention_mask"),
    }
    if name == "lm":
        model = _model(folder)
        memory = model(inputs["first_ids"]).new_memory
        output = model(
            **call,
            perm_mask=inputs["perm_mask"],
            target_mapping=inputs["target_mapping"],
            memory=memory,
        )
        actual = {"logits": model.lm_logits(output.query_output)}
    elif name == "span":
        starts, ends = expected["start_top_log_probs"].shape[1], 2
        model = _model(folder, start_n_top=starts, end_n_top=ends)
        output = model(
            **call,
            paragraph_mask=1 - inputs["p_mask"],
            cls_index=inputs["cls_index"],
        )
        actual = {k: np.array(v) for k, v in output._asdict().items()}
        # Theirs are probabilities, and flattened with the end first.
        for key in ("start_top_log_probs", "end_top_log_probs"):
            actual[key] = np.exp(actual[key])
        for key in ("end_top_log_probs", "end_top_index"):
            by_start = actual[key].reshape(-1, starts, ends)
            actual[key] = by_start.transpose(0, 2, 1).reshape(-1, starts * ends)
    else:
        actual = {"logits": _model(folder)(**call)}
    for key, value in actual.items():
        np.testing.assert_allclose(
            value, expected[key], atol=tolerance, rtol=1e-5, err_msg=key
        )


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_logits_of_stored_folders(name):
    _compare(STORED / f"hf_{name}", name)


@pytest.mark.bench
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", CASES)
def test_logits_of_new_random_models(tmp_path, name, seed):
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from tests.golden import make_hf_folders

    changes = {} if seed == 0 else {"d_inner": 36, "same_length": True}
    make_hf_folders.make(str(tmp_path), name, **changes)
    _compare(tmp_path, name)


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_round_trip_changes_no_bit(tmp_path, name):
    folder = STORED / f"hf_{name}"
    native, back = str(tmp_path / "native"), str(tmp_path / "back")
    conversion.convert(ConvertOptions("hf", "native", str(folder), native))
    conversion.convert(ConvertOptions("native", "hf", native, back))
    before = load_file(folder / "model.safetensors")
    after = load_file(f"{back}/model.safetensors")
    assert set(before) == set(after)
    for key, value in before.items():
        assert value.dtype == after[key].dtype
        np.testing.assert_array_equal(value, after[key], key)
    assert json.loads((folder / "config.json").read_text()) == json.loads(
        pathlib.Path(back, "config.json").read_text()
    )


def test_memory_lengths_are_kept(tmp_path):
    config = checkpoints.find_config(str(STORED / "hf_lm"))
    assert (config.mem_len, config.reuse_len) == (5, 4)


def _heads_of_xlnet():
    found = heads.with_weights()
    allowed = [
        name
        for name in found
        if not HEADS[name].encoders or "xlnet" in HEADS[name].encoders
    ]
    return [heads.ENCODER, *allowed]


@pytest.mark.long
@pytest.mark.parametrize("head", _heads_of_xlnet())
def test_every_head_can_go_to_hf_and_back(tmp_path, head):
    """Our own weights; dropatt and the rest that theirs cannot say, too."""
    config = XLNetConfig(
        vocab_size=11,
        d_model=6,
        n_layer=2,
        n_head=3,
        d_head=2,
        d_inner=10,
        dropatt=0.3,
        activation_dropout=0.0,
        untie_r=False,
        blind_rows="original",
        mem_len=7,
    )
    if head == "encoder":
        shapes = {}
    else:
        shapes = {marker: [6, 3] for marker in HEADS[head].marker}
        shapes["pooler/projection/kernel"] = [6, 6]
    if head == "regression":
        shapes = {k: [6, 1] for k in shapes}
    model = heads.build(head, config, shapes)
    weights = conversion.Weights(head, config, model, {}, [])
    nowhere = checkpoints.Source("native", "", str(tmp_path))
    folder = str(tmp_path / "hf")
    conversion.write(weights, "hf", folder, nowhere)
    again = conversion.read(
        checkpoints.resolve(folder), checkpoints.find_config(folder), None
    )
    assert again.config.replace(extra={}) == config
    assert again.head == head
    before, after = named_variables(model), named_variables(again.model)
    assert set(before) == set(after)
    for name, variable in before.items():
        np.testing.assert_array_equal(variable, after[name], name)


def _copy(tmp_path, change_config=None, change_weights=None):
    source = STORED / "hf_lm"
    config = json.loads((source / "config.json").read_text())
    weights = load_file(source / "model.safetensors")
    if change_config:
        change_config(config)
    if change_weights:
        change_weights(weights)
    (tmp_path / "config.json").write_text(json.dumps(config))
    save_file(weights, tmp_path / "model.safetensors")
    return str(tmp_path)


def test_a_surplus_tensor_is_named(tmp_path):
    folder = _copy(
        tmp_path,
        change_weights=lambda w: w.update(extra=np.zeros(3, np.float32)),
    )
    with pytest.raises(UserError, match="extra"):
        _model(folder)


def test_a_missing_tensor_is_named(tmp_path):
    folder = _copy(
        tmp_path,
        change_weights=lambda w: w.pop("transformer.layer.1.rel_attn.q"),
    )
    with pytest.raises(UserError, match="layer_1/rel_attn/q/kernel"):
        _model(folder)


def test_untied_logits_are_refused(tmp_path):
    folder = _copy(
        tmp_path,
        change_weights=lambda w: w.update(
            {"lm_loss.weight": np.zeros([29, 12], np.float32)}
        ),
    )
    with pytest.raises(UserError, match="tied .* --head=encoder"):
        _model(folder)
    config = checkpoints.find_config(str(folder))
    assert hf.read_weights(str(folder), config, "encoder").head == "encoder"


@pytest.mark.parametrize(
    "key,value", [("model_type", "elmo"), ("ff_activation", "silu")]
)
def test_a_config_that_we_have_not(tmp_path, key, value):
    folder = _copy(tmp_path, lambda c: c.update({key: value}))
    with pytest.raises(UserError, match=value):
        checkpoints.find_config(folder)


def test_differing_biases_cannot_be_shared(tmp_path):
    folder = _copy(tmp_path, lambda c: c.update(untie_r=False))
    with pytest.raises(UserError, match="differs"):
        _model(folder)


def test_every_written_file_has_the_mode_of_an_ordinary_file(tmp_path):
    native, back = str(tmp_path / "native"), str(tmp_path / "back")
    folder = str(STORED / "hf_lm")
    before = os.umask(0o022)
    try:
        conversion.convert(ConvertOptions("hf", "native", folder, native))
        conversion.convert(ConvertOptions("native", "hf", native, back))
    finally:
        os.umask(before)
    for written in (native, back):
        modes = {
            p.name: stat.S_IMODE(p.stat().st_mode)
            for p in pathlib.Path(written).iterdir()
        }
        assert set(modes.values()) == {0o644}, modes


def test_text_settings_come_and_go_with_the_vocabulary(tmp_path):
    """Their `tokenizer_config.json` is read, recorded in ours, carried."""
    folder = pathlib.Path(_copy(tmp_path))
    (folder / "spiece.model").write_bytes(b"a vocabulary")
    config = {"do_lower_case": True, "keep_accents": True, "theirs": 1}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    native, back = str(tmp_path / "native"), tmp_path / "back"
    conversion.convert(ConvertOptions("hf", "native", str(folder), native))
    found = vocabulary.read(f"{native}/spiece.model")
    assert found.recorded == TextSettings("composed", uncased=True)
    assert found.source == "in spiece.json"
    conversion.convert(ConvertOptions("native", "hf", native, str(back)))
    written = json.loads((back / "tokenizer_config.json").read_text())
    assert written == config
    assert vocabulary.read(str(back / "spiece.model")).recorded == (
        found.recorded
    )


def _shards(folder, target):
    """The folder's tensors in three files with an index."""
    target.mkdir()
    (target / "config.json").write_bytes((folder / "config.json").read_bytes())
    tensors = load_file(folder / "model.safetensors")
    places = {}
    for number in range(3):
        name = f"model-{number + 1:05}-of-00003.safetensors"
        part = dict(sorted(tensors.items())[number::3])
        save_file(part, target / name)
        places |= dict.fromkeys(part, name)
    index = {"metadata": {"total_size": 1}, "weight_map": places}
    path = target / "model.safetensors.index.json"
    path.write_text(json.dumps(index))
    return path, index


def test_shards_are_the_same_weights(tmp_path):
    folder = STORED / "hf_classification"
    path, index = _shards(folder, tmp_path / "shards")
    one, other = _model(folder), _model(tmp_path / "shards")
    theirs = named_variables(other)
    for name, variable in named_variables(one).items():
        np.testing.assert_array_equal(variable, theirs[name])
    first = min(index["weight_map"])
    for change, message in (
        ({first: "none.safetensors"}, "none.safetensors, found it in model"),
        ({first: "../x"}, "weight_map` of file names, found '../x'"),
        ({"more": index["weight_map"][first]}, "`more` is not in model-00001"),
        (None, "wanted an object `weight_map`"),
        (
            dict.fromkeys(index["weight_map"], "none.safetensors"),
            "none.safetensors is not a readable",
        ),
    ):
        places = change and index["weight_map"] | change
        path.write_text(json.dumps(index | {"weight_map": places}))
        with pytest.raises(UserError, match=message):
            _model(tmp_path / "shards")


def test_labels_have_the_tasks_names(tmp_path):
    """What AutoModelForSequenceClassification and pipelines show."""
    config = XLNetConfig(
        vocab_size=9, d_model=4, n_layer=1, n_head=1, d_head=4, d_inner=4
    )
    arrays = {"model/classification/logit/kernel": np.zeros((4, 3))}

    def written(names):
        hf.write_config(str(tmp_path), config, "classification", arrays, names)
        return json.loads((tmp_path / "config.json").read_text())

    found = written(("bad", "fair", "good"))
    assert found["id2label"] == {"0": "bad", "1": "fair", "2": "good"}
    assert found["label2id"] == {"bad": 0, "fair": 1, "good": 2}
    assert written(())["id2label"]["2"] == "LABEL_2"
    with pytest.raises(UserError, match="wanted names of 3 outputs, found 2"):
        written(("bad", "good"))


SMALL = BertConfig(vocab_size=9, d_model=4, n_layer=1, n_head=1, d_inner=6)


def _rewritten(tmp_path, extra, head, arrays, **options):
    """What a file says that is written of a model with keys of another."""
    config = SMALL.replace(extra=extra)
    arrays = {"model/sequnece_summary/summary/kernel": 0} | arrays
    hf.write_config(str(tmp_path), config, head, arrays, **options)
    return json.loads((tmp_path / "config.json").read_text())


def test_weights_are_said_to_be_float32_and_tied(tmp_path):
    """Their classes would round them, or draw the matrix of the logits."""
    extra = {
        "dtype": "bfloat16",
        "torch_dtype": "float16",
        "tie_word_embeddings": False,
    }
    arrays = {"model/lm_loss/bias": np.zeros(9)}
    written = _rewritten(tmp_path, extra, "pretraining", arrays)
    assert {key: written[key] for key in extra} == {
        "dtype": "float32",
        "torch_dtype": "float32",
        "tie_word_embeddings": True,
    }
    assert set(extra).isdisjoint(
        _rewritten(tmp_path, {}, "pretraining", arrays)
    )


def test_a_head_without_labels_has_none_of_the_model_before(tmp_path):
    """Their spans have as many outputs as there are labels."""
    labels = {"id2label": {"0": "a", "1": "b", "2": "c"}, "num_labels": 3}
    arrays = {"model/span/logit/kernel": np.zeros((4, 2))}
    for extra in (labels, {"num_labels": 3}):
        written = _rewritten(tmp_path, extra, "span", arrays, task="span")
        assert set(labels).isdisjoint(written)
    two = {"id2label": {"0": "a", "1": "b"}}
    assert (
        _rewritten(tmp_path, two, "span", arrays)["id2label"]
        == (two["id2label"])
    )
    arrays = {"model/classification/logit/kernel": np.zeros((4, 2))}
    written = _rewritten(tmp_path, {"num_labels": 3}, "classification", arrays)
    assert len(written["id2label"]) == 2 and "num_labels" not in written


@pytest.mark.parametrize(
    "head,task,outputs,problem",
    [
        ("classification", "classification", 3, None),
        ("classification", "multi_label", 1, "multi_label_classification"),
        ("regression", "regression", 1, "regression"),
    ],
)
def test_the_problem_is_that_of_the_outputs(
    tmp_path, head, task, outputs, problem
):
    arrays = {f"model/{head}/logit/kernel": np.zeros((4, outputs))}
    for before in ("regression", "multi_label_classification"):
        extra = {"problem_type": before, "architectures": ["x"]}
        written = _rewritten(tmp_path, extra, head, arrays, task=task)
        assert written.get("problem_type") == problem
        theirs = {"classifier.weight": np.zeros((outputs, 4))}
        family = hf.family_of("bert")
        assert hf.find_head(family, theirs, written) == head


def test_one_class_has_no_form_there(tmp_path):
    """transformers 5 refuses the file, which 4 read: it stays as it is."""
    arrays = {"model/classification/logit/kernel": np.zeros((4, 1))}
    with pytest.raises(UserError, match="two classes or more, found one"):
        _rewritten(
            tmp_path, {}, "classification", arrays, task="classification"
        )
    theirs = {
        "problem_type": "single_label_classification",
        "architectures": ["BertForSequenceClassification"],
        "id2label": {"0": "only"},
    }
    written = _rewritten(tmp_path, theirs, "classification", arrays)
    assert written["problem_type"] == theirs["problem_type"]
