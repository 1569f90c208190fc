"""The benchmark of tokenizers on vocabularies trained here."""

import types

import pytest

from tests.helpers import languages

pytest.importorskip("tokenizers")


@pytest.mark.long
def test_every_kind_has_the_ids_of_the_package(tmp_path, monkeypatch):
    from benchmarks.compare import tokenizers as benchmark

    sizes = {"wordpiece": 900, "bpe": 500, "unigram": 700}
    monkeypatch.setattr(benchmark, "SIZES", sizes)
    monkeypatch.setattr(benchmark, "FLAGS", types.SimpleNamespace(rounds=1))
    lines = [line for n in languages.LANGUAGES for line in languages.lines(n)]
    lines += ["the river was wide, 2,000 boats don't sink"] * 20
    paths = benchmark.train(str(tmp_path), lines * 4)
    rows = [benchmark.measure(path, lines) for path in paths]
    names = ("wordpiece", "bpe", "albert", "xlnet")
    for name, row in zip(names, rows, strict=True):
        assert row["vocabulary"].startswith(name)
        assert row["texts"] == len(lines) and row["tokens"] > len(lines)
        assert row["tokens_per_cpu_second"].keys() == {
            "ours",
            "package",
            "encode",
            "spans",
        }
    # XLNet's rules have no exact form there for all of these languages.
    assert [row["texts_with_other_ids"] for row in rows[:3]] == [0, 0, 0]
