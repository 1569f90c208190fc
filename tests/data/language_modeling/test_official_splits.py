"""The original's ids of every official set."""

import gzip
import json
import shutil

import pytest

from common.errors import UserError
from data.language_modeling.options import SPLITS
from tests.data.language_modeling.stream_builds import run, stream


@pytest.fixture(scope="module")
def pipeline(golden):
    with gzip.open(golden / "txl" / "data" / "pipeline.json.gz") as f:
        return json.load(f)


def official(folder, case, dataset) -> str:
    """Writes the files of a golden case as the official layout has them."""
    for name, text in case["files"].items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    if dataset in ("enwik8", "text8"):
        (folder / dataset).write_bytes(case["raw"].encode())
    if dataset == "lm1b":
        root = folder / "1-billion-word-language-modeling-benchmark-r13output"
        held = root / "heldout-monolingual.tokenized.shuffled"
        held.mkdir()
        shutil.copy(
            folder / "valid.txt", held / "news.en.heldout-00000-of-00050"
        )
    return str(folder)


@pytest.mark.parametrize(
    "name,dataset",
    [
        ("wt103", "wikitext-103"),
        ("wt2", "wikitext-2"),
        ("ptb", "ptb"),
        ("wt2_words_of_valid_and_test", "wikitext-2"),
        ("enwik8", "enwik8"),
        ("text8", "text8"),
        ("lm1b", "lm1b"),
    ],
)
def test_ids_are_the_originals(pipeline, tmp_path, name, dataset):
    case = pipeline[name]
    changes = {
        "dataset": dataset,
        "data_path": official(tmp_path, case, dataset),
    }
    if "cuts" in case:
        changes["held_out_size"] = case["cuts"][1] - case["cuts"][0]
    manifest = run(tmp_path, **changes)
    vocabulary = manifest.vocabulary()
    wanted = case["idx2sym"]
    if dataset == "text8":
        wanted = [s.replace("_", " ") for s in wanted]
    assert list(vocabulary.symbols) == wanted
    assert stream(manifest, "valid") == case["valid"]
    assert stream(manifest, "test") == case["test"]
    if dataset != "lm1b":
        assert stream(manifest, "train") == case["train"]
        return
    # Each shard is shuffled by the original; ours keeps the order of the files.
    sentences = [s for shard in case["encoded_train"] for s in shard]
    assert stream(manifest, "train") == sum(sentences, [])
    assert vocabulary.unk_id == case["unk_idx"]


def test_newlines_of_enwik8_are_kept_on_demand(pipeline, tmp_path):
    case = pipeline["enwik8"]
    data = case["raw"].encode()
    changes = {
        "dataset": "enwik8",
        "data_path": official(tmp_path, case, "enwik8"),
        "held_out_size": case["cuts"][1] - case["cuts"][0],
    }
    dropped = run(tmp_path, "dropped", **changes)
    kept = run(tmp_path, "kept", line_end="newline", **changes)
    assert kept.vocab_size == dropped.vocab_size + 1 == len(set(data))
    tokens = sum((stream(kept, s) for s in SPLITS), [])
    assert len(tokens) == len(data)
    assert kept.vocabulary().decode(tokens) == case["raw"]
    for split in SPLITS:  # bits per byte are over all bytes, both ways
        assert kept.counts[split]["bytes"] == dropped.counts[split]["bytes"]
    total = sum(dropped.split_counts(s).bytes for s in SPLITS)
    assert total == len(data)


def test_marks_around_and_between_sentences(pipeline, tmp_path):
    changes = {
        "dataset": "lm1b",
        "data_path": official(tmp_path, pipeline["lm1b"], "lm1b"),
    }
    twice = run(tmp_path, "twice", **changes)
    once = run(tmp_path, "once", line_end="mark", **changes)
    mark = twice.vocabulary().eos_id
    for split in SPLITS:
        both, single = stream(twice, split), stream(once, split)
        lines = twice.split_counts(split).lines
        pairs = sum(
            a == b == mark for a, b in zip(both, both[1:], strict=False)
        )
        assert len(both) == len(single) + lines - 1
        assert twice.mark_pairs(split) == pairs >= lines - 1
        assert single[0] == single[-1] == mark
        assert single.count(mark) == lines + 1


@pytest.mark.parametrize("dataset", ["enwik8", "text8"])
def test_a_word_that_a_block_cuts_counts_once(tmp_path, dataset):
    text = " ".join(f"word{i}"[: 2 + i % 6] for i in range(170))
    (tmp_path / dataset).write_text(text)
    changes = {
        "dataset": dataset,
        "data_path": str(tmp_path),
        "held_out_size": 230,
        "block_megabytes": 3.7e-5,
    }
    manifest = run(tmp_path, **changes)
    parts = {
        "train": text[:-460],
        "valid": text[-460:-230],
        "test": text[-230:],
    }
    assert len(manifest.files) > 15
    for split, part in parts.items():
        assert manifest.counts[split]["words"] == len(part.split())


@pytest.mark.parametrize("ending", [".gz", ".ZIP"])
@pytest.mark.parametrize("dataset", ["enwik8", "text8"])
def test_a_packed_file_is_not_cut_by_its_packed_size(tmp_path, dataset, ending):
    path = tmp_path / f"{dataset}{ending}"
    path.write_bytes(gzip.compress(b"some words " * 900))
    with pytest.raises(UserError, match=f"wanted {dataset} itself.*unpack it"):
        run(tmp_path, dataset=dataset, data_path=str(path), held_out_size=10)
