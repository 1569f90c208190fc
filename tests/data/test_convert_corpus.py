"""Public layouts become sentences and documents."""

import gzip
import json
import lzma
import subprocess
import sys

import pytest

from common.errors import UserError
from data import convert_corpus
from data.corpus.options import ConvertOptions
from data.corpus.sentences import sentences
from tests.conftest import ROOT


def test_wikitext():
    lines = [
        " \n",
        " = Red Mill = \n",
        " \n",
        " It cost $ 1 @,@ 200 , and it 's well @-@ known . He left ( early ) .\n",
        " = = History = = \n",
        " It burned .\n",
        " \n",
        " = Blue Mill = \n",
        " \n",
        ' He said " no . " Then e.g. nothing .\n',
    ]
    found = list(convert_corpus.wikitext_paragraphs(iter(lines)))
    assert found[0] is None and found[3] is None and found[-1] is None
    assert found[1] == " It cost $1,200, and it's well-known. He left (early)."
    assert sentences(found[1]) == [
        "It cost $1,200, and it's well-known.",
        "He left (early).",
    ]
    assert len(sentences("Is it? “Yes.” She left.")) == 3


def test_command(tmp_path):
    (tmp_path / "a.txt").write_text("\ufeffOne line\nmore. Two.\n\nThree.\n")
    (tmp_path / "b.txt").write_text("Four.\n")
    out = tmp_path / "out.txt"
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "data.convert_corpus",
            "--layout=book",
            f"--input_glob={tmp_path}/a.txt,{tmp_path}/b.txt",
            f"--output_file={out}",
            "--paragraphs",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == [
        f"{out}: 2 documents",
        f"next: python -m data.train_sentencepiece --input_glob={out} "
        f"--model_prefix={tmp_path}/spiece",
    ]
    assert out.read_text() == (
        "One line more.\nTwo. <eop>\nThree. <eop>\n\nFour. <eop>\n\n"
    )


WIKI = (
    " \n = Red Mill = \n \n It burned . Twice .\n = = Later = = \n A @-@ b .\n"
)
WIKI += " \n = X = \n \n One . \n"


def convert(tmp_path, data, layout, name="in.txt"):
    (tmp_path / name).write_bytes(data)
    out = tmp_path / "out.txt"
    options = ConvertOptions(str(tmp_path / name), str(out), layout)
    return convert_corpus.convert(options), out.read_text("utf-8")


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_line_ends_of_windows_and_a_byte_order_mark_change_nothing(
    tmp_path, mark, capsys
):
    plain = convert(tmp_path, WIKI.encode(), "wikitext")
    windows = WIKI.lstrip(" \n").replace("\n", "\r\n").encode()
    assert convert(tmp_path, mark + b" " + windows, "wikitext") == plain
    assert plain[0] == 2 and "\r" not in plain[1]
    assert plain[1] == "It burned.\nTwice.\nA-b.\n\nOne.\n\n"
    assert capsys.readouterr().err == ""


def test_keys_of_tables_and_formulas_are_no_titles(tmp_path):
    text = " = Mill = \n \n Key : G \n = Goals ; A = \n Games \n It is .\n"
    found = convert(tmp_path, text.encode(), "wikitext")
    assert found == (1, "Key: G\n= Goals; A =\nGames\nIt is.\n\n")


@pytest.mark.long
@pytest.mark.shared
def test_the_600_articles_of_wikitext_2(tmp_path, shared):
    packed = shared / "data" / "lm" / "wikitext-2" / "train.txt.xz"
    data = lzma.decompress(packed.read_bytes())
    count, text = convert(tmp_path, data, "wikitext")
    assert count == 600
    windows = data.replace(b"\n", b"\r\n")
    assert convert(tmp_path, windows, "wikitext") == (count, text)


def test_a_file_without_titles_is_said_to_be_one_document(tmp_path, capsys):
    lines = " A @-@ b .\n == Red Mill ==\n Two @,@ three .\n"
    assert convert(tmp_path, lines.encode(), "wikitext")[0] == 1
    assert "in.txt: 2 lines look like WikiText, but" in capsys.readouterr().err
    convert(tmp_path, b"Plain text.\n", "wikitext")
    assert "is it another layout?" in capsys.readouterr().err
    convert(tmp_path, WIKI.encode(), "book")
    assert "2 lines look like WikiText's titles" in capsys.readouterr().err
    convert(tmp_path, b"Plain text.\n", "book")
    assert capsys.readouterr().err == ""


def test_lines_of_chinese_and_japanese_are_joined_without_a_blank(tmp_path):
    text = "\u3000日本語の\r\n文章です。\nEnglish and\n日本 and\nmore\n한국어\n글\n"
    _, found = convert(tmp_path, text.encode(), "book")
    assert found == (
        "日本語の文章です。\nEnglish and 日本 and more 한국어 글\n\n"
    )


ARTICLES = [("Mill", "It burned. Twice.\n\nThen <b>."), ("Town", "A & b.")]


