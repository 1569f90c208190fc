"""Every signature of every head on the 150 golden strings.

The SavedModel is compared with the model in memory; the ids that both see are
compared with the offline tokenizer's, cased and uncased.
"""

import json

import numpy as np
import pytest
import tensorflow as tf

from common.contract.task_spec import TaskSpec
from common.vocabularies.text_settings import TextSettings
from data.text.graph.graph_tokenizer import GraphTokenizer
from data.text.tokenizer import Tokenizer
from modeling import (
    ClassificationModel,
    MultipleChoiceModel,
    PretrainingModel,
    SpanModel,
    TokenClassificationModel,
)
from serving.export import export_model
from serving.saved_model import SavedModel
from serving.signatures import build as heads
from serving.signatures.sequence import Context
from tests.serving.export.toy_exports import LABELS, make_config

pytestmark = [pytest.mark.slow, pytest.mark.shared]
LENGTH, SLOTS = 24, 5
MODELS = {
    "classification": lambda c: ClassificationModel(c, 3),
    "multi_label": lambda c: ClassificationModel(c, 3),
    "regression": lambda c: ClassificationModel(c, 1, regression=True),
    "token_classification": lambda c: TokenClassificationModel(c, 3),
    "span": lambda c: SpanModel(c, 3, 2),
    "multiple_choice": MultipleChoiceModel,
    "pretraining": PretrainingModel,
}


def turned(texts, by):
    return texts[by:] + texts[:by]


def raw_request(name, signature, texts):
    """Golden strings for every text of a signature."""
    if name == "fill_mask":
        return {"text": [f"{t} <mask>." for t in texts]}
    if name == "generate_text":  # a text at a time: some are enough
        return signature.example | {"text": texts[:6]}
    request = {}
    for i, key in enumerate(signature.inputs):
        request[key] = turned(texts, i)
        if key == "options":
            options = [turned(texts, k) for k in (3, 5, 7, 11)]
            request[key] = [list(row) for row in zip(*options, strict=True)]
    return request


def ids_request(signature, config, texts, tokenizer):
    """Offline ids for the model's own inputs, right padded."""
    symbols = tokenizer.symbols
    rows = [
        [*tokenizer.encode(t)[: LENGTH - 2], symbols.sep, symbols.cls]
        for t in texts
    ]
    lengths = np.array([len(r) for r in rows], np.int32)
    ids = np.zeros([len(rows), LENGTH], np.int32)
    for i, row in enumerate(rows):
        ids[i, : len(row)] = row
    place = np.arange(LENGTH)
    mask = (place < lengths[:, np.newaxis]).astype(np.int32)
    at_cls = place == lengths[:, np.newaxis] - 1
    inside = (place < lengths[:, np.newaxis] - 2) | at_cls
    rng = np.random.default_rng(0)
    shape = [len(rows), config.n_layer, SLOTS, config.d_model]
    values = {
        "input_ids": ids,
        "segment_ids": np.where(at_cls, 2, 0).astype(np.int32),
        "input_mask": mask,
        "paragraph_mask": inside.astype(np.int32),
        "cls_index": lengths - 1,
        "memory": rng.normal(size=shape).astype(np.float32),
        "memory_length": rng.integers(0, SLOTS + 1, len(rows), np.int32),
    }
    request = {key: values[key] for key in signature.inputs}
    if len(signature.inputs["input_ids"].shape) == 3:
        request = {
            k: np.stack([v, np.roll(v, 1, 0)], 1) for k, v in request.items()
        }
    return request


@pytest.mark.parametrize(
    "head,uncased",
    [(head, False) for head in MODELS]
    + [("classification", True), ("span", True), ("pretraining", True)],
)
def test_every_signature(head, uncased, golden, spiece_model, tmp_path):
    with open(golden / "text" / "encode.json") as f:
        cases = json.load(f)["cases"]
    config = make_config().replace(mem_len=SLOTS)
    if head != "pretraining":
        config = config.replace(mem_len=None)
    model = MODELS[head](config)
    labels = LABELS if "class" in head or "label" in head else ()
    settings = TextSettings(uncased=uncased)
    spec = TaskSpec(
        "tsv",
        head,
        labels,
        LENGTH,
        settings,
        "",
        data_options={"max_query_length": 8, "max_qa_length": 12},
    )
    folder = export_model(str(tmp_path), model, spec, spiece_model, check=False)
    loaded = SavedModel(folder)
    offline = Tokenizer(spiece_model, settings)
    with open(spiece_model, "rb") as f:
        tokenizer = GraphTokenizer(f.read(), settings)
    context = Context(model, spec, tokenizer, offline.symbols)
    texts = [c["text"] for c in cases]
    assert len(texts) == 150
    for name, signature in heads.build(context).items():
        given = texts
        if head == "span":  # a paragraph without text has ties only
            given = [t for t in texts if len(offline.encode(t)) > 2]
        if "input_ids" in signature.inputs:
            request = ids_request(signature, config, given, offline)
        else:
            request = raw_request(name, signature, given)
        found = loaded(request, name)
        wanted = signature.function(
            **{k: tf.constant(v) for k, v in request.items()}
        )
        assert found.keys() == wanted.keys()
        for key, value in wanted.items():
            value = value.numpy()
            label = f"{name}/{key}"
            if value.dtype.kind == "f":
                np.testing.assert_allclose(
                    found[key], value, atol=5e-5, rtol=5e-5, err_msg=label
                )
            else:
                np.testing.assert_array_equal(found[key], value, err_msg=label)
        if name == "tokenize":
            kind = "uncased" if uncased else "cased"
            for row, case in enumerate(cases if given is texts else []):
                count = found["num_pieces"][row]
                ids = found["piece_ids"][row, :count].tolist()
                assert ids == case[kind]["ids"]
