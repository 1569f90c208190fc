"""Diagrams of the pages: current, well-formed, and nothing covers anything."""

import itertools
import tomllib
import xml.etree.ElementTree as xml

import pytest

from scripts.pages import diagrams

with open(diagrams.SOURCE, "rb") as file:
    SOURCES = tomllib.load(file)
FLOWS = {k: v for k, v in SOURCES.items() if "boxes" in v}


def test_files_are_current_and_well_formed():
    for name, text in diagrams.drawn().items():
        path = diagrams.FOLDER / f"{name}.svg"
        assert path.read_text(encoding="utf-8") == text, "run the script"
        title = xml.fromstring(text).find("{http://www.w3.org/2000/svg}title")
        assert len(title.text) > 10


@pytest.mark.parametrize("name", FLOWS)
def test_boxes_lie_apart_and_texts_fit(name):
    flow = FLOWS[name]
    corners = [diagrams.place(box) for box in flow["boxes"].values()]
    for (x0, y0), (x1, y1) in itertools.combinations(corners, 2):
        apart = abs(x0 - x1) >= diagrams.WIDTH or abs(y0 - y1) > diagrams.HEIGHT
        assert apart
    for box in flow["boxes"].values():
        assert 7 * max(map(len, box[3:])) < diagrams.WIDTH + 10, box
    for start, end, *label in flow["arrows"]:
        assert {start, end} <= set(flow["boxes"])
        gap = flow.get("gap", diagrams.GAP_X)
        assert 6.8 * len("".join(label)) < gap, label


def test_no_diagram_is_wider_than_can_be_read():
    """A column of the site has 690 pixels, texts 13."""
    for name, text in diagrams.drawn().items():
        assert float(xml.fromstring(text).get("width")) <= 820, name


def test_the_masks_are_those_of_the_reference():
    """Order 3, 2, 4, 1 over four words, and one slot of memory."""
    import tensorflow as tf

    from modeling import reference

    ranks = tf.constant([[3, 1, 0, 2]])  # places of words 1..4 in the order
    hidden = reference.order_mask(ranks, tf.ones([1, 4]))[0].numpy()
    for title, mask in SOURCES["streams"]["masks"].items():
        for row, (_, seen) in enumerate(mask["rows"]):
            wanted = ["x" if not h else "." for h in hidden[row]]
            if title.startswith("content"):
                wanted[row] = "x"
            assert list(seen) == ["x", *wanted], (title, row)
