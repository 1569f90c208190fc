"""What blocks take of several sources; nothing held out is trained on."""

import re

import numpy as np
import pytest
import sentencepiece

from common.errors import UserError
from data.pretraining import build_report
from data.pretraining.manifest import PretrainingManifest
from data.pretraining.report import read_records
from data.pretraining.sampling.record_arrays import targets_of
from tests.helpers.runs import builds


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two sources; documents of the second have numbers from 500."""
    path = tmp_path_factory.mktemp("sources")
    builds.write_corpus(path / "corpus.txt")
    second = path / "second.txt"
    builds.write_corpus(second, documents=60, seed=1, longest=5)
    text = re.sub(
        r"document (\d+)",
        lambda m: f"document {500 + int(m[1])}",
        second.read_text(),
    )
    second.write_text(text)
    builds.train_spiece(path, str(path / "corpus.txt"))
    return path


def run(folder, name, weights="", **changes):
    glob = f"one={folder}/corpus.txt,two={folder}/second.txt"
    values = {"input_glob": glob, "source_weights": weights} | changes
    return builds.run(folder, name, **values)


def numbers(manifest, split):
    """How often each document's first line stands in a part that advances."""
    model = f"{manifest.data_dir}/spiece.model"
    tokenizer = sentencepiece.SentencePieceProcessor(model_file=model)
    found = {}
    for file in manifest.select(split, "forward", 0):
        per_lane = manifest.segments_per_lane[split]
        rows = read_records(manifest, file, 0, file.lanes * per_lane)
        ids = []
        for row, meta in zip(rows["input_ids"], rows["meta"], strict=True):
            ids += row[: meta["reuse_tokens"]].tolist()
        text = tokenizer.decode(ids)
        for number in re.findall(r"document ?(\d+) begins", text):
            found[int(number)] = found.get(int(number), 0) + 1
    return found


def test_a_name_changes_no_byte(folder):
    corpus = f"{folder}/corpus.txt"
    plain = builds.run(folder, "plain", input_glob=corpus)
    named = builds.run(folder, "named", input_glob=f"all={corpus}")
    assert [f.sha256 for f in plain.files] == [f.sha256 for f in named.files]
    assert "sources" not in plain.options and plain.sources == {}
    assert "source_weights" not in plain.options
    assert named.sources["all"] == {"weight": 1.0} | named.counts
    assert build_report.source_lines(plain) == []


def test_counts_are_the_sources_sums(folder):
    manifest = run(folder, "sums", "two=2")
    again = PretrainingManifest.load(manifest.data_dir)
    assert again.sources == manifest.sources
    one, two = manifest.sources["one"], manifest.sources["two"]
    assert (one["documents"], two["documents"]) == (40, 120)
    for name, total in manifest.counts.items():
        assert one[name] + two[name] == total
    once = run(folder, "once").sources["two"]
    assert two["train_tokens"] == 2 * once["train_tokens"]
    line = build_report.source_lines(manifest)[1]
    share = two["train_tokens"] / manifest.counts["train_tokens"]
    assert line.startswith("source two, weight 2: 120 documents, left out: ")
    assert line.endswith(f"{two['train_tokens']} train tokens ({share:.1%})")


def test_what_is_held_out_is_read_once_and_never_trained_on(folder):
    manifest = run(folder, "held", "one=0.5,two=2.5", dev_fraction=0.3, seed=11)
    train, dev = numbers(manifest, "train"), numbers(manifest, "dev")
    assert train and dev and not set(train) & set(dev)
    assert set(dev.values()) == {1}
    two = {n: c for n, c in train.items() if n >= 500}
    one = {n: c for n, c in train.items() if n < 500}
    assert set(one.values()) == {1} and set(two.values()) == {2, 3}
    # Documents whose beginning is cut by a segment are not found here.
    assert 8 <= len(one) <= 20 and len(two) > 30
    own = manifest.sources["one"]
    kept = own["train_documents"] + own["dev_documents"]
    assert kept + own["left_out_weight"] == 40
    # The shares of a half lie around it: 20 of 40 and, of the third reading
    # of the second source, about a half.
    assert 10 <= own["left_out_weight"] <= 30
    thirds = sum(c == 3 for c in two.values()) / len(two)
    assert 0.25 < thirds < 0.75


def test_readings_have_draws_of_their_own_and_are_no_duplicates(folder):
    manifest = run(folder, "twice", "one=2", dedup=True, block_megabytes=9.0)
    assert manifest.counts["left_out_duplicate"] == 0
    files = manifest.select("train", "forward", 0)
    assert [f.block for f in files] == [0, 1, 2]
    first, _, again = (read_records(manifest, f, 0, f.lanes * 5) for f in files)
    reuse = manifest.reuse_len  # As and Bs are drawn, too
    same = first["input_ids"][:, :reuse] == again["input_ids"][:, :reuse]
    assert same.all()
    assert not np.array_equal(targets_of(first), targets_of(again))


def test_a_copy_in_a_light_source_takes_no_text_away(folder):
    """Whatever the order of the sources: the whole one keeps its text."""
    corpus = (folder / "corpus.txt").read_text()
    (folder / "copy.txt").write_text(corpus)
    options = {"dedup": True, "source_weights": "light=0.1"}
    found = []
    for name in ("light_first", "light_last"):
        sources = [f"light={folder}/copy.txt", f"whole={folder}/corpus.txt"]
        glob = ",".join(sources if name == "light_first" else sources[::-1])
        manifest = builds.run(folder, name, input_glob=glob, **options)
        own = manifest.sources
        assert own["whole"]["train_documents"] == 40
        assert own["whole"]["left_out_duplicate"] == 0
        assert own["light"]["left_out_duplicate"] == 40
        found.append(manifest.counts["train_tokens"])
    assert found[0] == found[1]
    # Sources that are read whole: the one that comes first, as always.
    options["source_weights"] = "light=2"
    glob = f"whole={folder}/corpus.txt,light={folder}/copy.txt"
    manifest = builds.run(folder, "both", input_glob=glob, **options)
    assert manifest.sources["light"]["left_out_duplicate"] == 80
    assert manifest.sources["whole"]["left_out_duplicate"] == 0


def test_workers_and_other_weights(folder):
    one = run(folder, "w1", "two=1.5")
    two = run(folder, "w2", "two=1.5", num_workers=2)
    assert [f.sha256 for f in one.files] == [f.sha256 for f in two.files]
    assert run(folder, "w1", "two=1.5").files == one.files  # finished
    for weights, found in (("two=2", "two=1.5"), ("", "two=1.5")):
        with pytest.raises(UserError, match=f"source_weights: .*{found}"):
            run(folder, "w1", weights)
    glob = f"{folder}/corpus.txt,{folder}/second.txt"
    with pytest.raises(UserError, match="sources: wanted None"):
        builds.run(folder, "w1", input_glob=glob)