def test_wikiextractors_files_without_an_ending(tmp_path):
    rows = [json.dumps({"title": t, "text": x}) for t, x in ARTICLES]
    rows.insert(1, json.dumps({"title": "Empty", "text": ""}))
    data = "\n".join(rows).encode() + b"\n"
    as_json = convert(tmp_path, data, "wikiextractor", "wiki_00")
    blocks = "".join(
        f'<doc id="7" url="x" title="{t}">\n{t}\n\n{x}\n</doc>\n\n'
        for t, x in ARTICLES
    ).replace("& b", "&amp; b")
    found = convert(tmp_path, blocks.encode(), "wikiextractor", "wiki_01")
    assert found == as_json
    assert found == (
        2,
        "It burned.\nTwice.\nThen <b>.\n\nA & b.\n\n",
    )
    for bad, message in (
        (b'{"text": 3}\n', r"wiki_02: line 1: wanted WikiExtractor's"),
        (b"plain\n", r"wiki_02: line 1: wanted WikiExtractor's"),
        (b'{"text": "a", "text": "b"}', r"line 1: .* the key 'text' twice"),
        (blocks.encode()[:-8], "has no </doc>"),
        (b'{"text": "a"}\n\xef\n', "wiki_02: line 2: not UTF-8"),
    ):
        with pytest.raises(UserError, match=message):
            convert(tmp_path, bad, "wikiextractor", "wiki_02")


def test_json_of_each_release_of_wikiextractor(tmp_path):
    """0.1 has the title in the text; 3.x escapes `&`, `<` and `>`."""
    for number, text in enumerate(
        (
            "AT&T\n\nR&D, &amp; 3 < 5.\n\nAT&T\n",
            "R&amp;D, &amp;amp; 3 &lt; 5.\nAT&amp;T",
        )
    ):
        rows = [{"title": "AT&T", "text": text}, {"title": "B", "text": "B"}]
        rows.append({"title": "Empty", "text": "Empty\n"})
        data = "\n".join(map(json.dumps, rows)).encode()
        name = f"wiki_{number}"
        found = convert(tmp_path, data, "wikiextractor", name)
        assert found == (2, "R&D, &amp; 3 < 5.\nAT&T\n\nB\n\n")


def _page(**fields):
    index = {"index": {"_type": "_doc", "_id": "12"}}
    return json.dumps(index) + "\n" + json.dumps(fields) + "\n"


def test_a_line_of_white_space_in_html_ends_no_article(tmp_path):
    lines = ["<doc>", "T", "", "One.", "&nbsp;", "&#8203; Two.", "</doc>", ""]
    data = "\n".join(lines).encode()
    found = convert(tmp_path, data, "wikiextractor", "wiki_03")
    assert found == (1, "One.\n\u200b Two.\n\n")


def test_wikipedias_dumps_of_the_search_index(tmp_path):
    """Two articles, a talk page and an empty one, as the dumps hold them."""
    path = tmp_path / "simplewiki-20260101-cirrussearch-content.json.gz"
    pages = (
        _page(title="Mill", namespace=0, text="A mill grinds. It\u00a0turns."),
        _page(title="Talk:Mill", namespace=1, text="Is it so?"),
        _page(title="Empty", namespace=0, text=" "),
        _page(title="Rye", namespace=0, text="Rye is a grain.", wiki="x"),
    )
    with gzip.open(path, "wt", encoding="utf-8") as f:
        f.write("".join(pages))
    out = tmp_path / "out.txt"
    options = ConvertOptions(str(path), str(out), "cirrussearch")
    assert convert_corpus.convert(options) == 2
    assert out.read_text() == (
        "A mill grinds.\nIt turns.\n\nRye is a grain.\n\n"
    )


@pytest.mark.parametrize(
    "line", ['{"title": "x"}', "[]", "{", '{"text": 3}', "<doc>"]
)
def test_what_is_no_page_of_a_dump_is_refused(tmp_path, line):
    path = tmp_path / "dump.json"
    path.write_text(_page(namespace=0, text="A.") + line + "\n")
    out = tmp_path / "out.txt"
    options = ConvertOptions(str(path), str(out), "cirrussearch")
    with pytest.raises(UserError, match="line 3: wanted a page"):
        convert_corpus.convert(options)
    assert not out.exists()


@pytest.mark.parametrize("layout", ["wikiextractor", "cirrussearch"])
def test_half_a_surrogate_pair_is_no_text(tmp_path, layout):
    rows = [
        json.dumps({"text": text}) for text in ("good \U0001f600", "a\ud83d")
    ]
    with pytest.raises(UserError, match=r"in.txt: line 2: \\ud83d is half"):
        convert(tmp_path, "\n".join(rows).encode(), layout)
    _, text = convert(tmp_path, rows[0].encode(), layout)
    assert text == "good \U0001f600\n\n"


@pytest.mark.parametrize("layout", ["wikitext", "book", "cirrussearch"])
def test_input_without_articles_leaves_no_file(tmp_path, layout):
    (tmp_path / "in.txt").write_text("\n\n")
    out = tmp_path / "out.txt"
    options = ConvertOptions(str(tmp_path / "in.txt"), str(out), layout)
    with pytest.raises(UserError, match=f"no article in the layout {layout}"):
        convert_corpus.convert(options)
    assert [path.name for path in tmp_path.iterdir()] == ["in.txt"]
