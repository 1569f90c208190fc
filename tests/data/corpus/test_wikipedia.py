"""Wikipedia's XML dumps: five pages of a real one, and damage."""

import bz2
import pathlib
import sys

import pytest

from common.errors import UserError
from data import convert_corpus
from data.corpus import wikipedia
from data.corpus.documents import CorpusError
from data.corpus.options import ConvertOptions

DUMP = pathlib.Path(__file__).parents[2] / "golden"
DUMP = DUMP / "enwiki-pages-articles.xml.bz2"
PAGE = (
    "<mediawiki><siteinfo><namespaces><namespace key='6'>Datei</namespace>"
    "</namespaces></siteinfo><page><ns>{ns}</ns><revision><text>{text}</text>"
    "</revision></page></mediawiki>"
)


def paragraphs(text, ns=0):
    pytest.importorskip("mwparserfromhell")
    found = wikipedia.paragraphs([PAGE.format(ns=ns, text=text)], "x.xml")
    return list(found)


def test_articles_of_a_real_dump(tmp_path):
    """A redirect and a page that is no article are among the five."""
    pytest.importorskip("mwparserfromhell")
    out = tmp_path / "out.txt"
    options = ConvertOptions(str(DUMP), str(out), "wikipedia", paragraphs=True)
    assert convert_corpus.convert(options) == 3
    text = out.read_text(encoding="utf-8")
    articles = text.removesuffix("\n\n").split("\n\n")
    begins = [
        "Actresses (Catalan: Actrius) is a 1997 Catalan language Spanish drama",
        "An appellate court, commonly called an appeals court,",
        "Brahui is a Dravidian language spoken primarily by the Brahui people",
    ]
    for article, begin in zip(articles, begins, strict=True):
        assert article.startswith(begin), article[:200]
    for mark in ("[[", "]]", "{{", "}}", "{|", "<ref", "==", "'''", "|"):
        assert mark not in text, mark
    for left_out in ("Category:", "File:", "REDIRECT", "Nupedia", "thumb"):
        assert left_out not in text, left_out
    assert "The film has no male actors, with all roles played by" in text
    assert text.count(" <eop>\n") == 46
    lines = [line.removesuffix(" <eop>") for line in text.splitlines()]
    assert sum(line.endswith(".") for line in lines) > 60


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a [[b|c]] ''d'' '''e'''", ["a c d e"]),
        ("a{{t|x}} (; ) b&amp;nbsp;c", ["a b c"]),
        ("[[Datei:x.png|thumb|a [[b]]]]c\n\n[[de:X]]\n[[Image:y]]", ["c"]),
        ("== H ==\na&lt;ref>[[Datei:x]]&lt;/ref>\n* b\n# c", ["a", "b", "c"]),
        ("{| class=x\n|-\n| a || b\n|}\nc\n| rest\n! rest", ["c"]),
        ("1: [[Star Trek: Picard|P]] [[:Category:A|B]]", ["1: P B"]),
        ("a&lt;!-- b -->c &lt;math>x&lt;/math>d", ["ac d"]),
        # Half of a surrogate pair, which no file can hold.
        ("a &amp;#xD83D; b", ["a \ufffd b"]),
        ("", []),
    ],
)
def test_markup(text, wanted):
    assert paragraphs(text) == [*wanted, None]


def test_other_pages_are_left_out():
    assert paragraphs("a", ns=1) == []


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["<mediawiki><page>"], "d.xml: wanted a whole XML dump .* cut off"),
        (["plain text"], "d.xml: wanted a whole XML dump"),
        ([], "d.xml: wanted a whole XML dump"),
        (
            [
                "<!DOCTYPE x [<!ENTITY a0 'aaaaaaaaaa'>",
                *(
                    f"<!ENTITY a{i} '{f'&a{i - 1};' * 10}'>"
                    for i in range(1, 9)
                ),
                "]><mediawiki>&a8;</mediawiki>",
            ],
            "d.xml: wanted a whole XML dump",
        ),
    ],
)
def test_what_is_no_dump_is_one_line(lines, message):
    pytest.importorskip("mwparserfromhell")
    with pytest.raises(CorpusError, match=message) as caught:
        list(wikipedia.paragraphs(lines, "d.xml"))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["novel.txt.bz2", "NOVEL.TXT.BZ2"])
def test_packed_files_of_every_layout(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(bz2.compress(b"It burned.\nTwice.\n"))
    out = tmp_path / "out.txt"
    options = ConvertOptions(str(path), str(out), "book")
    assert convert_corpus.convert(options) == 1
    assert out.read_text() == "It burned.\nTwice.\n\n"


def test_without_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "mwparserfromhell", None)
    with pytest.raises(UserError, match="requirements-corpus.txt"):
        list(wikipedia.paragraphs([], "x"))
