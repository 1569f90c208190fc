"""Lines of CoNLL files: rows, marks of documents, comments."""

import pytest

from common.errors import UserError
from data.finetuning.examples import BadRows
from data.finetuning.options import TaggingDataOptions
from data.finetuning.tagging import conll_lines
from data.finetuning.tagging import examples as tagging


def kept(text):
    lines = iter(list(enumerate(text.split("\n"), 1)))
    return [line for _, line in conll_lines.rows(lines)]


def test_comments_have_other_columns_than_the_rows():
    rows = ["a _ _ O", "b _ _ B-x", "", "c _ _ O"]
    # MultiCoNER's, GermEval's, with blanks between tabs, CoNLL-2012's.
    for comment in ("# id 5\tdomain=en", "#\thttp://a [2009]", "# newdoc"):
        text = [comment, "# x y z", *rows[:3], comment, rows[3]]
        assert kept("\n".join(text)) == ["# x y z", *rows]
    text = ["-DOCSTART- O", "", "# newdoc", "a\tO", "", "#end document"]
    assert kept("\n".join(text)) == ["", "", "a\tO", "", ""]
    assert kept("#begin document (x); part 0\na O") == ["", "a O"]


@pytest.mark.parametrize("mark", ["-DOCSTART- -X- O", "#end document"])
@pytest.mark.parametrize("columns", ["", "\t_" * 7])
def test_no_sentence_goes_on_in_another_document(tmp_path, mark, columns):
    """Where no empty lines stand around the mark of a document."""
    path = tmp_path / "train.conll"
    rows = [f"{n}\t{word}\tO{columns}" for n, word in ((1, "a"), (2, "b"))]
    path.write_text("\n".join([mark, *rows, mark, rows[0], ""]))
    how = TaggingDataOptions(text_column=1, tag_column=2)
    read = tagging.read(str(path), BadRows(), how)
    assert [(e.text, e.where[-1]) for e in read] == [("a b", "2"), ("a", "5")]


def test_a_token_may_be_a_hash():
    for text in ("#MeToo O\na B-x", "a O\n# O\n\n# O", "# O", "# # O\na b O"):
        assert kept(text) == text.split("\n")
    # Within a sentence, or without a blank, it is a row like others.
    for text in ("a O\n# x y", "#a\nb O"):
        assert kept(text) == text.split("\n")


def test_comments_are_no_tokens(tmp_path):
    path = tmp_path / "train.conll"
    path.write_text("# newdoc\na\tB-x\nb\tO\n\n# doc2\nc\tB-x\n")
    read = tagging.read(str(path), BadRows())
    assert [(e.text, e.tags) for e in read] == [
        ("a b", ("B-x", "O")),
        ("c", ("B-x",)),
    ]
    path.write_text("a\tB-x\nb\tO\n\n#\tdoc2\nc\tB-x\n")
    with pytest.raises(UserError, match="conll:4: wanted .* found a comment"):
        tagging.read(str(path), BadRows())
    # A tag of such a file, and tags that name no chunks.
    for text in ("# B-y\na B-x\n", "# #\na B-x\nb NN\n"):
        path.write_text(text)
        (example,) = tagging.read(str(path), BadRows())
        assert example.text.startswith("# a")
