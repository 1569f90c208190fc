"""Topics, documents, judgements, runs, folds: every form, every bad line."""

import gzip
import lzma

import pytest

from common.errors import UserError
from data.finetuning.ranking import (
    candidates,
    documents,
    folds,
    judgments,
    runs,
    topics,
)

TREC_TOPICS = """<top>
<num> Number: 301
<title> International
Organized Crime

<desc> Description:
Identify organizations.
</top>
<top><num>302</num><title>Poliomyelitis</title></top>
"""
TREC_DOCUMENTS = """<DOC>
<DOCNO> A-1 </DOCNO>
<DOCHDR>http://example.org 200</DOCHDR>
<html><script>var x = "no";</script><p>R&amp;D <b>pays</b></p></html>
</DOC>
<DOC><DOCNO>A-2</DOCNO> plain </DOC>
"""


def put(folder, name, text):
    path = folder / name
    data = text if isinstance(text, bytes) else text.encode()
    pack = {".gz": gzip.compress, ".xz": lzma.compress}.get(path.suffix)
    path.write_bytes(pack(data) if pack else data)
    return str(path)


def texts(path, form="auto"):
    return {d.id: d.text for d in documents.stream(path, form)}


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


def test_trec_topics_and_their_fields(tmp_path):
    path = put(tmp_path, "topics", TREC_TOPICS)
    assert topics.read(path) == {
        "301": "International Organized Crime",
        "302": "Poliomyelitis",
    }
    with pytest.raises(UserError, match="wanted some of title, desc, narr"):
        topics.read(path, fields=("title", "body"))
    both = topics.read(path, fields=("title", "desc"))
    assert both["301"].endswith("Crime Identify organizations.")


def test_cranfield_counts_queries_from_one(tmp_path):
    path = put(tmp_path, "q", ".I 001\n.W\na\n.I 004\n.W\nb\n")
    assert topics.read(path, "cranfield") == {"1": "a", "2": "b"}
    assert list(topics.read(path)) == ["001", "004"]


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


def test_documents_are_read_one_at_a_time(tmp_path):
    good = "".join(f'{{"id": {i}, "text": "x"}}\n' for i in range(3))
    path = put(tmp_path, "d.jsonl", good + "broken\n")
    stream = documents.stream(path)
    assert [next(stream).id for _ in range(3)] == ["0", "1", "2"]
    with pytest.raises(UserError, match=r"d.jsonl:4: wanted a JSON object"):
        next(stream)


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


def cisi(path):
    return judgments.read(path, "cisi")


def cranfield(path):
    return topics.read(path, "cranfield")


BAD = [
    (topics.read, "1:a\n1:b\n", r"t:2: the query '1' is already on line 1"),
    (topics.read, "no colon\n", r"t:1: wanted <top>"),
    (topics.read, "1:  \n", r"t:1: wanted a text for query '1'"),
    (topics.read, "", r"t is empty"),
    (topics.read, "1\ta\nb\n", r"t:2: wanted id<tab>text, found 'b'"),
    (topics.read, "<top>\n<num>1\n<top>\n", r"t:3: wanted </top> before it"),
    (topics.read, '{"id": [1], "text": "a"}', r"t:1: wanted a string in id or"),
    (topics.read, ".I 1\nloose\n", r"t:2: wanted a field such as"),
    (topics.read, b"1:ok\n2:\xff\n", r"t: line 2: not UTF-8 \(byte 0xff"),
    (judgments.read, "1 0 d 1\n1 0 d 2\n", r"t:2: document 'd' .* second time"),
    (judgments.read, "1 0 d x\n", r"t:1: wanted a whole grade.*=cisi"),
    (judgments.read, "1 0 d 1\n1 0 d\n", r"t:2: wanted 4 columns \(trec\)"),
    (judgments.read, "1 d 7\n", r"t:1: wanted a code of -1, 1, 2, 3, 4"),
    (runs.read, "1 Q0 d 1 nan x\n", r"t:1: wanted a finite score in column 5"),
    (runs.read, "1 Q0 d 1 2.0\n", r"t:1: wanted 6 columns"),
    (runs.read, "1 Q0 d 1 2 x\n1 Q0 d 2 1 x\n", r"t:2: document 'd' comes a"),
    (texts, "<DOC>\n<DOCNO>a</DOCNO>\n<DOC>\n", r"t:3: wanted </DOC> before"),
    (texts, "<DOC>\nx\n</DOC>\n", r"t:1: wanted <DOCNO>"),
    (texts, "<DOC>\n<DOCNO>a</DOCNO>\n", r"t:1: wanted </DOC> after <DOC>"),
    (texts, "a b\tx\n", r"t:1: wanted a document id without white space"),
    (texts, "a\tx\nb\n", r"t:2: wanted id<tab>text, found 'b'"),
    (texts, '{"id": "a", "n": 1}\n', r"t:1: wanted a string in text or conte"),
    (texts, '{"id": "a", "text": "b", "title": 1}', r"t:1: wanted a string in"),
    (texts, ".I 1\n.W\nx\n.I\n", r"t:4: wanted a number after .I without"),
    (judgments.read, "1 d 2 1 .5\n1 e x 1 .5\n", r"t:2: wanted a whole number"),
    (cisi, "1 28 0 0.0\n1 28\n", r"t:2: wanted 4 columns \(cisi\)"),
    (cranfield, ".I 1\n.W\na\n.I 2\n.W\n", r"t:4: wanted a text for query"),
]


