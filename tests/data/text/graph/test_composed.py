"""Composed forms in the graph, beside the package's own."""

import pytest
import tensorflow as tf

from data.text.graph.composed import Composer
from data.text.graph.graph_text import decode

package = pytest.importorskip("tokenizers")

TEXTS = [
    "plain",
    "e\u0301 o\u0302\u0301 \u00e9\u0323",
    "a\u0301\u0316\u0345b \u1100\u1161\u11a8 \uac00\u11a8",
    "\u0301 alone",
    "\ufb01ne \uff21 \u2460",
    "q\u0307\u0323 \u212b \u0344",
    "",
]


@pytest.mark.long
@pytest.mark.parametrize("compatible", [False, True])
def test_texts_are_those_of_the_package(compatible):
    kind = package.normalizers.NFKC if compatible else package.normalizers.NFC
    flat = decode(tf.constant([t.encode() for t in TEXTS]))
    found = Composer(compatible)(flat)
    rows = ["" for _ in TEXTS]
    for point, row in zip(
        found.points.numpy(), found.rows.numpy(), strict=True
    ):
        rows[row] += chr(point)
    assert rows == [kind().normalize_str(text) for text in TEXTS]


@pytest.mark.long
def test_a_composed_character_has_the_place_of_its_letter():
    found = Composer()(decode(tf.constant(["xe\u0301y".encode()])))
    assert found.points.numpy().tolist() == [ord("x"), 0xE9, ord("y")]
    assert found.starts.numpy().tolist() == [0, 1, 3]
