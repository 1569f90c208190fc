"""Streams: the original's ids, any number of workers, what is refused."""

import gzip
import json
import os
import pathlib
import shutil
import types

import numpy as np
import pytest

from common.errors import UserError
from data.corpus import documents as corpus
from data.language_modeling import block_builder
from data.language_modeling.manifest import SplitCounts, StreamManifest
from data.language_modeling.options import SPLITS, LMDataOptions
from data.language_modeling.stream import TokenStream
from tests.data.language_modeling.stream_builds import TEXT, run
from tests.data.records.built_folders import assert_equal_builds


@pytest.fixture(scope="module")
def pipeline(golden):
    with gzip.open(golden / "txl" / "data" / "pipeline.json.gz") as f:
        return json.load(f)


def stream(manifest, split) -> list[int]:
    tokens = TokenStream(manifest, split)
    return tokens.read(0, len(tokens)).tolist()


# --- The original's ids -------------------------------------------------------


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


# --- The factory --------------------------------------------------------------


def test_workers_blocks_and_formats_give_the_same_stream(tmp_path):
    one = run(tmp_path, "one", block_megabytes=0.0001)
    two = run(tmp_path, "two", block_megabytes=0.0001, num_workers=2)
    assert len(one.files) > 4
    assert_equal_builds(one.data_dir, two.data_dir)
    assert one.to_json() == two.to_json()
    whole = run(tmp_path, "whole")
    for split in SPLITS:
        assert stream(one, split) == stream(whole, split)
    packed = tmp_path / "packed.txt.gz"
    packed.write_bytes(gzip.compress(TEXT["train"].encode()))
    again = run(tmp_path, "packed", train_glob=str(packed))
    assert stream(again, "train") == stream(whole, "train")
    lines = [json.dumps({"text": x}) for x in TEXT["train"].split("\n\n")]
    (tmp_path / "train.jsonl").write_text("\n".join(lines))
    json_ = run(tmp_path, "json", train_glob=str(tmp_path / "train.jsonl"))
    words = [i for i in stream(whole, "train") if i]
    assert [i for i in stream(json_, "train") if i] == words


def test_an_interrupted_build_goes_on_to_the_same_bytes(tmp_path, monkeypatch):
    wanted = run(tmp_path, "whole", block_megabytes=0.0001)
    original = block_builder.BlockBuilder.build
    built = []

    def stop(self, block):
        if len(built) == 3:
            raise KeyboardInterrupt
        built.append(block)
        return original(self, block)

    monkeypatch.setattr(block_builder.BlockBuilder, "build", stop)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, block_megabytes=0.0001)
    monkeypatch.setattr(block_builder.BlockBuilder, "build", original)
    counted = os.stat(tmp_path / "out" / "vocabulary.json").st_mtime_ns
    resumed = run(tmp_path, block_megabytes=0.0001)
    assert_equal_builds(wanted.data_dir, resumed.data_dir)
    assert resumed.to_json() == wanted.to_json()
    assert counted
    # Another text changes the vocabulary, and with it every block.
    other = TEXT | {"train": TEXT["train"].replace("Cat", "the")}
    with pytest.raises(UserError, match="was built of other text"):
        run(tmp_path, texts=other, block_megabytes=0.0001)
    os.remove(tmp_path / "out" / "manifest.json")
    changed = run(tmp_path, texts=other, block_megabytes=0.0001)
    fresh = run(tmp_path, "fresh", texts=other, block_megabytes=0.0001)
    assert changed.files == fresh.files != wanted.files
    assert_equal_builds(changed.data_dir, fresh.data_dir)


