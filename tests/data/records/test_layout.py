"""What a layout without more to say depends on, and what it must have."""

import pytest

from data.corpus.documents import Block
from data.records.layout import BuildLayout, Plan
from tests.helpers.runs import builds


def test_a_plain_plan_adds_nothing_to_a_texts_hash():
    plan = Plan(((Block("x", 0, 3),), (Block("x", 3, 5),)))
    assert [plan.suffix(block) for block in range(2)] == ["", ""]


def test_a_layout_says_everything_that_the_factory_asks():
    class Half(BuildLayout):
        def text_line(self):
            return "as it stands"

    with pytest.raises(TypeError, match="make_manifest"):
        Half()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("build")
    builds.write_corpus(path / "corpus.txt")
    return path


def test_filters_are_counted(folder):
    path = folder / "filter.txt"
    body = (folder / "corpus.txt").read_text()
    first = body.split("\n\n")[0]
    path.write_text(f"{body}\n{first}\n\n@@ ## $$ %% && the of\n\nthe lamp\n")
    manifest = builds.run(
        folder,
        "filtered",
        input_glob=str(path),
        dedup=True,
        max_symbol_ratio=0.4,
        min_document_tokens=6,
    )
    counts = manifest.counts
    assert counts["documents"] == 43
    assert counts["left_out_duplicate"] == 1
    assert counts["left_out_symbols"] == 1
    assert counts["left_out_short"] == 1
    assert counts["train_documents"] == 40
