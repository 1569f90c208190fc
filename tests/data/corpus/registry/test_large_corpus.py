"""The large corpus of small packages: filters, weights, going on, its command."""

import collections
import json
import subprocess
import sys

import pytest

from common.errors import UserError
from data import demo_corpus
from data.corpus import quality
from data.corpus.options import DemoCorpusOptions
from data.corpus.registry import extraction, large_corpus
from tests.conftest import ROOT
from tests.data.corpus.registry import packages


@pytest.fixture
def sources(tmp_path):
    """(table, folder of packages): three sources with 4, 3 and 2 good pages."""
    folder = tmp_path / "links"
    folder.mkdir()
    page = packages.page
    manual = {f"doc/{i}.html": page(packages.story(i)) for i in range(4)}
    manual["doc/short.html"] = page(["One short sentence is here alone."])
    manual["doc/twice.html"] = page(packages.story(0))
    manual["doc/program.c"] = b"int main(void) { return 0; }"
    changed = packages.story(1)[:-1] + ["Only the last sentence is another."]
    guide = {f"doc/{i}.html": page(packages.story(i)) for i in range(10, 13)}
    guide["doc/copy.html"] = page(packages.story(2))
    guide["doc/nearly.html"] = page(changed)
    book = {
        f"b/{i}.py": f'"""{" ".join(packages.story(i))}"""'.encode()
        for i in range(20, 22)
    }
    made = (
        ("manual", packages.debian(folder / "m_1_all.deb", manual), "debian"),
        ("guide", packages.debian(folder / "g_1_all.deb", guide), "debian"),
        ("book", packages.wheel(folder / "b-1-none-any.whl", book), "pypi"),
    )
    weight_of = {"manual": 2, "guide": 0.5, "book": 1.5}
    table = tmp_path / "table.toml"
    table.write_text(
        "\n".join(
            packages.row(name, path, registry, weight=weight_of[name])
            for name, path, registry in made
        )
    )
    return table, folder


def options(made, output, **more):
    table, folder = made
    values = {"source_table": str(table), "find_links": (str(folder),)} | more
    return DemoCorpusOptions(str(output), size="large", **values)


def documents(path):
    return [d for d in path.read_text().split("\n\n") if d]


def test_what_is_left_out_and_how_the_rest_is_mixed(sources, tmp_path):
    output = tmp_path / "out"
    summary = demo_corpus.write_corpus(options(sources, output))
    kept = {
        n: documents(output / "kept" / f"{n}.txt") for n in summary["sources"]
    }
    stories = {
        n: ["\n".join(packages.story(i)) for i in numbers]
        for n, numbers in (
            ("manual", range(4)),
            ("guide", range(10, 13)),
            ("book", (20, 21)),
        )
    }
    assert kept == stories
    counts = collections.Counter(documents(output / "pretrain.txt"))
    assert {counts[d] for d in stories["manual"]} == {2}
    assert {counts[d] for d in stories["guide"]} <= {0, 1}
    assert {counts[d] for d in stories["book"]} <= {1, 2}
    assert counts.keys() <= set(sum(stories.values(), []))
    about = summary["sources"]
    manual, guide = about["manual"], about["guide"]
    assert manual["licence"] == "MIT" and manual["weight"] == 2
    assert manual["extracted"]["members"] == 6
    assert manual["extracted"]["repeated_bytes"] > 1000  # the page twice
    assert manual["extracted"]["short_bytes"] > 30
    assert guide["left_out_characters"]["exact_duplicate"] > 1000
    assert guide["left_out_characters"]["near_duplicate"] > 1000
    assert manual["kept"] == (output / "kept" / "manual.txt").stat().st_size
    assert manual["written"] == 2 * manual["kept"]
    written = sum(a["written"] for a in about.values())
    assert written == (output / "pretrain.txt").stat().st_size
    assert written == summary["files"]["pretrain.txt"]["bytes"]
    assert json.loads((output / "corpus.json").read_text()) == summary


