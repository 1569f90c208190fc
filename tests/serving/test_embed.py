"""Vectors of texts in files of three kinds, with an embedder that counts."""

import csv
import json

import numpy as np
import pytest

from common.errors import UserError
from serving import embed
from serving.generation.embeddings import Embedded
from serving.generation.options import EmbedOptions, ModelOptions
from serving.generation.sentence_folder import SentenceFolder
from tests.helpers.holding import another_process_holds

TEXTS = ('a "b,c"', "d\u00e9", "e f g")
RULE = SentenceFolder("mean", True, 7)


class Embedder:
    """A piece per word: its length, a third and its place in the text."""

    def __init__(self, encoder, tokenizer, segment_len, layer):
        del encoder, segment_len
        self.tokenizer = tokenizer
        if layer > 3:
            raise ValueError("`layer` must be in -4..3")
        self.cut = 0

    def embed(self, texts, size):
        assert size == 2
        for text in texts:
            words = text.split()
            starts = [text.index(word) for word in words]
            vectors = [
                [len(word), 1 / 3, place] for place, word in enumerate(words)
            ]
            yield Embedded(
                np.asarray(vectors, np.float32),
                np.asarray([7, 8, 9], np.float32),
                words,
                starts,
                [i + len(word) for i, word in zip(starts, words, strict=True)],
            )

    def sentences(self, texts, rule, size):
        assert (rule, size) == (RULE, 2)
        for text in texts:
            self.cut += len(text) > 4
            yield np.asarray([len(text), 0.5], np.float32)


class Damaged(Embedder):
    """Its second text has no numbers."""

    def embed(self, texts, size):
        for number, embedded in enumerate(super().embed(texts, size)):
            embedded.vectors[:] = np.nan if number else 1
            yield embedded


@pytest.fixture
def run(monkeypatch):
    """Runs the command with options."""
    generation = "serving.generation"

    def start(embedder=Embedder, **options):
        options = EmbedOptions(**{"embed_batch_size": 2} | options)
        built = {EmbedOptions: options, ModelOptions: ModelOptions("folder")}
        monkeypatch.setattr(embed.flag_values, "build", built.get)
        monkeypatch.setattr(f"{generation}.embeddings.Embedder", embedder)
        monkeypatch.setattr(
            f"{generation}.language_model.load_encoder", lambda *_: (None, None)
        )
        embed.main()

    return start


def read_csv(path):
    with open(path, newline="", encoding="utf-8") as f:
        return list(csv.reader(f))


@pytest.mark.parametrize("pooling", ["none", "mean"])
def test_vectors_that_are_no_numbers_are_one_line(run, tmp_path, pooling):
    path = tmp_path / "vectors.jsonl"
    for options in ({}, {"output_file": str(path)}):
        with pytest.raises(UserError, match="output for text 1 is not finite"):
            run(Damaged, text=TEXTS, pooling=pooling, **options)
    assert not list(tmp_path.iterdir())


def test_pieces_are_the_same_in_every_format(run, tmp_path, capsys):
    for ending in ("jsonl", "csv", "npz"):
        run(text=TEXTS, output_file=str(tmp_path / f"a.{ending}"))
    run(text=TEXTS)
    shown = capsys.readouterr().out.splitlines()
    lines = (tmp_path / "a.jsonl").read_text("utf-8").splitlines()
    assert lines == shown and "\u00e9" in shown[1]
    found = [json.loads(line) for line in lines]
    assert found[0] == {
        "pieces": ["a", '"b,c"'],
        "starts": [0, 2],
        "ends": [1, 7],
        "vectors": [[1.0, 0.3333333, 0.0], [5.0, 0.3333333, 1.0]],
    }
    head, *rows = read_csv(tmp_path / "a.csv")
    assert head == ["text", "piece", "start", "end", "d0", "d1", "d2"]
    flat = [
        [str(number), *map(str, cells[:3]), *map(str, cells[3])]
        for number, text in enumerate(found)
        for cells in zip(
            text["pieces"],
            text["starts"],
            text["ends"],
            text["vectors"],
            strict=True,
        )
    ]
    assert rows == flat
    with np.load(tmp_path / "a.npz") as arrays:
        assert arrays["row_splits"].tolist() == [0, 2, 3, 6]
        splits = arrays["row_splits"]
        for i, text in enumerate(found):
            part = slice(splits[i], splits[i + 1])
            for name in ("pieces", "starts", "ends"):
                assert arrays[name][part].tolist() == text[name]
            np.testing.assert_allclose(
                arrays["vectors"][part], text["vectors"], rtol=1e-6
            )


