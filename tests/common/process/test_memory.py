"""What limits memory: the process, its groups, the machine."""

import json
import resource
import subprocess
import sys
import tracemalloc

import pytest

from common import files
from common.errors import UserError
from common.process import memory
from tests.conftest import ROOT


def test_a_limit_of_the_process_counts(monkeypatch):
    used = memory._fields("/proc/self/status")["VmSize"]
    limits = {resource.RLIMIT_AS: used + 1000}

    def getrlimit(kind):
        return limits.get(kind, resource.RLIM_INFINITY), 0

    monkeypatch.setattr(resource, "getrlimit", getrlimit)
    left, name = memory.room()
    assert left <= 1000 and name == "ulimit -v"
    with pytest.raises(UserError, match="ulimit -v leaves 0.0 GiB"):
        memory.check_libraries()


@pytest.mark.parametrize("limit, left", [("5000", 3700), ("max", None)])
def test_a_limit_of_the_group_counts(tmp_path, limit, left):
    (tmp_path / "memory.max").write_text(limit + "\n")
    (tmp_path / "memory.current").write_text("2000\n")
    (tmp_path / "memory.stat").write_text("anon 9\ninactive_file 700\n")
    found = memory._left(str(tmp_path), "memory.max", "memory.current")
    assert found == left
    assert memory._left(str(tmp_path / "x"), "a", "b") is None


def _room(monkeypatch, left):
    monkeypatch.setattr(memory, "room", lambda: (left, "the machine"))


# What Python makes most of, for its size.
@pytest.mark.parametrize(
    "item",
    [
        "{}",
        "[[]]",
        "[1.5]",
        '{"":0}',
        '"ab"',
        "1.5",
        '"\\u3042"',
        '"\U0001f600a"',
    ],
)
def test_json_is_estimated_before_it_is_parsed(monkeypatch, item):
    text = "[" + ",".join([item] * 10_000) + "]"
    tracemalloc.start()
    value = json.loads(text)
    found = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert len(value) == 10_000
    monkeypatch.setattr(memory, "_SMALL_JSON", 10)
    for content in (text, text.encode()):
        _room(monkeypatch, found)
        with pytest.raises(UserError, match="memory: a.json: its JSON may bec"):
            memory.check_json(content, "a.json")
        _room(monkeypatch, 10 * found)
        memory.check_json(content, "a.json")
    _room(monkeypatch, 0)
    memory.check_json("[]", "a.json")


def test_readers_of_json_ask_for_room(monkeypatch, tmp_path):
    monkeypatch.setattr(memory, "_SMALL_JSON", 10)
    _room(monkeypatch, 0)
    path = tmp_path / "a.json"
    path.write_text('{"a": [[], []]}')
    with pytest.raises(UserError, match="a.json: its JSON may become"):
        files.read_json_object(str(path), "")


@pytest.mark.long
@pytest.mark.parametrize(
    "command",
    [
        "serving.predict --saved_model_dir={0} --text=a",
        "serving.serve --saved_model_dir={0} --port=0",
        "modeling.convert_checkpoint --input={0} --output={0}/y "
        "--from_format=hf --to_format=native",
        "run_pretrain --data_dir={0} --model_dir={0}/y --mode=train",
    ],
)
def test_a_limit_below_the_need_is_one_line(command, tmp_path):
    """Without the check they end by SIGABRT or SIGSEGV, and say nothing."""

    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (3 << 29, 3 << 29))

    found = subprocess.run(
        [sys.executable, "-m", *command.format(tmp_path).split()],
        cwd=ROOT,
        preexec_fn=limit,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert found.returncode == 1
    (line,) = found.stderr.splitlines()
    assert line.startswith("error: out of memory: TensorFlow needs 2.6 GiB")