def test_counts_give_every_unit(tmp_path):
    texts = TEXT | {"valid": "the dög sat\nthe\n"}
    manifest = run(tmp_path, texts=texts)
    counts = manifest.split_counts("valid")
    assert counts == SplitCounts(
        tokens=6, words=4, lines=2, characters=16, bytes=17, unknown=1
    )
    rates = counts.rates(np.log(8.0))
    assert rates["token_perplexity"] == pytest.approx(8)
    assert rates["word_perplexity"] == pytest.approx(8 ** (6 / 4))
    assert rates["word_and_line_perplexity"] == pytest.approx(8)
    assert rates["bits_per_character"] == pytest.approx(3 * 6 / 16)
    assert rates["bits_per_byte"] == pytest.approx(3 * 6 / 17)
    assert rates["bits_per_token"] == pytest.approx(3)
    # Tokens that are left out since they are nearly free cost the text nothing.
    rates = counts.rates(np.log(8.0), free=2)
    assert rates["token_perplexity"] == pytest.approx(8)
    assert rates["word_perplexity"] == pytest.approx(8 ** (4 / 4))
    assert rates["bits_per_byte"] == pytest.approx(3 * 4 / 17)
    # The text's bits are the same whatever it was cut into.
    data = run(tmp_path, "bytes", texts, unit="byte").split_counts("valid")
    assert (data.tokens, data.bytes, data.characters) == (17, 17, 16)
    assert (data.words, data.lines) == (4, 2)


@pytest.mark.parametrize("unit", ["byte", "char"])
def test_small_units_give_the_text_back(tmp_path, unit):
    texts = TEXT | {"valid": "cat naïve\r\n\n東京\n"}
    manifest = run(tmp_path, texts=texts, unit=unit, vocab_from=None)
    vocabulary = manifest.vocabulary()
    decoded = vocabulary.decode(stream(manifest, "train"))
    assert decoded == texts["train"] + "\n"
    valid = vocabulary.decode(stream(manifest, "valid"))
    if unit == "byte":
        assert manifest.vocab_size == 256
        assert valid == texts["valid"].replace("\r\n", "\n")
    else:
        assert valid.count("<unk>") == manifest.counts["valid"]["unknown"] > 3


# --- What is refused ----------------------------------------------------------


@pytest.mark.parametrize(
    "changes,message",
    [
        ({"train_glob": "/nowhere/*"}, "--train_glob=/nowhere.*no file"),
        ({"dataset": "ptb", "data_path": "/nowhere"}, "wanted ptb.train.txt"),
        ({"dataset": "lm1b", "data_path": "/no"}, "heldout.* does not exist"),
        ({"dataset": "enwik8", "data_path": "/no"}, "there is no enwik8"),
        ({"vocab_file": "/no/v.json"}, "/no/v.json does not exist"),
        ({"vocab_file": "/no/words.txt"}, "words.txt does not exist"),
        ({"unit": "piece"}, "needs --vocab_file=NAME.model"),
        ({"unit": "word", "line_end": "newline"}, "--line_end must be one of"),
        ({"unknown": "error"}, "valid.txt: line 2: 'xyz' is not in the voc"),
        ({"line_end": "marks"}, "the text itself holds <S>"),
        ({"record_tokens": 12}, "multiple of 8"),
        ({"lower_case": True, "unit": "byte"}, "--lower_case is not for"),
    ],
)
def test_wrong_input_is_one_line(tmp_path, changes, message):
    texts = TEXT | {"valid": "the dog\nsat xyz <S>\n"}
    if changes.get("dataset", "text") != "text":
        texts = {}
    with pytest.raises(UserError, match=message) as info:
        run(tmp_path, texts=texts, **changes)
    assert "\n" not in str(info.value)
    assert not (tmp_path / "out" / "manifest.json").exists()


def test_empty_text_and_bad_bytes(tmp_path):
    with pytest.raises(UserError, match="the valid split is empty"):
        run(tmp_path, texts=TEXT | {"valid": ""})
    with pytest.raises(UserError, match="1 tokens: nothing to predict"):
        run(tmp_path, texts=TEXT | {"valid": "\n"})
    (tmp_path / "bad.txt").write_bytes(b"good\nb\xffad\n")
    with pytest.raises(UserError, match="bad.txt: line 2: not UTF-8"):
        run(tmp_path, "bad", train_glob=str(tmp_path / "bad.txt"))


