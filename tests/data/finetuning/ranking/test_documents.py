"""Documents of every form, read one at a time."""

import pytest

from common.errors import UserError
from data.finetuning.ranking import documents
from tests.data.finetuning.ranking_files import put, texts

TREC_DOCUMENTS = """<DOC>
<DOCNO> A-1 </DOCNO>
<DOCHDR>http://example.org 200</DOCHDR>
<html><script>var x = "no";</script><p>R&amp;D <b>pays</b></p></html>
</DOC>
<DOC><DOCNO>A-2</DOCNO> plain </DOC>
"""


def test_documents_in_every_form(tmp_path):
    path = put(tmp_path, "d.trec.gz", TREC_DOCUMENTS)
    assert texts(path) == {"A-1": "R&D pays", "A-2": "plain"}
    path = put(tmp_path, "d.jsonl", '{"id": "a", "title": "t", "text": "x"}\n')
    assert texts(path) == {"a": "t x"}
    path = put(tmp_path, "d.tsv.xz", "a\tt\tx y\n")
    assert texts(path) == {"a": "t x y"}
    smart = ".X\n.I 1\n.T \nt\n.W\nt\nx\n.X\n5 1 1\n"
    path = put(tmp_path, "d.smart", smart)
    assert texts(path) == {"1": "t t x"}
    assert texts(path, "cranfield") == {"1": "t x"}


@pytest.mark.parametrize("mark", ["<![foo]>", "<!['>", "<![ if !IE]>", "<![]>"])
def test_marked_sections_of_no_kind_are_left_out(tmp_path, mark):
    """Pages of the web have any; the parser asserts that there is none."""
    page = f"<DOC><DOCNO>A</DOCNO><p>a</p>{mark}<p>b</p><![if x]>c</DOC>\n"
    path = put(tmp_path, "d.trec", page)
    assert texts(path) == {"A": "a b c"}
    assert documents.html_text(f"a {mark[:-1]}").startswith("a")


def test_a_header_is_no_document(tmp_path):
    for header in ("id\ttext\ttitle", "Doc-ID\tcontents", "pid\tpassage"):
        path = put(tmp_path, "d.tsv", f"{header}\na\tx y\tt\n")
        assert texts(path) == {"a": "x y t"}


def test_documents_are_read_one_at_a_time(tmp_path):
    good = "".join(f'{{"id": {i}, "text": "x"}}\n' for i in range(3))
    path = put(tmp_path, "d.jsonl", good + "broken\n")
    stream = documents.stream(path)
    assert [next(stream).id for _ in range(3)] == ["0", "1", "2"]
    with pytest.raises(UserError, match=r"d.jsonl:4: wanted a JSON object"):
        next(stream)
