"""Which systems and sizes the suites compare."""

import importlib.machinery
import importlib.util
import sys

import numpy as np
import pytest

from benchmarks.compare import __main__ as command
from benchmarks.compare import (
    extra_suites,
    harness,
    lengths,
    selection,
    suites,
)
from common.errors import UserError
from flags.bench_flags import SUITES, BenchOptions


def test_every_suite_exists():
    assert {*suites.SUITES, *extra_suites.SUITES} == set(SUITES)


@pytest.mark.parametrize("name", list(suites.SUITES))
def test_ours_is_the_reference_and_names_are_unique(name):
    for quick in (True, False):
        options = BenchOptions(quick=quick)
        for workload, systems in suites.SUITES[name](options):
            assert systems[0].name == "ours"
            names = [s.name for s in systems]
            assert len(set(names)) == len(names)
            assert name == "small" or workload.layers <= options.layers


def test_torch_joins_only_with_an_environment(tmp_path):
    python = tmp_path / "python"
    python.touch(mode=0o755)
    assert not suites.torch_systems(BenchOptions())
    options = BenchOptions(torch_python=str(python), quick=True)
    systems = suites.torch_systems(options)
    assert {s.python for s in systems} == {str(python)}
    assert [s.options.get("precision") for s in systems] == [
        None,
        "mixed_bfloat16",
    ]
    assert not list(suites.onnxruntime(BenchOptions()))
    for _, systems in suites.onnxruntime(options):
        assert [bool(s.python) for s in systems] == [False] * 3 + [True] * 2


def test_weights_in_bfloat16_are_for_inference_alone(tmp_path):
    python = tmp_path / "python"
    python.touch(mode=0o755)
    options = BenchOptions(torch_python=str(python), quick=True)
    for name in ("inference", "encoders", "onnxruntime", "finetune"):
        for workload, systems in suites.SUITES[name](options):
            stored = {
                s.module
                for s in systems
                if s.options.get("precision") == "bfloat16"
            }
            wanted = {suites.OURS, suites.TORCH}
            if name == "onnxruntime":
                wanted = {suites.OURS}
            assert stored == (wanted if workload.kind == "inference" else set())


@pytest.mark.parametrize(
    "name", ["pretrain", "finetune", "inference", "encoders", "language_model"]
)
def test_every_peer_is_there_in_our_precisions(name, tmp_path):
    python = tmp_path / "python"
    python.touch(mode=0o755)
    options = BenchOptions(torch_python=str(python), quick=True)
    for _, systems in suites.SUITES[name](options):
        reduced = {s.module for s in systems if s.options.get("precision")}
        assert reduced == {s.module for s in systems} - {suites.LM_KERAS}


def test_the_peak_is_the_median_of_products_beside_the_systems(monkeypatch):
    seen = []

    def compare(systems, workload, rounds, profiled):
        assert not profiled
        seen.append([s.name for s in systems])
        found = [harness.Result(s.name) for s in systems]
        found[0].seconds = found[0].cpu_seconds = [1.0, 3.0, 2.0]
        found[0].losses = [1.0]
        found[-2].losses, found[-1].losses = [90.0, 40.0, 50.0], [200.0]
        return found

    monkeypatch.setattr(harness, "compare", compare)
    options = BenchOptions(quick=True, systems=("ours",))
    ((_, rows),) = suites.run("pretrain", options)
    assert seen == [["ours", "float32", "bfloat16"]]
    (row,) = rows
    assert row["of_peak"] == pytest.approx(row["gflop"] / 2.0 / 50.0)
    assert "float32 50, bfloat16 200" in harness.about(rows)


def test_a_suite_that_needs_an_environment_says_so(capsys):
    assert not command.run(BenchOptions(suites=("onnxruntime",)))
    assert "onnxruntime\nneeds --torch_python" in capsys.readouterr().out


