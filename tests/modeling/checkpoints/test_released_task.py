"""Heads that others trained: their logits, loaded with the head or without."""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from common.contract.task_spec import TaskSpec, find_folder
from common.errors import UserError
from data.finetuning.options import require_paragraph_room
from modeling.checkpoints import conversion, hf, released_task
from modeling.checkpoints import restore as checkpoints
from modeling.checkpoints.names import encoder_of, named_variables
from modeling.command_options import ConvertOptions
from modeling.encoders.registry import build_encoder
from serving.signatures import sequence
from tests.golden.make_hf_heads import CASES
from training.objectives.build import build_objective

STORED = pathlib.Path(__file__).resolve().parents[2] / "golden" / "hf_heads"
UNKNOWN = "bert_next_sentence"
KNOWN = [name for name in CASES if name != UNKNOWN]
# What each folder is: head by its task.json, labels, options of the head.
_LABELS, _TAGS = ("bad", "fair", "good"), ("O", "B-x", "I-x", "B-y")


def _sequence(summary_type, head="classification", count=3):
    labels = _LABELS[:count]
    options = {"num_labels": count} if count else {}
    pooled = {"summary_type": summary_type, "pooling": "masked"}
    return head, labels, options | pooled | {"use_proj": True}


def _tokens(**options):
    return "token_classification", _TAGS, {"num_labels": 4} | options


TASKS = {
    "xlnet_sequence": _sequence("last"),
    "xlnet_first": _sequence("first"),
    "xlnet_token": _tokens(),
    "xlnet_span": ("span", (), {"independent": True}),
    "xlnet_beams": ("span", (), {"start_n_top": 3, "end_n_top": 2}),
    "bert_sequence": _sequence("first"),
    "bert_multi_label": _sequence("first", "multi_label"),
    "bert_regression": _sequence("first", "regression", count=0),
    "bert_choice": (
        "multiple_choice",
        tuple("ABCD"),
        _sequence("first", count=0)[2],
    ),
    "bert_token": _tokens(),
    "bert_span": ("span", (), {"independent": True}),
    "albert_sequence": _sequence("first"),
    "albert_token": _tokens(),
    "albert_span": ("span", (), {"independent": True}),
    "modernbert_sequence": _sequence("first"),
    "modernbert_mean": _sequence("mean"),
    "modernbert_token": _tokens(use_proj=True),
    "modernbert_span": ("span", (), {"independent": True, "use_proj": True}),
}


def _compare(folder, name, tolerance=2e-5):
    """The model that its configuration describes gives their numbers."""
    spec = TaskSpec.read(str(folder))
    config = checkpoints.find_config(str(folder))
    model = build_objective(
        spec.head, config, **spec.head_options
    ).build_model()
    report = checkpoints.restore(model, str(folder), require="all")
    assert not report.fresh
    with np.load(folder / "outputs.npz") as f:
        inputs = {k[3:]: tf.constant(f[k]) for k in f.files if k[:3] == "in/"}
        wanted = {k[4:]: f[k] for k in f.files if k[:4] == "out/"}
    call = {
        "input_ids": inputs["input_ids"],
        "segment_ids": inputs.get("token_type_ids"),
        "input_mask": inputs["attention_mask"],
    }
    real = inputs["attention_mask"].numpy() > 0
    if name.endswith("span"):
        zeros = tf.zeros(len(real), tf.int32)
        out = model(**call, start_positions=zeros, cls_index=zeros)
        for key in ("start", "end"):
            theirs = tf.nn.log_softmax(wanted[f"{key}_logits"])
            ours = getattr(out, f"{key}_log_probs")
            np.testing.assert_allclose(ours, theirs, atol=tolerance)
        return
    if name.endswith("beams"):
        out = model(**call)
        ours = np.exp(out.start_top_log_probs)
        np.testing.assert_allclose(
            ours, wanted["start_top_log_probs"], atol=tolerance
        )
        np.testing.assert_array_equal(
            out.start_top_index, wanted["start_top_index"]
        )
        return
    logits, theirs = model(**call).numpy(), wanted["logits"]
    if name.endswith("token"):
        logits, theirs = logits[real], theirs[real]
    np.testing.assert_allclose(logits, theirs, atol=tolerance)


@pytest.mark.long
@pytest.mark.parametrize("name", KNOWN)
def test_stored_heads_have_their_numbers(name):
    _compare(STORED / name, name)


