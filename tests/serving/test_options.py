"""Options of predictions, exports and the server: what they refuse."""

import dataclasses
import math
import urllib.parse

import pytest

from common.errors import UserError
from serving.options import (
    EnsembleOptions,
    ExportOptions,
    PredictOptions,
    ServerOptions,
    check_model_name,
)

BOUNDS = [
    ("max_body_bytes", 0),
    ("max_chars", 0),
    ("max_instances", 0),
    ("max_tokens", -1),
    ("max_cost", 0),
    ("max_batch_size", 0),
    ("max_wait_ms", -0.5),
    ("max_queue", 0),
    ("max_connections", 0),
    ("max_connections_per_address", 0),
    ("max_requests_per_address", -1.0),
    ("timeout_s", 0.0),
    ("read_timeout_s", 0.0),
    ("poll_s", -1.0),
]


@pytest.mark.parametrize(("name", "value"), BOUNDS)
def test_a_server_names_the_flag_that_is_out_of_bounds(name, value):
    for wrong in (value, math.nan, True):
        with pytest.raises(UserError, match=f"^--{name}\\b"):
            ServerOptions(**{name: wrong})


def test_every_number_of_a_server_has_a_bound():
    numbers = {
        field.name
        for field in dataclasses.fields(ServerOptions)
        if field.type in (int, float)
    }
    # No flag sets it.
    assert numbers - {name for name, _ in BOUNDS} == {"max_numbers"}


def test_the_least_values_of_a_server_are_taken():
    least = {name: 1 for name, value in BOUNDS if value == 0}
    least |= {name: 0 for name, value in BOUNDS if value < 0}
    found = dataclasses.asdict(ServerOptions(**least))
    assert {name: found[name] for name in least} == least


def test_a_key_needs_its_certificate():
    with pytest.raises(UserError, match="^--ssl_keyfile .* --ssl_certfile$"):
        ServerOptions(ssl_keyfile="key.pem")
    made = ServerOptions(ssl_certfile="cert.pem", ssl_keyfile="key.pem")
    assert made.ssl_keyfile == "key.pem"


@pytest.mark.parametrize("name", ["bert", "XLNet-base.v1_2", "7", "a" * 100])
def test_a_name_of_a_model_stands_in_a_url_as_it_is(name):
    assert ServerOptions(model_name=name).model_name == name
    assert urllib.parse.quote(name, safe="") == name


@pytest.mark.parametrize(
    "name",
    ["", "a" * 101, "a/b", "a b", "a:predict", "a?b", "caf\u00e9", "a\n"],
)
def test_what_cannot_stand_in_a_url_is_no_name(name):
    with pytest.raises(
        UserError, match="^signature.json: wanted 1 to 100"
    ) as e:
        check_model_name(name, "signature.json")
    message = str(e.value)
    assert "give --model_name" in message and "\n" not in message
    assert len(message) < 200
    if name:  # else the name of the encoder is taken
        with pytest.raises(UserError, match="^--model_name: wanted"):
            ServerOptions(model_name=name)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({}, "give one of --text and --input_file"),
        (
            {"text": ("a",), "input_file": "in.txt"},
            "give one of --text and --input_file",
        ),
        ({"text": ("a",), "batch_size": 0}, "--predict_batch_size"),
        ({"text": ("a",), "max_chars": 0}, "--max_chars"),
    ],
)
def test_predictions_need_rows_of_one_source(change, message):
    with pytest.raises(UserError, match=f"^{message}"):
        PredictOptions("model", **change)


@pytest.mark.parametrize(
    ("members", "weights", "message"),
    [
        ((), (), "--ensemble is empty"),
        (("a", "b", "a"), (), "--ensemble names a folder twice: a, b, a"),
        (("a", "b"), (1.0,), "--ensemble_weights: wanted one per folder .2."),
        (("a", "b"), (1.0, 0.0), "--ensemble_weights must be positive"),
        (("a", "b"), (1.0, math.nan), "--ensemble_weights must be positive"),
    ],
)
def test_an_ensemble_has_different_members_and_positive_weights(
    members, weights, message
):
    rows = PredictOptions("", text=("a",))
    with pytest.raises(UserError, match=f"^{message}"):
        EnsembleOptions(rows, members, weights)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pooling": "mean"}, "--pooling is of --task=embedding, found none"),
        (
            {"task": "lm", "pooling": "mean"},
            "--pooling is of --task=embedding, found lm",
        ),
        ({"task": "embedding", "pooling": "sum"}, "--pooling"),
        ({"precision": "float64"}, "--precision"),
        ({"task": "lm", "precision": "mixed_bfloat16"}, "--precision is for"),
        (
            {"task": "pretraining", "precision": "mixed_bfloat16"},
            "--precision is for fine-tuned models",
        ),
        ({"max_seq_length": -1}, "--max_seq_length"),
    ],
)
def test_exports_refuse_what_their_task_lacks(change, message):
    with pytest.raises(UserError, match=f"^{message}"):
        ExportOptions("model", **change)


def test_exports_take_what_their_task_has():
    made = ExportOptions("model", "embedding", pooling="last")
    assert made.pooling == "last"
    for task in ("", "embedding"):
        made = ExportOptions("model", task, precision="mixed_bfloat16")
        assert made.precision == "mixed_bfloat16"


@pytest.mark.parametrize(
    "files",
    [{"input_file": "gs://b/a"}, {"text": ("a",), "output_file": "gs://b/a"}],
)
def test_rows_and_answers_are_files_of_this_machine(files):
    """The input "does not exist"; the output had no folder, at the end."""
    with pytest.raises(UserError, match="=gs://b/a: wanted a file of this"):
        PredictOptions("gs://b/model", **files)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("a.jsonl.gz", "written plain: give a name without .gz"),
        ("a.JSONL.XZ", "written plain: give a name without .xz"),
        ("a.csv", "a JSON object per line, no table: .* ends in .jsonl"),
        ("a.TSV", "a JSON object per line, no table"),
    ],
)
def test_answers_are_not_named_as_what_they_are_not(name, words):
    with pytest.raises(UserError, match=words):
        PredictOptions("model", ("text",), output_file=name)
    for right in ("", "a.jsonl", "a.json", "answers"):
        PredictOptions("model", ("text",), output_file=right)