def test_a_stopped_run_goes_on_to_the_same_bytes(
    sources, tmp_path, monkeypatch
):
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    demo_corpus.write_corpus(options(sources, whole))
    monkeypatch.setattr(large_corpus, "_filter", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        demo_corpus.write_corpus(options(sources, stopped))
    assert not (stopped / "corpus.json").exists()
    monkeypatch.undo()
    (stopped / "text" / "guide.json").unlink()
    (stopped / "text" / "book.txt").write_text("half")
    (stopped / "text" / ".book.txt.tmp-99").write_text("of a killed process")
    read = []
    extract = extraction._extract
    monkeypatch.setattr(
        extraction,
        "_extract",
        lambda package, *rest: (
            read.append(package.name) or extract(package, *rest)
        ),
    )
    # Neither folder nor registry is needed again.
    again = options(sources, stopped, find_links=())
    summary = demo_corpus.write_corpus(again)
    assert read == ["guide", "book"]
    for name in ("pretrain.txt", "corpus.json"):
        assert (stopped / name).read_bytes() == (whole / name).read_bytes()
    assert not list((stopped / "text").glob("*.tmp-*"))
    assert demo_corpus.write_corpus(again) == summary


def test_a_limit_and_another_choice_of_sources(sources, tmp_path):
    small = options(
        sources, tmp_path / "a", max_megabytes=0.005, sources=("manual", "book")
    )
    summary = demo_corpus.write_corpus(small)
    assert set(summary["sources"]) == {"manual", "book"}
    assert 2000 < summary["files"]["pretrain.txt"]["bytes"] <= 5000
    with pytest.raises(UserError, match="corpus of other settings"):
        demo_corpus.write_corpus(options(sources, tmp_path / "a"))
    with pytest.raises(UserError, match="corpus of other settings.*size"):
        demo_corpus.write_corpus(DemoCorpusOptions(str(tmp_path / "a")))


def test_one_document_at_least_or_a_line(sources, tmp_path):
    """Both left an empty text that counted as finished."""
    small = options(sources, tmp_path / "a", max_megabytes=0.0001)
    summary = demo_corpus.write_corpus(small)
    (document,) = documents(tmp_path / "a" / "pretrain.txt")
    assert summary["files"]["pretrain.txt"]["bytes"] == len(document) + 2
    table, folder = sources
    short = {"doc/1.html": packages.page(["One short sentence is alone."] * 2)}
    path = packages.debian(folder / "s_1_all.deb", short)
    table.write_text(packages.row("short", path, "debian", weight=1))
    with pytest.raises(UserError, match="no document of short is left by"):
        demo_corpus.write_corpus(options(sources, tmp_path / "b"))
    assert not (tmp_path / "b" / "corpus.json").exists()


@pytest.mark.parametrize("missing", ["py3langid", "datasketch"])
def test_a_missing_library_is_said_before_anything_is_fetched(
    sources, tmp_path, monkeypatch, missing
):
    monkeypatch.setitem(sys.modules, missing, None)
    quality._identifier.cache_clear()
    fetched = []
    monkeypatch.setattr(
        large_corpus.downloads, "fetch", lambda *rest: fetched.append(rest)
    )
    with pytest.raises(UserError, match="requirements-corpus.txt"):
        demo_corpus.write_corpus(options(sources, tmp_path / "out"))
    assert not fetched


@pytest.mark.long
def test_the_command_lists_sources_and_licences(sources, tmp_path):
    table, folder = sources
    with packages.served(folder) as (address, _):
        done = subprocess.run(
            [
                *(sys.executable, "-m", "data.demo_corpus", "--size=large"),
                *(f"--output_dir={tmp_path / 'out'}", "--num_workers=2"),
                *(f"--source_table={table}", f"--find_links={address}"),
            ],
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines()]
    assert [r[0] for r in rows[1:5]] == ["manual", "guide", "book", "all"]
    assert all(r[-1] == "MIT" for r in rows[1:4])
    assert "left out, near_duplicate: 1 documents" in done.stdout
    demo_corpus.write_corpus(options(sources, tmp_path / "one"))
    texts = [
        (tmp_path / n / "pretrain.txt").read_bytes() for n in ("out", "one")
    ]
    assert texts[0] == texts[1], "one process and two give other bytes"
