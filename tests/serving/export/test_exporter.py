"""Exports: layout, a stranger's reload, equal answers, errors, commands."""

import dataclasses
import fnmatch
import json
import os
import pathlib
import re
import sys

import numpy as np
import pytest
import tensorflow as tf

from common.errors import UserError
from data.finetuning.features import pair_features
from data.text.tokenizer import Tokenizer
from modeling import (
    ClassificationModel,
    MultipleChoiceModel,
    PretrainingModel,
    SpanModel,
    TokenClassificationModel,
)
from modeling.encoders.bert.config import BertConfig
from modeling.models.long_document import LongDocument
from serving.export import export_model, exporter, reload_check, warmup
from serving.saved_model import SavedModel
from serving.signatures.sequence import Signature
from tests.helpers.runs.rows import pad_left
from tests.serving.export.toy_exports import LABELS, make_config, make_spec


@pytest.fixture(scope="module")
def exported(spiece_model, tmp_path_factory):
    """(model, version folder) of a pair classifier, exported unchecked."""
    model = ClassificationModel(make_config().replace(n_layer=1), num_labels=3)
    folder = tmp_path_factory.mktemp("export")
    spec = make_spec("classification", LABELS, num_texts=2)
    return model, export_model(
        str(folder), model, spec, spiece_model, check=False
    )


@pytest.mark.shared
def test_layout(exported):
    _, folder = exported
    assert os.path.basename(folder) == "1"
    found = {
        str(p.relative_to(folder))
        for p in pathlib.Path(folder).rglob("*")
        if p.is_file()
    }
    assert {
        "saved_model.pb",
        "signature.json",
        "assets/spiece.model",
        "assets/labels.txt",
        warmup.FILE_NAME,
    } <= found
    labels = pathlib.Path(folder, "assets", "labels.txt").read_text()
    assert labels.split() == list(LABELS)
    with open(os.path.join(folder, "signature.json")) as f:
        value = json.load(f)
    assert value["sizes"] == {
        "n_layer": 1,
        "n_head": 2,
        "d_model": 20,
        "d_inner": 28,
        "vocab_size": 1000,
    }
    raw = value["signatures"]["serving_default"]
    assert raw["inputs"] == {
        "text_a": {"dtype": "string", "shape": [None]},
        "text_b": {"dtype": "string", "shape": [None]},
    }
    assert raw["outputs"]["probabilities"]["dtype"] == "float32"


@pytest.mark.long
@pytest.mark.shared
def test_golden_strings_give_the_model_s_logits(exported, spiece_model, golden):
    """Raw text in the SavedModel = offline ids in the model in memory."""
    model, folder = exported
    tokenizer = Tokenizer(spiece_model)
    with open(golden / "text" / "encode.json") as f:
        cases = json.load(f)["cases"]
    a = [c["text"] for c in cases]
    b = a[::-1]
    loaded = SavedModel(folder)
    found = loaded({"text_a": a, "text_b": b})
    rows = [
        pad_left(
            pair_features.join_segments(
                pair_features.without_blank(
                    [tokenizer.encode(x), tokenizer.encode(y)]
                ),
                24,
                tokenizer.symbols,
            ),
            24,
        )
        for x, y in zip(a, b, strict=True)
    ]
    ids, segments, mask = (np.stack(x) for x in zip(*rows, strict=True))
    wanted = model(ids, segment_ids=segments, input_mask=mask)
    np.testing.assert_allclose(found["logits"], wanted, atol=2e-5)
    by_ids = loaded(
        {"input_ids": ids, "segment_ids": segments, "input_mask": mask}, "ids"
    )
    np.testing.assert_allclose(by_ids["logits"], wanted, atol=2e-5)
    pieces = loaded({"text": a}, "tokenize")
    for row, case in enumerate(cases):
        count = pieces["num_pieces"][row]
        assert pieces["piece_ids"][row, :count].tolist() == case["cased"]["ids"]


@pytest.mark.slow
@pytest.mark.shared
def test_padding_batch_and_order_change_nothing(exported):
    _, folder = exported
    loaded = SavedModel(folder)
    a = ["One.", "A longer text with 2,000 words", "Three"]
    b = ["B", "Some other text", "x y z " * 20]
    together = loaded({"text_a": a, "text_b": b})["logits"]
    turned = loaded({"text_a": a[::-1], "text_b": b[::-1]})["logits"][::-1]
    alone = [
        loaded({"text_a": [x], "text_b": [y]})["logits"][0]
        for x, y in zip(a, b, strict=True)
    ]
    np.testing.assert_allclose(together, turned, atol=2e-6)
    np.testing.assert_allclose(together, alone, atol=2e-6)


