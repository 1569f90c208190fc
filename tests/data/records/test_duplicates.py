"""Documents that came before, in the order of the blocks or of their shares."""

import types

import pytest

from data.corpus.documents import Block
from data.records import duplicates

TEXTS = ("a b\n\nc\n\n", "d\n\na  b\n\nc\nd\n\n", "c d\n\ne\n\nc\n\n")


@pytest.fixture
def blocks(tmp_path):
    found = []
    for number, text in enumerate(TEXTS):
        path = tmp_path / f"{number}.txt"
        path.write_text(text)
        found.append((Block(str(path), 0, len(text)),))
    return found


def find(blocks, stored, shares=()):
    options = types.SimpleNamespace(text_field="text", num_workers=1)
    log, saved = [], []
    found = duplicates.find(
        options, blocks, stored, lambda: saved.append(1), log.append, shares
    )
    return found, log, saved


def test_white_space_does_not_count(blocks):
    found, _, saved = find(blocks, {})
    # "a b", then "c d" of two lines, "c" of the first block.
    assert found == {1: (1,), 2: (0, 2)}
    assert len(saved) == 1


def test_the_larger_share_has_the_first_copy(blocks):
    found, _, _ = find(blocks, {}, shares=(0.5, 1.0, 2.0))
    assert found == {0: (0, 1), 1: (2,)}


def test_a_kept_list_is_of_the_same_text(blocks, tmp_path):
    stored = {}
    first, _, _ = find(blocks, stored)
    again, log, saved = find(blocks, stored)
    assert again == first and log == saved == []
    (tmp_path / "0.txt").write_text("x y\n\nc\n\n")
    changed, log, saved = find(blocks, stored)
    assert "text was changed since" in log[0] and saved
    assert changed == {2: (0, 2)}