def test_foreign_vocabularies_are_refused_by_hash(tmp_path):
    manifest = run(tmp_path)
    other = run(tmp_path, "other", min_count=3)
    assert other.vocab_size < manifest.vocab_size
    shutil.copy(other.vocabulary_path(), tmp_path / "out" / "vocabulary.json")
    with pytest.raises(UserError, match="another vocabulary than the one of"):
        manifest.vocabulary()
    # The order of the symbols is part of a vocabulary.
    path = tmp_path / "words.txt"
    words = list(other.vocabulary().symbols)
    path.write_text("\n".join(words))
    same = run(tmp_path, "same", vocab_file=str(path))
    assert same.vocabulary_sha256 == other.vocabulary_sha256
    path.write_text("\n".join(words[:1] + words[1:][::-1]))
    with pytest.raises(UserError, match="given_vocabulary: wanted"):
        run(tmp_path, "same", vocab_file=str(path))
    with_its_file = run(tmp_path, "given", vocab_file=other.vocabulary_path())
    assert stream(with_its_file, "train") == stream(other, "train")
    with pytest.raises(UserError, match="lower_case: wanted True, found False"):
        run(
            tmp_path,
            "given2",
            vocab_file=other.vocabulary_path(),
            lower_case=True,
        )


def test_kinds_of_data_are_told_apart(tmp_path):
    from data.pretraining.manifest import PretrainingManifest

    manifest = run(tmp_path)
    with pytest.raises(UserError, match="wanted pretraining data, found lang"):
        PretrainingManifest.load(manifest.data_dir)
    assert (
        StreamManifest.load(manifest.data_dir).to_json() == manifest.to_json()
    )


def test_damaged_records_are_named(tmp_path):
    manifest = run(tmp_path)
    path = pathlib.Path(manifest.data_dir, manifest.files[0].name)
    good = path.read_bytes()
    size = manifest.format.record_size
    bad = bytearray(good)
    bad[2 * size + 90] ^= 1
    path.write_bytes(bad)
    with pytest.raises(UserError, match="record 2: wrong checksum"):
        stream(manifest, "train")
    path.write_bytes(good[size : 2 * size] + good[:size] + good[2 * size :])
    with pytest.raises(UserError, match="record 0: another block or record"):
        stream(manifest, "train")
    path.write_bytes(good[:-7])
    with pytest.raises(UserError, match="wanted .* bytes"):
        StreamManifest.load(manifest.data_dir)


@pytest.mark.parametrize("unit", ["byte", "char"])
def test_a_byte_order_mark_is_no_symbol(unit):
    block = corpus.Block("x.txt", 0, 8)
    data = "\ufeffa\n\ufeffb".encode()
    options = types.SimpleNamespace(dataset="", unit=unit)
    text = block_builder.text_of([data], [block], options)
    wanted = "a\n\ufeffb\n"
    assert text == (wanted.encode() if unit == "byte" else wanted)


@pytest.mark.parametrize("unit", ["word", "char", "byte"])
@pytest.mark.parametrize("name", ["a.txt", "a.jsonl"])
def test_cr_lf_ends_a_line_as_lf_does(unit, name):
    """As in scoring, which reads a line without its end."""
    options = LMDataOptions("out", train_glob=name, unit=unit)
    texts = []
    for end in ("\n", "\r\n"):
        text = end.join(("a b", "\r c" if name == "a.txt" else "c", ""))
        if name == "a.jsonl":
            text = json.dumps({"text": text}) + "\n"
        block = corpus.Block(name, 0, len(text))
        texts.append(block_builder.text_of([text.encode()], [block], options))
    assert texts[0] == texts[1]
    assert len(texts[0]) == (9 if name == "a.txt" else 6) - (name == "a.txt")
    # What was cut off behind CR has its line end, too.
    if name == "a.txt":
        block = corpus.Block(name, 0, 3)
        cut = block_builder.text_of([b"ab\r"], [block], options)
        assert cut in ("ab\n", b"ab\n")


def test_official_files_of_one_line_keep_every_byte():
    options = LMDataOptions("out", dataset="enwik8", unit="byte", data_path="x")
    block = corpus.Block("enwik8", 0, 6)
    assert block_builder.text_of([b"a\r\nb\r"], [block], options) == (
        b"a\r\nb\r"
    )