@pytest.mark.slow
@pytest.mark.shared
@pytest.mark.parametrize(
    "head,build",
    [
        ("classification", lambda c: ClassificationModel(c, 3)),
        ("multi_label", lambda c: ClassificationModel(c, 3)),
        (
            "regression",
            lambda c: ClassificationModel(c, 1, regression=True),
        ),
        ("span", lambda c: SpanModel(c, 3, 2)),
        pytest.param(
            "span",
            lambda c: SpanModel(c.replace(init_std=0.02), 5, 5),
            id="span-untrained",
        ),
        ("multiple_choice", MultipleChoiceModel),
        ("token_classification", lambda c: TokenClassificationModel(c, 3)),
        ("pretraining", PretrainingModel),
    ],
)
def test_every_head_reloads_in_a_process_without_our_code(
    head, build, spiece_model, tmp_path, monkeypatch
):
    """`export_model` compares all signatures in a fresh process."""
    monkeypatch.setattr(exporter, "sys", sys)  # other tests start a fork
    model = build(make_config())
    labels = LABELS if "class" in head or "label" in head else ()
    spec = make_spec(head, labels, max_query_length=8)
    folder = export_model(str(tmp_path), model, spec, spiece_model)
    loaded = SavedModel(folder)
    loaded.warm_up()
    assert os.listdir(tmp_path) == ["1"]
    named = outputs_in_the_guide(head)
    for name in loaded.description["signatures"]["serving_default"]["outputs"]:
        assert any(fnmatch.fnmatch(name, one) for one in named), name


def outputs_in_the_guide(head):
    """What the table of signatures says that a head gives."""
    page = pathlib.Path(__file__).parents[3] / "docs/guides/serving/export.md"
    table = page.read_text().split("## Signatures")[1]
    (row,) = re.findall(
        rf"^\| {head} .*", table.split("\n## ")[0], re.MULTILINE
    )
    return re.findall(r"`([\w*]+)`", row.split("|")[3])


@pytest.mark.slow
@pytest.mark.shared
def test_long_documents_are_read_in_segments(spiece_model, tmp_path):
    """Texts of 1, 2 and 4 segments and more, checked in a fresh process."""
    config = make_config().replace(mem_len=24)
    model = ClassificationModel(config, num_labels=3)
    spec = make_spec("classification", LABELS, segment_recurrence=4)
    folder = export_model(str(tmp_path), model, spec, spiece_model)
    tokenizer = Tokenizer(spiece_model)
    words = "He bought 12 old maps of the river in 1998 . ".split() * 20
    texts = [" ".join(words[:n]) for n in (3, 12, 30, 200)]
    loaded = SavedModel(folder)
    found = loaded({"text": texts})
    assert found["truncated"].tolist() == [False, False, False, True]
    assert found["num_tokens"].tolist()[2:] == [86, 96]
    reader = LongDocument(model, 24)
    for text, logits in zip(texts, found["logits"], strict=True):
        sequence = pair_features.join_segments(
            [tokenizer.encode(text)], 96, tokenizer.symbols
        )
        row = [x[np.newaxis] for x in pad_left(sequence, 96)]
        np.testing.assert_allclose(reader(*row)[0], logits, atol=2e-5)
        alone = loaded({"text": [text]})["logits"][0]
        np.testing.assert_allclose(alone, logits, atol=2e-5)
    described = json.loads(
        (pathlib.Path(folder) / "signature.json").read_text()
    )
    assert (described["max_seq_length"], described["segments"]) == (24, 4)


@pytest.mark.slow
@pytest.mark.shared
def test_errors_leave_nothing_behind(spiece_model, tmp_path, monkeypatch):
    model = ClassificationModel(make_config(999), num_labels=3)
    spec = make_spec("span", max_query_length=21)
    with pytest.raises(
        UserError, match="no room for the paragraph beside a question of 21"
    ):
        export_model(
            str(tmp_path / "a"), SpanModel(make_config()), spec, spiece_model
        )
    spec = make_spec("classification", LABELS)
    with pytest.raises(UserError, match="1000 pieces, the model is of .* 999"):
        export_model(str(tmp_path / "a"), model, spec, spiece_model)
    model = ClassificationModel(make_config(), num_labels=3)
    with pytest.raises(UserError, match="head must be one of"):
        export_model(
            str(tmp_path / "a"), model, make_spec("other"), spiece_model
        )
    bert = BertConfig(
        **dict(vocab_size=1000, d_model=8, n_layer=1, n_head=2, d_inner=12),
        max_position_embeddings=16,
    )
    with pytest.raises(UserError, match="at most 16 .*of this bert"):
        export_model(
            str(tmp_path / "a"),
            ClassificationModel(bert, num_labels=3),
            make_spec("classification", LABELS),
            spiece_model,
        )
    with pytest.raises(UserError, match="--accumulate_options cannot be"):
        spec_with = make_spec("classification", LABELS, accumulate_options=True)
        export_model(str(tmp_path / "a"), model, spec_with, spiece_model)
    with pytest.raises(UserError, match="does not exist"):
        export_model(str(tmp_path / "a"), model, spec, "/nowhere/x.model")
    assert not (tmp_path / "a").exists()

    def fail(*_):
        raise UserError("differs")

    monkeypatch.setattr("serving.export.exporter._check_reload", fail)
    with pytest.raises(UserError, match="differs"):
        export_model(str(tmp_path / "b"), model, spec, spiece_model)
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize(
    ("head", "length", "least", "data"),
    [
        ("classification", 2, 3, {}),
        ("embedding", 2, 3, {}),
        ("pretraining", 1, 3, {}),
        ("regression", 3, 4, {"num_texts": 2}),
        ("multiple_choice", 3, 4, {}),
        ("ranking", 11, 12, {"passage_stride": 0, "max_query_length": 8}),
        ("ranking", 2, 3, {"ranker": "knrm", "max_query_length": 8}),
        ("classification", 1, 3, {"segment_recurrence": 2}),
    ],
)
def test_rows_have_room_for_a_piece(head, length, least, data):
    spec = dataclasses.replace(make_spec(head, **data), max_seq_length=length)
    with pytest.raises(UserError, match=f"must be at least {least} for rows"):
        exporter.export_model("out", None, spec, "spiece.model")
    whole = dataclasses.replace(spec, max_seq_length=least)
    exporter._check_room(whole)