@pytest.mark.long
@pytest.mark.parametrize("side", [(3, 0), (0, 2)])
def test_padding_changes_no_summary_of_xlnet(side):
    """Their numbers are of rows without padding, as of one text alone."""
    folder = STORED / "xlnet_first"
    spec = TaskSpec.read(str(folder))
    config = checkpoints.find_config(str(folder))
    model = build_objective(
        spec.head, config, **spec.head_options
    ).build_model()
    checkpoints.restore(model, str(folder), require="all")
    with np.load(folder / "outputs.npz") as f:
        wanted = f["out/logits"]
        names = ("input_ids", "token_type_ids", "attention_mask")
        rows = [
            tf.constant(np.pad(f[f"in/{name}"], [(0, 0), side]))
            for name in names
        ]
    logits = model(rows[0], segment_ids=rows[1], input_mask=rows[2])
    np.testing.assert_allclose(logits, wanted, atol=2e-5)
    assert sequence.padded_length(spec) is None


@pytest.mark.bench
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_heads_of_the_installed_transformers(tmp_path):
    """Other random weights, made now; TORCH_PYTHON may name an environment."""
    python = os.environ.get("TORCH_PYTHON")
    if not python:
        pytest.importorskip("torch")
        pytest.importorskip("transformers")
    script = STORED.parent / "make_hf_heads.py"
    subprocess.run(
        [python or sys.executable, str(script), str(tmp_path), "7"],
        check=True,
        capture_output=True,
    )
    for name in KNOWN:
        _compare(tmp_path / name, name)


@pytest.mark.parametrize("name", KNOWN)
def test_the_configuration_tells_the_task(name):
    folder = str(STORED / name)
    spec = TaskSpec.read(folder)
    assert (spec.head, spec.labels, spec.head_options) == TASKS[name]
    layout = "cls_last" if name.startswith("xlnet") else "cls_first"
    assert spec.data_options["layout"] == layout
    assert spec.max_seq_length == (512 if layout == "cls_last" else 16)
    assert find_folder(folder) == folder
    assert released_task.head_in(folder) == spec.head


def test_two_texts_are_joined_as_the_folders_tokenizer_does(tmp_path):
    row = {"type": "RobertaProcessing", "sep": ["</s>", 2], "cls": ["<s>", 0]}
    found = []
    for family in ("bert", "modernbert"):
        folder = tmp_path / family
        shutil.copytree(STORED / f"{family}_sequence", folder)
        for rule in (row | {"type": "BertProcessing"}, row):
            value = {"model": {"type": "BPE"}, "post_processor": rule}
            (folder / "tokenizer.json").write_text(json.dumps(value))
            found.append(TaskSpec.read(str(folder)).data_options["layout"])
    two = "cls_first_sep_sep"
    assert found == ["cls_first", f"{two}_one_segment", "cls_first", two]
    (folder / "tokenizer.json").write_text('{"model": {"type": "BPE"}}')
    with pytest.raises(UserError, match="wanted a post_processor that puts"):
        TaskSpec.read(str(folder))


def test_a_tokenizer_that_keeps_the_end_of_a_text_is_refused(tmp_path):
    """Its long texts were cut at the other end, without a word."""
    folder = tmp_path / "bert"
    shutil.copytree(STORED / "bert_sequence", folder)
    rules = {"model": {"type": "BPE"}}
    (folder / "tokenizer.json").write_text(json.dumps(rules))
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps({"truncation_side": "left"}))
    with pytest.raises(UserError, match="wanted right, found 'left'"):
        TaskSpec.read(str(folder))
    path.write_text(json.dumps({"truncation_side": "right"}))
    assert TaskSpec.read(str(folder)).head == "classification"


@pytest.mark.parametrize("name, wanted", [("bert_span", 8), ("xlnet_span", 64)])
def test_a_question_leaves_room_for_a_paragraph(name, wanted):
    """Rows of 16 tokens could not be exported: a question had up to 64."""
    spec = TaskSpec.read(str(STORED / name))
    assert spec.data_options["max_query_length"] == wanted
    require_paragraph_room(spec.max_seq_length, wanted)


