"""Tokens that older folders keep beside their vocabulary file."""

import json

import pytest

from common.errors import UserError
from common.vocabularies import added_tokens, vocabulary

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "river"]


def write(folder, name, value):
    (folder / name).write_text(json.dumps(value))


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join([*PIECES, ""]))
    write(tmp_path, "added_tokens.json", {"[E2]": 8, "[E1]": 7})
    return tmp_path


def ids(folder):
    package = pytest.importorskip("tokenizers")
    content = vocabulary.read(str(folder / "vocab.txt")).content.decode()
    tokenizer = package.Tokenizer.from_str(content)
    text = "the [E1] River [e2]"
    return tokenizer.encode(text, add_special_tokens=False).ids


def test_an_added_token_has_its_own_id(folder):
    """Each was cut into pieces of the vocabulary; transformers has one id."""
    assert ids(folder) == [5, 7, 6, 8]


@pytest.mark.parametrize(
    "name, value",
    [
        ("special_tokens_map.json", {"additional_special_tokens": ["[E2]"]}),
        ("special_tokens_map.json", {"x_token": {"content": "[E2]"}}),
        ("tokenizer_config.json", {"extra_special_tokens": ["[E2]"]}),
    ],
)
def test_a_special_token_keeps_its_case(folder, name, value):
    write(folder, name, value)
    assert ids(folder) == [5, 7, 6, 1, 1, 1]


@pytest.mark.parametrize(
    "name, value",
    [
        ("special_tokens_map.json", {"additional_special_tokens": ["[E1]"]}),
        ("tokenizer_config.json", {"extra_special_tokens": {"one": "[E1]"}}),
        ("tokenizer_config.json", {"eos_token": {"content": "[E1]"}}),
    ],
)
def test_a_special_token_may_be_a_piece(tmp_path, name, value):
    """As `[unused1]` of BERT, which was cut; transformers has one id."""
    (tmp_path / "vocab.txt").write_text("\n".join([*PIECES, "[E1]", ""]))
    assert ids(tmp_path) == [5, 1, 1, 1, 6, 1, 1, 1]
    write(tmp_path, name, value)
    assert ids(tmp_path) == [5, 7, 6, 1, 1, 1]
    rules = value | {"split_special_tokens": True}
    write(tmp_path, "tokenizer_config.json", rules)
    assert ids(tmp_path) == [5, 1, 1, 1, 6, 1, 1, 1]


def test_the_tokens_of_the_config_count_before_the_older_file(folder):
    rows = {"7": {"content": "[e2]"}, "5": {"content": "the", "special": True}}
    write(folder, "tokenizer_config.json", {"added_tokens_decoder": rows})
    assert ids(folder) == [5, 1, 1, 1, 6, 7]
    value = json.loads(vocabulary.read(str(folder / "vocab.txt")).content)
    row = next(r for r in value["added_tokens"] if r["content"] == "the")
    assert row["special"] and not row["lstrip"]


def test_other_files_of_the_same_form(tmp_path):
    pieces = {"a": 0, "b": 1, "ab": 2, "<s>": 3}
    write(tmp_path, "vocab.json", pieces)
    (tmp_path / "merges.txt").write_text("a b\n")
    write(tmp_path, "added_tokens.json", {"<e>": 4})
    value = json.loads(vocabulary.read(str(tmp_path / "vocab.json")).content)
    assert {row["content"]: row["id"] for row in value["added_tokens"]} == {
        "<s>": 3,
        "<e>": 4,
    }


@pytest.mark.parametrize(
    "value, message",
    [
        ({"[E1]": 9}, r"wanted the id 7 for '\[E1\]', found 9"),
        ({"the": 7}, "wanted the id 5 for 'the', found 7"),
        ({"[E1]": "7"}, "wanted an object of text and id"),
        ([7], "wanted a JSON object"),
    ],
)
def test_ids_that_nobody_would_give_are_one_line(folder, value, message):
    write(folder, "added_tokens.json", value)
    with pytest.raises(UserError, match=message) as caught:
        vocabulary.read(str(folder / "vocab.txt"))
    assert "\n" not in str(caught.value)


def test_a_folder_without_such_a_file(tmp_path):
    assert added_tokens.of_folder(str(tmp_path), {"a": 1}) == {"a": 1}