def test_vectors_are_written_into_a_new_folder(run, tmp_path):
    for ending in ("jsonl", "csv", "npz"):
        target = tmp_path / ending / "new" / f"a.{ending}"
        run(text=TEXTS, output_file=str(target))
        assert target.stat().st_size


def test_two_commands_do_not_write_one_file(run, tmp_path):
    """The second one's vectors replaced the first one's."""
    target = tmp_path / "a.csv"
    with another_process_holds(target, is_folder=False):
        with pytest.raises(UserError, match="a.csv is in use by"):
            run(text=TEXTS, output_file=str(target))
    assert not target.exists()


@pytest.mark.parametrize(
    "pooling, wanted",
    [
        ("mean", [[3.0, 0.3333333, 0.5], [2.0, 0.3333333, 0.0]]),
        ("max", [[5.0, 0.3333333, 1.0], [2.0, 0.3333333, 0.0]]),
        ("cls", [[7.0, 8.0, 9.0], [7.0, 8.0, 9.0]]),
        ("last", [[5.0, 0.3333333, 1.0], [2.0, 0.3333333, 0.0]]),
    ],
)
def test_one_vector_of_each_text(run, tmp_path, pooling, wanted):
    for ending in ("jsonl", "csv", "npz"):
        path = str(tmp_path / f"a.{ending}")
        run(text=TEXTS[:2], output_file=path, pooling=pooling)
    lines = (tmp_path / "a.jsonl").read_text().splitlines()
    assert [json.loads(x) for x in lines] == [{"vector": v} for v in wanted]
    assert read_csv(tmp_path / "a.csv") == [
        ["text", "d0", "d1", "d2"],
        *([str(i), *map(str, v)] for i, v in enumerate(wanted)),
    ]
    with np.load(tmp_path / "a.npz") as arrays:
        assert arrays.files == ["vectors"]
        np.testing.assert_allclose(arrays["vectors"], wanted, rtol=1e-6)


def test_a_folder_s_rule_is_taken_where_no_pooling_is_given(
    run, monkeypatch, capsys
):
    monkeypatch.setattr(
        "serving.generation.sentence_folder.read",
        lambda folder, _: RULE if folder == "folder" else None,
    )
    run(text=TEXTS)
    said = capsys.readouterr()
    assert [json.loads(x) for x in said.out.splitlines()] == [
        {"vector": [7.0, 0.5]},
        {"vector": [2.0, 0.5]},
        {"vector": [5.0, 0.5]},
    ]
    assert "vectors: folder says" in said.err
    assert "2 of 3 texts were cut" in said.err
    run(text=TEXTS, pooling="none")
    said = capsys.readouterr()
    assert "pieces" in json.loads(said.out.splitlines()[0])
    assert "cut" not in said.err and "says" not in said.err


def test_lines_of_a_file_are_texts(run, tmp_path, capsys):
    path = tmp_path / "lines.txt"
    path.write_bytes(b"\xef\xbb\xbfa b\r\nc\n")
    run(input_file=str(path), pooling="cls")
    assert len(capsys.readouterr().out.splitlines()) == 2
    for content, message in (
        (b"", r"--input_file=.*lines.txt is empty"),
        (b"a\n \nb\n", "lines.txt:2: the text is empty"),
        (b"a\nbc\0\n", "lines.txt:2: found a NUL character at 2"),
        (b"a\nb\ncaf\xe9\n", "lines.txt:3: is not UTF-8"),
    ):
        path.write_bytes(content)
        with pytest.raises(UserError, match=message):
            run(input_file=str(path))
    with pytest.raises(UserError, match="none.txt cannot be read: No such"):
        run(input_file=str(tmp_path / "none.txt"))
    with pytest.raises(UserError, match=r"--text\[1\]: wanted at most 3 char"):
        run(text=("abc", "abcd"), max_chars=3)


def test_an_input_is_not_replaced_and_a_layer_is_one_that_there_is(
    run, tmp_path
):
    source, other = tmp_path / "a.txt", tmp_path / "b.csv"
    source.write_text("a\n")
    other.symlink_to(source)
    with pytest.raises(UserError, match="would replace the input"):
        run(input_file=str(source), output_file=str(other))
    assert source.read_text() == "a\n"
    other.unlink()
    other.write_text("vectors\n")
    with pytest.raises(UserError, match="b.csv exists and is complete: remove"):
        run(text=("a",), output_file=str(other))
    assert other.read_text() == "vectors\n"
    target = tmp_path / "c.csv"
    with pytest.raises(UserError, match="--layer, --max_seq_length: .layer"):
        run(text=("a",), output_file=str(target), layer=4)
    assert not target.exists()