def test_another_version_runs_in_its_own_folder(tmp_path):
    child = tmp_path / "benchmarks" / "child.py"
    child.parent.mkdir()
    (child.parent / "__init__.py").touch()
    child.write_text(
        "import json, os\n"
        "print(json.dumps({'event': 'ready', 'at': os.getcwd()}), flush=True)\n"
        "for line in iter(input, 'stop'):\n"
        "    step = {'event': 'step', 'seconds': 1, 'cpu_seconds': 1}\n"
        "    print(json.dumps(step | {'loss': 2}), flush=True)\n"
        "print(json.dumps({'event': 'done', 'peak_mb': 3}), flush=True)\n"
    )
    options = BenchOptions(quick=True, checkout=str(tmp_path))
    ((workload, systems),) = suites.pretrain(options)
    added = selection.among(systems, suites.OURS, options)[len(systems) :]
    assert [s.name for s in added] == [
        "ours at checkout",
        "ours bfloat16 at checkout",
    ]
    (result,) = harness.compare(added[:1], workload, 2)
    assert result.ready["at"] == str(tmp_path)
    assert result.losses == [2, 2] and result.error is None
    assert selection.among(systems, suites.OURS, BenchOptions()) == systems


@pytest.mark.parametrize(
    "change",
    [
        {"suites": ("sing",)},
        {"rounds": 0},
        {"torch_python": "/no/python"},
        {"checkout": "/no/such/folder"},
    ],
)
def test_options_are_checked(change):
    with pytest.raises(UserError):
        BenchOptions(**change)


def test_lengths_have_the_medians_they_claim():
    for name, (median, _) in lengths.DISTRIBUTIONS.items():
        drawn = lengths.draw(name, 4000)
        assert drawn.min() >= lengths.SHORTEST
        assert abs(np.median(drawn) / median - 1) < 0.1


def test_a_failing_command_is_a_row(monkeypatch):
    ((_, text, rows),) = extra_suites._apart("benchmarks.no_such_module", [])
    assert text.startswith("failed") and rows[0]["error"]


def test_sentences_stand_beside_their_own_program(monkeypatch):
    """With toys for both: the rows, the ratio and what is wanted first."""
    options = BenchOptions(quick=True, rounds=3)
    ((_, text, rows),) = extra_suites.sentences(options)
    assert text.startswith("needs requirements-released.txt") and not rows

    monkeypatch.setattr(extra_suites, "SENTENCES", "benchmarks.systems.toy")
    monkeypatch.setattr(extra_suites, "PEER", "benchmarks.systems.toy")
    found = importlib.machinery.ModuleSpec("m", None, origin="m/__init__.py")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: found)
    options = BenchOptions(quick=True, rounds=3, torch_python=sys.executable)
    ((title, text, rows),) = extra_suites.sentences(options)
    assert title == "sentences: 100 texts, B 32"
    assert [r["system"] for r in rows] == ["ours", "sentence-transformers"]
    assert rows[0]["x_first"] == [1, 1, 1]
    assert rows[1]["s_per_1000_texts"] > 0 and rows[1]["peak_mb"] > 0
    assert all(len(line) > 20 for line in extra_suites._page_lines(50))


def test_the_file_has_what_ended_before_a_failure(monkeypatch, tmp_path):
    def fails(options):
        yield "a title", "a table", [{"system": "peer"}]
        raise UserError("this machine has no memory left")

    found = [("a title", "a table", [{"system": "ours"}])]
    monkeypatch.setitem(extra_suites.SUITES, "parity", lambda _: found)
    monkeypatch.setitem(extra_suites.SUITES, "generation", fails)
    path = tmp_path / "rows.jsonl"
    options = BenchOptions(
        suites=("parity", "generation"), json_output=str(path)
    )
    with pytest.raises(UserError, match="no memory left"):
        command.run(options)
    wanted = ['{"system": "ours"}', '{"system": "peer"}']
    assert path.read_text().splitlines() == wanted
