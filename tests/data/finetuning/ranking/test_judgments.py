"""Judgements of every form."""

import pytest

from common.errors import UserError
from data.finetuning.ranking import judgments
from tests.data.finetuning.ranking_files import put


def test_judgements_of_every_form(tmp_path):
    assert judgments.read(put(tmp_path, "a", "1 0 d 2\n1 0 e -2\n")) == {
        "1": {"d": 2, "e": -2}
    }
    five = put(tmp_path, "b", "1 d 2 1 0.5\n")
    assert judgments.read(five) == {"1": {"d": 2}}
    codes = "1 a -1\n1 b 1\n1 c 2\n1 d 3 \n1 e 4\n"
    assert judgments.read(put(tmp_path, "c", codes)) == {
        "1": {"a": 4, "b": 4, "c": 3, "d": 2, "e": 1}
    }
    cisi = put(tmp_path, "d", "     1     28\t0\t0.000000\n")
    assert judgments.read(cisi, "cisi") == {"1": {"28": 1}}


def test_beirs_judgements_are_known_by_their_header(tmp_path):
    text, said = "1\td\t2\n1\te\t0\n", []
    path = put(tmp_path, "a", "query-id\tcorpus-id\tscore\n" + text)
    plain = put(tmp_path, "b", text)
    for read in ((path, "auto"), (path, "beir"), (plain, "beir")):
        found = judgments.read(*read, said.append)
        assert found == {"1": {"d": 2, "e": 0}}
    assert not said


def test_judgements_under_a_header_are_of_its_columns(tmp_path):
    text, said = "1\td\t2\n2\te\t0\n", []
    path = put(tmp_path, "a", "query_id\tdoc_id\trelevance\n" + text)
    assert judgments.read(path, "auto", said.append) == {
        "1": {"d": 2},
        "2": {"e": 0},
    }
    four = "query_id iteration doc_id relevance\n1 0 d 2\n"
    path = put(tmp_path, "b", four)
    for form in ("auto", "trec"):
        found = judgments.read(path, form, said.append)
        assert found == {"1": {"d": 2}}
    with pytest.raises(UserError, match=r"b:1: wanted 4 columns \(cisi\)"):
        judgments.read(path, "cisi")
    assert not said


def test_three_columns_without_a_name_are_said(tmp_path):
    """BEIR's judgements without their header look like Cranfield's, too.

    Those grades run backwards.
    """
    path, said = put(tmp_path, "a", "1 d 2\n"), []
    for form in ("auto", "cranfield"):
        assert judgments.read(path, form, said.append) == {"1": {"d": 3}}
    judgments.read(put(tmp_path, "b", "1 0 d 2\n"), "auto", said.append)
    (line,) = said
    assert "read as Cranfield's, where 1 is the best grade" in line


@pytest.mark.parametrize("documents", ["17 23 4", "d1 d2 d3"])
def test_another_order_of_columns_is_refused(tmp_path, documents):
    """As `ir_datasets` writes them: with one judgement per query none repeats."""
    rows = zip("567", documents.split(), strict=True)
    path = put(tmp_path, "a", "".join(f"{q} {d} 1 0\n" for q, d in rows))
    with pytest.raises(UserError, match=r"3 values in column 2 and 1 in col"):
        judgments.read(path)
    assert judgments.read(path, "trec")["5"] == {"1": 0}
    rounds = put(tmp_path, "b", "5 0.5 1 2\n5 1 2 0\n6 1.5 3 1\n6 2 4 0\n")
    assert judgments.read(rounds)["6"] == {"3": 1, "4": 0}
