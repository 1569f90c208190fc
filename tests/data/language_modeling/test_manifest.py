"""Counts, vocabularies and kinds of streams."""

import shutil

import numpy as np
import pytest

from common.errors import UserError
from data.language_modeling.manifest import (
    META,
    SplitCounts,
    StreamManifest,
    make_format,
)
from tests.data.language_modeling.stream_builds import TEXT, run, stream


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
    with pytest.raises(UserError, match="unknown: wanted error, found unk"):
        run(
            tmp_path,
            "given3",
            vocab_file=other.vocabulary_path(),
            unknown="error",
        )


def test_kinds_of_data_are_told_apart(tmp_path):
    from data.pretraining.manifest import PretrainingManifest

    manifest = run(tmp_path)
    with pytest.raises(UserError, match="wanted pretraining data, found lang"):
        PretrainingManifest.load(manifest.data_dir)
    assert (
        StreamManifest.load(manifest.data_dir).to_json() == manifest.to_json()
    )


@pytest.mark.parametrize("vocab_size", [300, 70_000])
def test_what_is_written_is_read(vocab_size):
    layout = make_format(24, vocab_size)
    rng = np.random.default_rng(0)
    meta = np.zeros(3, META)
    meta["block"], meta["record"] = 7, np.arange(3)
    meta["tokens"] = (24, 24, 5)
    ends = rng.random((3, 24)) < 0.3
    arrays = {
        "input_ids": rng.integers(0, vocab_size, (3, 24)),
        "meta": meta,
        "line_ends": np.packbits(ends, axis=-1, bitorder="little"),
    }
    arrays["input_ids"][0, 0] = vocab_size - 1
    found = layout.decode(layout.encode(arrays))
    for name, value in arrays.items():
        assert (found[name] == value).all(), name
    read = np.unpackbits(found["line_ends"], axis=-1, bitorder="little")
    assert (read == ends).all()


def test_small_vocabularies_have_small_ids():
    sizes = [make_format(64, v).record_size for v in (200, 65_536, 65_537)]
    assert sizes[0] <= sizes[1] < sizes[2]
    assert sizes[2] - sizes[1] >= 2 * 64
