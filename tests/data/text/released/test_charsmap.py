"""SentencePiece's table of characters."""

import base64
import struct

import pytest

from data.text.released import charsmap
from tests.helpers import released


def _table(content: bytes) -> str:
    return base64.b64encode(content).decode()


def test_a_table_of_one_key():
    for key in ("a", "\u00e9", "\u6771", "a\u0301"):
        assert charsmap.read(_table(charsmap.probe(key, "new"))) == {key: "new"}


def test_the_keys_of_nfkc_are_what_the_package_does():
    tokenizers = pytest.importorskip("tokenizers")
    content = released.charsmap("nmt_nfkc")
    rewritten = charsmap.read(_table(content))
    normalizer = tokenizers.normalizers.Precompiled(content)
    alone = {key: new for key, new in rewritten.items() if len(key) == 1}
    assert len(alone) > 5000 and alone["\ufb01"] == "fi" and alone["\t"] == " "
    assert all(normalizer.normalize_str(k) == new for k, new in alone.items())
    assert rewritten["e\u0301"] == "\u00e9"
    assert max(len(key.encode()) for key in rewritten) == 5


def test_a_hostile_trie_without_an_end_is_refused():
    """Every child's children are those of the root."""
    units = [256 << 10, *[0] * 511]
    for label in range(1, 256):
        units[256 ^ label] = label << 10 | label
    raw = struct.pack("<I512I", 2048, *units) + b"b\0"
    with pytest.raises(ValueError, match="more than 131072 nodes"):
        charsmap.read(_table(raw))


@pytest.mark.parametrize(
    "content, message",
    [
        (b"", "its trie has 0 of"),
        (b"\xff\xff\xff\xffabc", "its trie has 4294967295 of 3 bytes"),
        (charsmap.probe("a", "b")[:-1], "substring not found|subsection"),
    ],
)
def test_damaged_tables(content, message):
    with pytest.raises(ValueError, match=message):
        charsmap.read(_table(content))