@pytest.mark.parametrize("precision", ["float32", "mixed_bfloat16"])
def test_a_rounding_may_decide_between_equals(tmp_path, precision):
    """An order of answers of equal scores refused the whole export."""

    def order(text):
        rounding = 1e-7 if tf.executing_eagerly() else -1e-7
        scores = tf.constant([[0.5, 0.5 + rounding]])  # [1, 2]
        return {"scores": scores, "order": tf.argsort(scores)}

    texts = {"text": tf.TensorSpec([None], tf.string, "text")}
    signature = Signature(order, texts, {"text": ["a"]}, "an order")
    arrays = exporter._save(
        tf.Module(),
        {"serving_default": signature},
        {},
        {"precision": precision},
        str(tmp_path / "export"),
        "toy",
    )
    path = tmp_path / "requests.npz"
    np.savez(
        path,
        **{
            f"{kind}/{name}": exporter._savable(value)
            for kind, values in arrays.items()
            for name, value in values.items()
        },
    )
    assert reload_check.main(str(tmp_path / "export"), str(path), 2e-5) == 0
    eager = arrays["out"]["serving_default/scores"][0, 1] > 0.5
    assert eager == (precision == "float32")  # its numbers have no graph


def test_a_check_that_is_killed_says_nothing_of_differences(
    tmp_path, monkeypatch
):
    killer = tmp_path / "killer.py"
    killer.write_text("import os; os.kill(os.getpid(), 9)")
    monkeypatch.setattr(exporter, "_RELOAD_CHECK", str(killer))
    with pytest.raises(UserError) as info:
        exporter._check_reload("/x/1", {"in": {}, "out": {}}, "float32")
    assert str(info.value) == (
        "/x/1: nothing was exported: its check was ended by SIGKILL (out of "
        "memory?), its last line: no message"
    )


def test_a_refusal_says_what_differs(tmp_path, monkeypatch):
    """TensorFlow's warnings stood in the place of the differences."""
    script = tmp_path / "differs.py"
    warn = "for i in range(9): print(f'WARNING:absl:{i}', file=sys.stderr)"
    script.write_text(f"import sys\n{warn}\nprint('s/text: off')\nsys.exit(1)")
    monkeypatch.setattr(exporter, "_RELOAD_CHECK", str(script))
    with pytest.raises(UserError, match="exported: s/text: off$"):
        exporter._check_reload("/x/1", {"in": {}, "out": {}}, "float32")
    script.write_text("sys.exit(1)")
    with pytest.raises(UserError, match="NameError: name 'sys' is not def"):
        exporter._check_reload("/x/1", {"in": {}, "out": {}}, "float32")


def test_an_export_in_a_bucket_is_read_there(tmp_path, monkeypatch):
    """A link to it led nowhere: the check failed, after all the work."""
    script = tmp_path / "reader.py"
    script.write_text("import sys\nprint(sys.argv[1])\nsys.exit(1)")
    monkeypatch.setattr(exporter, "_RELOAD_CHECK", str(script))
    with pytest.raises(UserError, match="exported: gs://b/export/.1.tmp-7$"):
        exporter._check_reload(
            "gs://b/export/.1.tmp-7", {"in": {}, "out": {}}, "float32"
        )
    with pytest.raises(UserError, match="for a pattern; rename the folder"):
        exporter._check_reload("gs://b[1]/1", {"in": {}, "out": {}}, "float32")