@pytest.mark.parametrize(("read", "text", "message"), BAD)
def test_a_bad_line_is_named(tmp_path, read, text, message):
    with pytest.raises(UserError, match=message) as caught:
        read(put(tmp_path, "t", text))
    assert "\n" not in str(caught.value)


def test_damaged_and_missing_files_are_named(tmp_path):
    path = tmp_path / "t.xz"
    path.write_bytes(lzma.compress(b"1:a\n" * 999)[:40])
    with pytest.raises(UserError, match=r"t.xz: damaged or cut after line"):
        topics.read(str(path))
    with pytest.raises(UserError, match="--topics_file=.*cannot be read"):
        topics.read(str(tmp_path / "none"))
    with pytest.raises(UserError, match="--documents=.* matches no file"):
        texts(str(tmp_path / "none*"))


def test_a_run_is_ordered_by_score_then_by_id_descending(tmp_path):
    run = {"2": {"a": 1.0, "c": 0.1 + 0.2, "b": 1.0}, "1": {"x": -3.0}}
    path = str(tmp_path / "run")
    runs.write(path, run, "tag")
    rows = [
        line.split() for line in (tmp_path / "run").read_text().splitlines()
    ]
    assert [row[2] for row in rows] == ["b", "a", "c", "x"]
    assert [row[3] for row in rows] == ["1", "2", "3", "1"]
    assert runs.read(path) == run
    assert runs.top(run, 2) == {"2": {"b": 1.0, "a": 1.0}, "1": {"x": -3.0}}


def test_folds_test_every_query_once_and_can_be_repeated(tmp_path):
    names = [str(i) for i in range(11)]
    made = folds.make(names, 4, 7)
    assert sorted(q for f in made for q in f.test) == sorted(names)
    for fold in made:
        parts = [*fold.train, *fold.dev, *fold.test]
        assert sorted(parts) == sorted(names)
    assert folds.make(names[::-1], 4, 7) == made != folds.make(names, 4, 8)
    path = str(tmp_path / "folds.json")
    folds.write(path, made)
    assert folds.read(path, names) == made
    with pytest.raises(UserError, match="fold 0 names the query"):
        folds.read(path, names[1:])
    twice = [made[0], made[0]]
    folds.write(path, twice)
    with pytest.raises(UserError, match="fold 1 has the query '.*' twice"):
        folds.read(path, names)
    (tmp_path / "folds.json").write_text('{"folds": [{"train": 1}]}')
    with pytest.raises(UserError, match='wanted {"folds"'):
        folds.read(path, names)
    with pytest.raises(UserError, match="--folds must be 3 to"):
        folds.make(names, 2, 0)


def test_words_of_scripts_with_and_without_spaces(tmp_path):
    assert candidates.split("the state-of-the-art x 3d") == [
        *["the", "state", "of", "the", "art", "3d"]
    ]
    assert candidates.split("机器学习 ok 好") == [
        "机器",
        "器学",
        "学习",
        "ok",
        "好",
    ]
    assert candidates.split("مَرحبا हिन्दी") == ["مَرحبا", "हिन्दी"]
    path = put(tmp_path, "stop", "The\n\nof\n")
    assert candidates.read_stop_words(path) == ("the", "of")
    assert candidates.read_stop_words("") == ()
    assert "the" in candidates.read_stop_words("en")
    with pytest.raises(UserError, match="stop:1: wanted a stop word without"):
        candidates.read_stop_words(put(tmp_path, "stop", "of the\n"))
    with pytest.raises(UserError, match="--stop_words=.* holds no word"):
        candidates.read_stop_words(put(tmp_path, "stop", "\n"))


def test_a_collection_in_another_script(tmp_path):
    rows = ["a\t河流在森林里流动", "b\t学校的音乐老师", "c\t厨房里的窗户"]
    path = put(tmp_path, "d.tsv", "\n".join(rows))
    index = candidates.Bm25(documents.stream(path))
    run = index.search({"1": "音乐学校", "2": "森林的河流", "3": "المدرسة"}, 9)
    assert [next(iter(run[q])) for q in "12"] == ["b", "a"]
    assert "3" not in run
    path = put(tmp_path, "e.tsv", "a\tالموسيقى في المدرسة\nb\tالنهر والغابة\n")
    index = candidates.Bm25(documents.stream(path), stop_words="")
    assert list(index.search({"1": "المدرسة"}, 9)["1"]) == ["a"]
