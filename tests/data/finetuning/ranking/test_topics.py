"""Topics of every form become one text per query."""

import pytest

from common.errors import UserError
from data.finetuning.ranking import topics
from tests.data.finetuning.ranking_files import put

TREC_TOPICS = """<top>
<num> Number: 301
<title> International
Organized Crime

<desc> Description:
Identify organizations.
</top>
<top><num>302</num><title>Poliomyelitis</title></top>
"""


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("1:obama family: tree\n\n2:x\n", {"1": "obama family: tree"}),
        ("1\tobama  tree\r\n2\tx\n", {"1": "obama tree"}),
        ('{"id": 1, "text": "a b"}\n{"qid": "2", "query": "x"}', {"1": "a b"}),
        (".I 1\n.W\na\nb\n.I 2\n.T\nno\n.W\nx\n", {"1": "a b"}),
    ],
)
def test_topics_in_every_form(tmp_path, text, wanted):
    for name in ("t", "t.gz", "t.xz"):
        found = topics.read(put(tmp_path, name, text))
        assert found == wanted | {"2": "x"}


@pytest.mark.parametrize(
    "header", ["query-id\ttext", "\ufeffqid\tquery", "\n_id\tTitle\tText"]
)
def test_a_header_is_no_query(tmp_path, header):
    path = put(tmp_path, "t", f"{header}\n1\tobama\n2\tquery\ttext\n")
    assert topics.read(path) == {"1": "obama", "2": "query text"}


def test_trec_topics_and_their_fields(tmp_path):
    path = put(tmp_path, "topics", TREC_TOPICS)
    assert topics.read(path) == {
        "301": "International Organized Crime",
        "302": "Poliomyelitis",
    }
    with pytest.raises(UserError, match="wanted some of title, desc, narr"):
        topics.read(path, fields=("title", "body"))
    table = put(tmp_path, "topics.tsv", "1\tobama\n")
    with pytest.raises(UserError, match="have no fields in the form 'tsv'"):
        topics.read(table, fields=("title", "desc"))
    both = topics.read(path, fields=("title", "desc"))
    assert both["301"].endswith("Crime Identify organizations.")


def test_fields_of_trecs_first_years_belong_to_no_other(tmp_path):
    text = (
        "<top>\n<head> Tipster Topic Description\n<num> Number:  051\n"
        "<dom> Domain:  Economics\n<title> Topic:  Airbus Subsidies\n"
        "<desc> Description:\nAssistance.\n<smry> Summary:\nNo.\n"
        "<narr> Narrative:\nCite it.\n<con> Concept(s):\n1. No\n"
        "<fac> Factor(s):\n<nat> Nationality: No\n<time> Time: No\n</fac>\n"
        "<def> Definition(s):\nNo\n</top>\n"
    )
    path = put(tmp_path, "topics", text)
    assert topics.read(path) == {"051": "Airbus Subsidies"}
    found = topics.read(path, fields=("desc", "narr"))
    assert found == {"051": "Assistance. Cite it."}


def test_cranfield_counts_queries_from_one(tmp_path):
    path = put(tmp_path, "q", ".I 001\n.W\na\n.I 004\n.W\nb\n")
    assert topics.read(path, "cranfield") == {"1": "a", "2": "b"}
    assert list(topics.read(path)) == ["001", "004"]
