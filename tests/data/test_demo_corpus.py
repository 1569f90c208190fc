"""The embedded corpus: what is in it, and that it is always the same."""

import csv
import hashlib
import json
import subprocess
import sys

import pytest
from absl import flags

from common.errors import UserError
from data import demo_corpus
from data.corpus.options import DemoCorpusOptions


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    options = DemoCorpusOptions(str(folder), max_megabytes=4.0)
    return folder, demo_corpus.write_corpus(options)


@pytest.mark.slow
def test_size_format_and_checksums(corpus):
    folder, summary = corpus
    text = (folder / "pretrain.txt").read_text()
    assert 3.0e6 < len(text.encode()) <= 4.0e6
    documents = text.rstrip("\n").split("\n\n")
    assert len(documents) > 200
    sentences = [s for d in documents for s in d.split("\n")]
    assert len({s.casefold() for s in sentences}) == len(sentences)
    assert json.loads((folder / "corpus.json").read_text()) == summary
    for name, about in summary["files"].items():
        digest = hashlib.sha256((folder / name).read_bytes()).hexdigest()
        assert digest == about["sha256"]


@pytest.mark.slow
def test_splits_share_no_row_and_dev_text_is_not_pretrained_on(corpus):
    folder, _ = corpus
    rows = {}
    for split in ("train", "dev"):
        with open(folder / "classification" / f"{split}.tsv") as f:
            found = list(
                csv.DictReader(f, delimiter="\t", quoting=csv.QUOTE_NONE)
            )
        assert {r["label"] for r in found} == {
            *demo_corpus.PACKAGES,
            "python",
        }
        rows[split] = {r["text"] for r in found}
    assert not rows["train"] & rows["dev"]
    text = (folder / "pretrain.txt").read_text()
    lines = set(text.split("\n"))
    firsts = {t.split(". ")[0] + "." for t in rows["dev"]}
    assert not firsts & lines


@pytest.mark.slow
def test_same_versions_give_the_same_bytes_in_another_process(corpus, tmp_path):
    _, summary = corpus
    subprocess.run(
        [
            sys.executable,
            "-m",
            "data.demo_corpus",
            f"--output_dir={tmp_path}",
            "--max_megabytes=4",
        ],
        check=True,
        capture_output=True,
        env={"PYTHONHASHSEED": "7", "PATH": ""},
    )
    assert json.loads((tmp_path / "corpus.json").read_text()) == summary


@pytest.mark.slow
def test_finished_corpus_is_kept_repaired_or_refused(corpus, capsys):
    folder, summary = corpus
    path = folder / "pretrain.txt"
    before = path.stat().st_mtime_ns
    options = DemoCorpusOptions(str(folder), max_megabytes=4.0)
    assert demo_corpus.write_corpus(options) == summary
    assert "nothing to do" in capsys.readouterr().out
    assert path.stat().st_mtime_ns == before
    with pytest.raises(UserError, match="max_megabytes.*5.0.*found.*4.0"):
        demo_corpus.write_corpus(DemoCorpusOptions(str(folder), 5.0))
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    assert demo_corpus.finished(options) is None


@pytest.mark.parametrize(
    "size, more", [("small", " --vocab_size=8000"), ("large", "")]
)
def test_the_last_line_learns_a_vocabulary(monkeypatch, capsys, size, more):
    options = DemoCorpusOptions("my out", size=size)
    monkeypatch.setattr(demo_corpus.flag_values, "build", lambda _: options)
    monkeypatch.setattr(demo_corpus, "write_corpus", lambda _: {"files": {}})
    monkeypatch.setattr(demo_corpus.large_corpus, "lines", lambda _: [])
    demo_corpus.main()
    assert capsys.readouterr().out.splitlines()[-1] == (
        "next: python -m data.train_sentencepiece "
        "'--input_glob=my out/pretrain.txt' '--model_prefix=my out/spiece'"
        f"{more}"
    )


def test_a_corpus_in_a_bucket_leaves_nothing_here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(demo_corpus, "PACKAGES", {})
    monkeypatch.setattr(demo_corpus, "STANDARD_LIBRARY", ("json",))
    options = DemoCorpusOptions("ram:/" + str(tmp_path), max_megabytes=0.01)
    summary = demo_corpus.write_corpus(options)
    assert len(summary["files"]) == 3 and not list(tmp_path.iterdir())
    assert demo_corpus.finished(options) == summary
    with pytest.raises(UserError, match="large works in a folder of this mac"):
        DemoCorpusOptions(options.output_dir, size="large")


def test_a_large_corpus_has_no_classes(monkeypatch):
    values = flags.FlagValues()
    flags.DEFINE_integer("examples_per_class", 600, "", flag_values=values)
    values(["command", "--examples_per_class=9"])
    options = DemoCorpusOptions("out", size="large")
    monkeypatch.setattr(demo_corpus.flag_values, "FLAGS", values)
    monkeypatch.setattr(demo_corpus.flag_values, "build", lambda _: options)
    wanted = "--examples_per_class is of --size=small, found large: leave it"
    with pytest.raises(UserError, match=wanted):
        demo_corpus.main()


def test_a_row_that_names_its_package_is_left_out():
    long = "Computes something useful for everyone who reads all of this."
    assert demo_corpus.example_text([long]) == long
    assert demo_corpus.example_text([long, "Like numpy does it."]) == ""
    assert demo_corpus.example_text(["Too short."]) == ""


def test_module_split_is_stable_and_about_the_wanted_share():
    names = [f"package.module_{i}" for i in range(2000)]
    share = sum(map(demo_corpus.module_is_dev, names)) / len(names)
    assert abs(share - demo_corpus.DEV_PERCENT / 100) < 0.03
