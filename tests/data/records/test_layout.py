"""What a layout without more to say depends on, and what it must have."""

import pytest

from data.corpus.documents import Block
from data.records.layout import BuildLayout, Plan


def test_a_plain_plan_adds_nothing_to_a_texts_hash():
    plan = Plan(((Block("x", 0, 3),), (Block("x", 3, 5),)))
    assert [plan.suffix(block) for block in range(2)] == ["", ""]


def test_a_layout_says_everything_that_the_factory_asks():
    class Half(BuildLayout):
        def text_line(self):
            return "as it stands"

    with pytest.raises(TypeError, match="make_manifest"):
        Half()
