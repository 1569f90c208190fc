"""SQuAD files are found under their published names, packed or not."""

import gzip
import json
import lzma

import pytest

from common.errors import UserError
from data.finetuning.examples import BadRows
from data.finetuning.squad import examples as squad_examples

OPEN = {"": open, ".gz": gzip.open, ".xz": lzma.open}


def write(path, question_id):
    qas = [{"id": question_id, "question": "b?", "answers": []}]
    value = {"data": [{"paragraphs": [{"context": "A b.", "qas": qas}]}]}
    suffix = path.suffix if path.suffix in OPEN else ""
    with OPEN[suffix](path, "wb") as f:
        f.write(json.dumps(value).encode())


def read_id(path):
    file = squad_examples.read_file(str(path), False, BadRows())
    return file.questions[0].question_id


@pytest.mark.parametrize("suffix", ["", ".gz", ".xz"])
def test_a_file_is_found_by_its_published_name(tmp_path, suffix):
    write(tmp_path / f"dev-v2.0.json{suffix}", "q")
    assert read_id(tmp_path / "dev-v2.0.json") == "q"
    assert read_id(tmp_path / f"dev-v2.0.json{suffix}") == "q"


def test_the_name_itself_comes_first_and_its_ending_chooses(
    tmp_path, monkeypatch
):
    for suffix, name in (("", "plain"), (".gz", "gz"), (".xz", "xz")):
        write(tmp_path / f"dev.json{suffix}", name)
    assert read_id(tmp_path / "dev.json") == "plain"
    assert read_id(tmp_path / "dev.json.xz") == "xz"
    (tmp_path / "dev.json").unlink()
    assert read_id(tmp_path / "dev.json") == "gz"
    seen = []
    monkeypatch.setitem(
        squad_examples.READERS, ".cards", lambda path, *_: seen.append(path)
    )
    write(tmp_path / "x.cards.gz", "cards")
    squad_examples.read_file(str(tmp_path / "x.cards"), False, BadRows())
    assert seen == [str(tmp_path / "x.cards.gz")]


def test_a_file_that_is_nowhere_says_what_was_tried(tmp_path):
    path = tmp_path / "train-v2.0.json"
    with pytest.raises(UserError) as e:
        squad_examples.read_file(str(path), True, BadRows())
    (line,) = str(e.value).splitlines()
    for name in (path, f"{path}.gz", f"{path}.xz"):
        assert f"{name} " in f"{line} "
    # A folder of that name is none.
    path.mkdir()
    with pytest.raises(UserError, match="not a file that can be read"):
        squad_examples.read_file(str(path), True, BadRows())
