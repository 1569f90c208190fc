"""Models by name: a server on loopback, the package's own cache and resume."""

import json
import os
import subprocess
import sys

import pytest

from common.errors import UserError
from common.weights import hub
from tests.helpers import hub_server, layers

pytest.importorskip("huggingface_hub")

# Settings of the package are read when it is imported: a process for each.
SCRIPT = """
import json, sys
from common.weights import hub
from common.errors import UserError
for path, weights in json.load(sys.stdin):
    try:
        print(json.dumps(hub.local(path, weights)))
    except UserError as e:
        print(json.dumps({"error": str(e)}))
"""
WEIGHTS = bytes(range(256)) * 400
# The package keeps what it got in blocks of this size.
BLOCK = 10 << 20
LARGE = bytes(range(256)) * (BLOCK // 256) + WEIGHTS
SHARDS = {"weight_map": {"a": "m-1.safetensors", "b": "m-2.safetensors"}}
MODEL = {
    "config.json": b"{}",
    "model.safetensors": WEIGHTS,
    "pytorch_model.bin": b"never",
    "tf_model.h5": b"never",
    "README.md": b"never",
    "onnx/model.onnx": b"never",
    "tokenizer.json": b"{}",
    "modules.json": b"[]",
    "1_Pooling/config.json": b"{}",
    "config_sentence_transformers.json": b"{}",
}
SHARDED = {
    "config.json": b"{}",
    "model.safetensors.index.json": json.dumps(SHARDS).encode(),
    "m-1.safetensors": b"one",
    "m-2.safetensors": b"two",
    "spiece.model": b"pieces",
}


@pytest.fixture(scope="module")
def server():
    with hub_server.running() as found:
        found.repositories = {
            "org/model": MODEL,
            "org/sharded": SHARDED,
            "org/pickled": {"config.json": b"{}", "pytorch_model.bin": b"p"},
            "org/onnx": {"config.json": b"{}", "model.onnx": b"o"},
            "org/empty": {"README.md": b"r"},
            "org/gated": MODEL,
            "org/large": MODEL | {"model.safetensors": LARGE},
            "google-bert/bert-base-uncased": MODEL,
        }
        found.gated = {"org/gated"}
        yield found


def ask(server, home, *paths, **environment):
    """What `hub.local` gives or says for each path, in a process of its own."""
    server.requests.clear()
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        cwd=layers.ROOT,
        env=os.environ
        | {"HF_ENDPOINT": server.url, "HF_HOME": str(home), "HF_TOKEN": ""}
        | environment,
        input=json.dumps(
            [p if isinstance(p, tuple) else (p, True) for p in paths]
        ),
        capture_output=True,
        text=True,
        check=True,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def files_of(folder):
    return {
        os.path.relpath(os.path.join(where, name), folder)
        for where, _, names in os.walk(folder)
        for name in names
    }


@pytest.mark.long
def test_only_what_is_read_is_fetched_and_says_whose_it_is(server, tmp_path):
    model, tag, bare, sharded, pickled, tokenizer = ask(
        server,
        tmp_path,
        "hf://org/model",
        "hf://org/model@v1",
        "bert-base-uncased",
        "hf://org/sharded@" + server.commit,
        "hf://org/pickled",
        ("hf://org/sharded", False),
    )
    assert files_of(model) == {
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "modules.json",
        "1_Pooling/config.json",
        "config_sentence_transformers.json",
    }
    assert tag == model
    assert len(server.got("model.safetensors")) == 2  # its own and bare's
    assert hub.origin(model) == f"hf://org/model@{server.commit}"
    assert hub.origin(bare) == (
        f"hf://google-bert/bert-base-uncased@{server.commit}"
    )
    assert files_of(sharded) == set(SHARDED)
    assert tokenizer == sharded
    assert files_of(pickled) == {"config.json", "pytorch_model.bin"}
    assert read(model) == WEIGHTS


def test_the_weights_come_last(server, tmp_path):
    """Where they lie, everything else of the model lies, too."""
    ask(server, tmp_path, "hf://org/model")
    fetched = [
        path.split("/resolve/")[1].split("/", 1)[1]
        for method, path, _ in server.requests
        if method == "GET" and "/resolve/" in path
    ]
    assert len(fetched) > 2 and fetched[-1] == "model.safetensors"


def test_what_another_program_left_out_is_fetched(server, tmp_path):
    """It fetched the weights of a commit alone: the tokenizer was missing."""
    name = "hf://org/model@" + server.commit
    (folder,) = ask(server, tmp_path, name)
    for left_out in ("tokenizer.json", "1_Pooling/config.json"):
        os.remove(os.path.join(folder, left_out))
    assert ask(server, tmp_path, name) == [folder]
    assert {"tokenizer.json", "1_Pooling/config.json"} <= files_of(folder)
    assert not server.got("model.safetensors")


def test_what_is_wrong_is_one_line(server, tmp_path):
    asked = {
        "hf://org/none": "has no model hf://org/none, or it is private",
        "hf://org/model@v2": "has no revision 'v2'",
        "hf://org/gated": "is gated",
        "hf://org/onnx": "holds no weights: wanted one of model.safetensors",
        "hf://org/empty": "has no config.json",
        "hf://": "wanted hf://ORG/NAME",
        "hf://org/../model": "wanted hf://ORG/NAME",
    }
    answers = ask(server, tmp_path, *asked)
    for answer, wanted in zip(answers, asked.values(), strict=True):
        assert wanted in answer["error"] and "\n" not in answer["error"]


def read(folder):
    with open(os.path.join(folder, "model.safetensors"), "rb") as f:
        return f.read()


@pytest.mark.long
def test_a_broken_download_goes_on(server, tmp_path):
    server.cut = {"model.safetensors": (1, BLOCK + 9)}
    (folder,) = ask(server, tmp_path / "once", "hf://org/large")
    parts = [part for _, part in server.got("model.safetensors")]
    assert parts == [None, f"bytes={BLOCK}-"] and read(folder) == LARGE


@pytest.mark.long
def test_offline_the_cache_answers_if_all_is_there(server, tmp_path):
    paths = ["hf://org/sharded", "hf://org/model@v1", "hf://org/pickled"]
    online = ask(server, tmp_path, *paths[:2])
    off = {"HF_HUB_OFFLINE": "1"}
    found = ask(server, tmp_path, *paths, **off)
    assert found[:2] == online and not server.requests
    assert "HF_HUB_OFFLINE is set" in found[2]["error"]
    shard = os.path.join(online[0], "m-2.safetensors")
    os.remove(shard)
    (found,) = ask(server, tmp_path, paths[0], **off)
    assert "not all in the cache" in found["error"]
    (again,) = ask(server, tmp_path, paths[0])
    assert again == online[0] and os.path.exists(shard)


@pytest.mark.slow  # here and below the package tries several times
def test_a_download_that_breaks_off_for_good(server, tmp_path):
    """The error is one line; what is whole is not fetched again."""
    server.cut = {"m-2.safetensors": (9, 0)}
    (broken,) = ask(server, tmp_path, "hf://org/sharded")
    assert "give the same command again" in broken["error"]
    server.cut = {}
    (folder,) = ask(server, tmp_path, "hf://org/sharded")
    assert files_of(folder) == set(SHARDED)
    assert not server.got("m-1.safetensors")
    assert len(server.got("m-2.safetensors")) == 1


@pytest.mark.slow
def test_a_hub_that_is_not_reached(server, tmp_path):
    online = ask(server, tmp_path, "hf://org/model")
    nobody = {"HF_ENDPOINT": "http://127.0.0.1:9"}
    assert ask(server, tmp_path, "hf://org/model", **nobody) == online
    (found,) = ask(server, tmp_path / "new", "hf://org/model", **nobody)
    assert "is not reached (http://127.0.0.1:9)" in found["error"]


def test_paths_are_paths(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    os.mkdir("bert-base-uncased")
    for path in ("bert-base-uncased", str(tmp_path), "gs://bucket/x", ""):
        assert hub.local(path) == path and not hub.origin(path)


def test_without_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(UserError, match="requirements-hub.txt"):
        hub.local("albert-base-v2")