@pytest.mark.parametrize("kind", ["CrossEncoder", "SentenceTransformer", None])
def test_a_cross_encoder_says_that_it_reads_two_texts(tmp_path, kind):
    """Version 6 of sentence-transformers writes it beside the weights."""
    for name in ("bert_regression", "bert_token"):
        folder = _changed(tmp_path / str(kind), name)
        path = os.path.join(folder, "config_sentence_transformers.json")
        if kind:
            pathlib.Path(path).write_text(json.dumps({"model_type": kind}))
        found = TaskSpec.read(folder).data_options.get("num_texts")
        two = kind == "CrossEncoder" and name == "bert_regression"
        assert found == (2 if two else None)


def test_an_xlnet_that_was_tuned_without_segments_is_refused(tmp_path):
    """CLS has a segment of its own here: all logits were others."""
    folder = tmp_path / "xlnet"
    shutil.copytree(STORED / "xlnet_sequence", folder)
    (folder / "tokenizer.json").write_text('{"model": {"type": "Unigram"}}')
    path = folder / "tokenizer_config.json"
    about = {"tokenizer_class": "XLNetTokenizer", "backend": "tokenizers"}
    path.write_text(json.dumps(about))
    with pytest.raises(UserError, match="wanted an XLNet that was tuned with"):
        TaskSpec.read(str(folder))
    for known in (
        about | {"model_input_names": ["input_ids", "token_type_ids"]},
        {"tokenizer_class": "XLNetTokenizer"},
    ):
        path.write_text(json.dumps(known))
        assert TaskSpec.read(str(folder)).head == "classification"


@pytest.mark.parametrize(
    "name, length, wanted",
    [
        ("bert_sequence", 9, 9),
        ("bert_sequence", 17, 16),  # the encoder has 16 places
        ("bert_sequence", 1e30, 16),
        ("bert_sequence", True, 16),
        ("bert_sequence", "9", 16),
        ("xlnet_sequence", 128, 128),
        ("xlnet_sequence", int(1e30), 512),
    ],
)
def test_rows_are_no_longer_than_the_tokenizers(tmp_path, name, length, wanted):
    """Their pipelines cut there: a long text had other logits here."""
    folder = _changed(tmp_path, name)
    about = {"model_max_length": length}
    path = os.path.join(folder, "tokenizer_config.json")
    pathlib.Path(path).write_text(json.dumps(about))
    assert TaskSpec.read(folder).max_seq_length == wanted


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_the_encoder_alone(name):
    """Every weight of it, whatever the head is."""
    folder = str(STORED / name)
    config = checkpoints.find_config(folder)
    model = build_encoder(config)
    source = checkpoints.resolve(folder, part="encoder")
    report = checkpoints.restore(model, source, require="all")
    assert not report.fresh and report.unused
    whole = hf.read_weights(folder, config, "encoder").arrays
    for variable, value in named_variables(model).items():
        np.testing.assert_array_equal(value, whole[variable])
    assert encoder_of(model) is model


def test_an_unknown_head_is_refused_with_the_way_out(tmp_path):
    folder = str(STORED / UNKNOWN)
    assert find_folder(folder) is None
    config = checkpoints.find_config(folder)
    with pytest.raises(UserError) as caught:
        checkpoints.restore(build_encoder(config), folder, require="encoder")
    line = str(caught.value)
    assert "BertForNextSentencePrediction" in line and "\n" not in line
    assert "--head=encoder (serving.export: --task=embedding) leaves" in line
    options = ConvertOptions(
        "hf", "native", folder, str(tmp_path / "native"), head="encoder"
    )
    lines = conversion.convert(options)
    assert any("cls.seq_relationship" in line for line in lines)


def _changed(tmp_path, name, **changes):
    folder = tmp_path / name
    shutil.copytree(STORED / name, folder)
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    return str(folder)


def test_a_class_that_is_not_known_is_no_head_of_ours(tmp_path):
    """Its tensors have the names of another head's."""
    folder = _changed(
        tmp_path, "bert_sequence", architectures=["BertForSomethingElse"]
    )
    config = checkpoints.find_config(folder)
    with pytest.raises(UserError, match="BertForSomethingElse"):
        hf.read_weights(folder, config)


@pytest.mark.parametrize(
    "names,message",
    [
        ({"0": "a", "2": "b"}, "one line for each of 0 to 1"),
        ({"0": "a", "1": None}, "one line for each of 0 to 1"),
        ({"0": "a", "1": "b\nc"}, "one line for each of 0 to 1"),
        ({"0": "a", "1": "a"}, "gives a name twice"),
        (["a", "b"], "wanted names of labels as id2label"),
        ({}, "wanted names of labels as id2label"),
    ],
)
def test_labels_that_are_none(tmp_path, names, message):
    folder = _changed(tmp_path, "bert_sequence", id2label=names)
    with pytest.raises(UserError, match=message):
        TaskSpec.read(folder)