def test_special_tokens_of_a_text_are_split_where_the_folder_says_so(folder):
    """`[SEP]` in a text was a symbol; transformers cuts it into pieces."""
    package = pytest.importorskip("tokenizers")
    (folder / "added_tokens.json").unlink()
    (folder / "copy").mkdir()
    name, found = "tokenizer_config.json", []
    for split in (False, True):
        write(folder, name, {"split_special_tokens": split})
        read = vocabulary.read(str(folder / "vocab.txt"))
        tokenizer = package.Tokenizer.from_str(read.content.decode())
        encoding = tokenizer.encode("the [SEP]", add_special_tokens=False)
        found.append(encoding.ids)
        assert tokenizer.token_to_id("[SEP]") == 3
        # The copy in a model's folder has no such file beside it.
        vocabulary.copy(read, read.resolve(), str(folder / "copy"))
        again = vocabulary.read(str(folder / "copy" / "tokenizer.json"))
        assert again.sha256 == read.sha256
    assert found == [[5, 3], [5, 1, 1, 1]]


def test_special_tokens_that_are_no_pieces_stay():
    rows = [
        {"id": i, "content": text, "special": special}
        for i, (text, special) in enumerate(
            (("[CLS]", True), ("[E1]", True), ("the", False))
        )
    ]
    model = {"vocab": [["[CLS]", 0.0], ["the", -1.0]]}
    content = json.dumps({"model": model, "added_tokens": rows}).encode()
    value = json.loads(added_tokens.without_special(content))
    assert value["added_tokens"] == rows[1:] and value["model"] == model
    for damaged in (b"no JSON", b"[]", b'{"model": {}}'):
        assert added_tokens.without_special(damaged) == damaged


@pytest.mark.parametrize(
    "name, value",
    [
        ("special_tokens_map.json", {"additional_special_tokens": ["[E1]"]}),
        ("tokenizer_config.json", {"eos_token": "[E1]", "bos_token": "[E1]"}),
        (
            "tokenizer_config.json",
            {"added_tokens_decoder": {"7": {"content": "[E1]"}}},
        ),
    ],
)
@pytest.mark.parametrize("whole", [False, True])
def test_a_token_that_a_folder_names_follows_the_pieces(
    folder, name, value, whole
):
    """It was cut into pieces; transformers adds it, also to `tokenizer.json`."""
    package = pytest.importorskip("tokenizers")
    (folder / "added_tokens.json").unlink()
    path = folder / "vocab.txt"
    if whole:
        content = vocabulary.read(str(path)).content
        path = folder / "tokenizer.json"
        path.write_bytes(content)
        assert vocabulary.read(str(path)).content == content
    rest = {"extra_special_tokens": ["[x]"], "pad_token": "the"}
    write(folder, name, value | rest)
    read = vocabulary.read(str(path)).content
    tokenizer = package.Tokenizer.from_str(read.decode())
    encoding = tokenizer.encode("the [E1]river[x]", add_special_tokens=False)
    assert encoding.ids == [5, 7, 6, 8]
    special = {r["content"] for r in json.loads(read)["added_tokens"]}
    assert {"[E1]", "the", "[x]"} < special
    # Whoever reads a damaged file says so.
    assert added_tokens.completed("", b"[]", value) == b"[]"


def test_a_token_without_a_row_of_the_model_stays_text(folder):
    """Theirs reads such a folder, and fails where a text has the token."""
    (folder / "added_tokens.json").unlink()
    plain = vocabulary.read(str(folder / "vocab.txt"))
    write(folder, "tokenizer_config.json", {"bos_token": "<s>"})
    size = len(json.loads(plain.content)["model"]["vocab"])
    for rows, found in ((size, False), (size + 1, True), ("many", True)):
        write(folder, "config.json", {"vocab_size": rows})
        read = vocabulary.read(str(folder / "vocab.txt"))
        assert (b"<s>" in read.content) == found
        assert (read.sha256 == plain.sha256) != found


def test_the_older_file_counts_before_the_config(folder):
    """As in transformers; with a list of tokens in the config it is not read."""
    write(folder, "special_tokens_map.json", {"mask_token": "river"})
    config = {"mask_token": "the", "a": 1}
    about = added_tokens.of_folder(str(folder), config)
    assert about["mask_token"] == "river" and about["a"] == 1
    config["added_tokens_decoder"] = {}
    assert added_tokens.of_folder(str(folder), config) == config
