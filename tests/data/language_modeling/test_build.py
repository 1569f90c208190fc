"""Builds of streams: any number of workers, what is refused."""

import gzip
import json
import os

import pytest

from common.errors import UserError
from data.language_modeling import block_builder, build
from data.language_modeling.options import SPLITS, LMDataOptions
from tests.data.language_modeling.stream_builds import TEXT, run, stream
from tests.data.records.built_folders import assert_equal_builds

# --- The factory --------------------------------------------------------------


@pytest.mark.long
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
        ({"dataset": "text8", "data_path": "/"}, "there is no text8"),
        ({"vocab_file": "/no/v.json"}, "/no/v.json does not exist"),
        ({"vocab_file": "/no/words.txt"}, "words.txt cannot be read: No such"),
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


def test_a_build_of_pieces_that_fails_leaves_no_file(tmp_path, spiece_model):
    """So that the same command builds the mended text."""
    path = tmp_path / "mended.txt"
    path.write_bytes(b"the cat\n\xff sat\n")
    changes = {
        "train_glob": str(path),
        "vocab_file": spiece_model,
        "texts": {},
    }
    with pytest.raises(UserError, match="line 2: not UTF-8"):
        run(tmp_path, **changes)
    left = [p.name for p in (tmp_path / "out").iterdir()]
    assert [name for name in left if not name.startswith(".")] == []
    path.write_bytes(b"the cat\nsat\n")
    assert run(tmp_path, **changes).counts["train"]["lines"] == 2


def test_what_cannot_be_said_is_found_in_its_file(tmp_path):
    """Several files are one block; a line of JSON has several of text."""
    names = {
        "a.txt": "the cat\nsat\nthe\n",
        "b.txt": "the\nzzz sat\n",
        "c.txt": "the <S> cat\n",
        "d.jsonl": '{"text": "the\\ncat"}\n\n{"text": "sat\\n\\nyyy"}\n',
    }
    for name, text in names.items():
        (tmp_path / name).write_text(text)
    words = tmp_path / "words.txt"
    words.write_text("<S>\nthe\ncat\nsat\n<eos>\n")

    def said(*files, **changes):
        pattern = ",".join(str(tmp_path / name) for name in files)
        with pytest.raises(UserError) as info:
            run(
                tmp_path,
                train_glob=pattern,
                valid_glob=None,
                vocab_file=str(words),
                vocab_from=None,
                unknown="error",
                **changes,
            )
        return str(info.value)

    found = said("a.txt", "b.txt")
    assert f"{tmp_path}/b.txt: line 2: 'zzz' is not" in found
    assert f"{tmp_path}/d.jsonl: line 3: 'yyy' is not" in said(
        "a.txt", "d.jsonl"
    )
    found = said("a.txt", "c.txt", line_end="marks")
    assert f"{tmp_path}/c.txt: line 1: the text itself holds <S>" in found


def test_empty_text_and_bad_bytes(tmp_path):
    with pytest.raises(UserError, match="the valid split is empty"):
        run(tmp_path, texts=TEXT | {"valid": ""})
    with pytest.raises(UserError, match="1 tokens: nothing to predict"):
        run(tmp_path, texts=TEXT | {"valid": "\n"})
    (tmp_path / "bad.txt").write_bytes(b"good\nb\xffad\n")
    with pytest.raises(UserError, match="bad.txt: line 2: not UTF-8"):
        run(tmp_path, "bad", train_glob=str(tmp_path / "bad.txt"))


def test_a_held_out_file_that_is_trained_on_is_said(tmp_path):
    """`corpus/*.txt` takes the file of the valid split along."""
    for name in ("a", "valid", "other"):
        (tmp_path / f"{name}.txt").write_text("the cat sat\n" * 3)

    def said(output, train):
        lines = []
        options = LMDataOptions(
            str(tmp_path / output),
            train_glob=str(tmp_path / train),
            valid_glob=f"{tmp_path}/./valid.txt",
            test_glob=str(tmp_path / "other.txt"),
        )
        build.build(options, lines.append)
        return [line for line in lines if line.startswith("note: ")]

    assert said("one", "a.txt") == []
    (line,) = said("two", "[av]*.txt")
    assert "valid.txt is in train, too: the valid split measures" in line


def test_a_text_that_the_vocabulary_lacks_is_said(tmp_path):
    """Its loss is that of `<unk>`, which is easy to predict."""
    (tmp_path / "a.txt").write_text("the cat sat\n" * 3)
    (tmp_path / "b.txt").write_text("der Hund sat\n" * 3)

    def said(output, **changes):
        lines = []
        options = LMDataOptions(
            str(tmp_path / output),
            train_glob=str(tmp_path / "a.txt"),
            valid_glob=str(tmp_path / "b.txt"),
            **changes,
        )
        build.build(options, lines.append)
        return [line for line in lines if line.startswith("warning: ")]

    (line,) = said("words")
    assert line.startswith("warning: valid: 50.0% of the tokens are <unk>: ")
    assert said("all", vocab_from="all") == said("byte", unit="byte") == []


def test_a_field_of_json_lines_needs_a_file_of_them(tmp_path):
    with pytest.raises(UserError, match="--text_field=body is of JSON lines"):
        run(tmp_path, text_field="body")
    assert not (tmp_path / "out" / "manifest.json").exists()