def test_labels_may_be_numbers_in_any_order(tmp_path):
    """As transformers reads them; they were refused."""
    names = {"2": "a", "1": 0, "0": 1}
    folder = _changed(tmp_path, "bert_sequence", id2label=names)
    assert TaskSpec.read(folder).labels == ("1", "0", "a")


@pytest.mark.parametrize("count", [3, 2, 0, None, "3", True])
def test_the_number_of_labels_rules_over_their_names(tmp_path, count):
    """As in transformers; such folders were refused."""
    known = {"id2label": {"0": "a", "1": "b"}, "num_labels": count}
    labels = TaskSpec.read(_changed(tmp_path, "bert_sequence", **known)).labels
    assert labels == (
        ("LABEL_0", "LABEL_1", "LABEL_2") if count == 3 else ("a", "b")
    )


def test_one_output_is_what_the_problem_says(tmp_path):
    """A label alone and a class alone are no value."""
    names = {"0": "only"}
    for problem, head in (
        ("multi_label_classification", "multi_label"),
        ("single_label_classification", "classification"),
        (None, "regression"),
    ):
        folder = _changed(
            tmp_path / str(problem),
            "bert_regression",
            id2label=names,
            problem_type=problem,
        )
        spec = TaskSpec.read(folder)
        assert spec.head == head
        model = build_objective(
            head, checkpoints.find_config(folder), **spec.head_options
        ).build_model()
        assert not checkpoints.restore(model, folder).fresh


def test_several_values_of_a_regression_are_refused(tmp_path):
    folder = _changed(tmp_path, "bert_sequence", problem_type="regression")
    with pytest.raises(UserError, match="wanted one value of a regression"):
        TaskSpec.read(folder)


def test_a_pooler_that_the_head_does_not_read_is_left_out(tmp_path):
    """As older releases have it beside question answering."""
    from safetensors.numpy import load_file, save_file

    folder = _changed(tmp_path, "bert_span")
    path = os.path.join(folder, "model.safetensors")
    pooler = {
        "bert.pooler.dense.weight": np.ones((8, 8), np.float32),
        "bert.pooler.dense.bias": np.ones(8, np.float32),
    }
    save_file(load_file(path) | pooler, path)
    found = hf.read_weights(folder, checkpoints.find_config(folder))
    assert found.head == "span" and set(found.left_out) == set(pooler)
    _compare(pathlib.Path(folder), "bert_span")


@pytest.mark.parametrize("name", ["xlnet_span", "bert_span", "modernbert_span"])
def test_answers_of_independent_logits(name):
    """The best beam is the best span of all; CLS stands for no answer."""
    folder = str(STORED / name)
    spec = TaskSpec.read(folder)
    model = build_objective(
        "span", checkpoints.find_config(folder), **spec.head_options
    ).build_model()
    model.start_n_top, model.end_n_top = 3, 2
    checkpoints.restore(model, folder)
    ids = tf.constant([[7, 9, 11, 13, 17, 19]])
    mask = tf.constant([[1, 0, 1, 1, 1, 1]])
    zero = tf.constant([0])
    pair = model(ids, paragraph_mask=mask, cls_index=zero, start_positions=zero)
    starts, ends = (x.numpy()[0].astype(float) for x in pair[:2])
    spans = {
        (i, j): starts[i] + ends[j] for i in range(2, 6) for j in range(i, 6)
    }
    best = max(spans, key=spans.get)
    out = model(ids, paragraph_mask=mask, cls_index=zero)
    beams = {}
    for k in range(6):
        i, j = int(out.start_top_index[0, k // 2]), int(out.end_top_index[0, k])
        value = out.start_top_log_probs[0, k // 2] + out.end_top_log_probs[0, k]
        if i <= j:
            beams[i, j] = float(value)
            assert beams[i, j] == pytest.approx(spans[i, j], abs=1e-5)
    assert max(beams, key=beams.get) == best
    odds = starts[0] + ends[0] - spans[best]
    assert float(out.cls_logits[0]) == pytest.approx(odds, abs=1e-4)
