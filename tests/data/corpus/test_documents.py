"""Raw text: blocks, very long documents, bytes and characters that are none."""

import gzip
import io
import json
import os
import pathlib
import unicodedata

import pytest

from common.errors import UserError
from data.convert_corpus import convert
from data.corpus import corpus_plan
from data.corpus import documents as corpus
from data.corpus.options import ConvertOptions, SentencePieceOptions
from data.finetuning.ranking import lines as ranking_lines
from data.train_sentencepiece import train
from tests.helpers.runs import builds

LATIN1 = "na\u00efve caf\u00e9 .".encode("latin1")


def pack(path, data):
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return str(path)


def test_a_field_of_json_lines_needs_a_file_of_them():
    """Those under another name became text, with braces and all."""
    for path in ("a.jsonl", "B.JSON.gz"):
        corpus.check_text_field("body", ["a.txt", path])
    corpus.check_text_field("text", ["a.txt"])
    message = "--text_field=body is of JSON lines, found no file whose name en"
    with pytest.raises(UserError, match=message):
        corpus.check_text_field("body", ["a.txt", "a.ndjson"])


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a.jsonl.gz"])
def test_a_line_without_an_end_is_named(tmp_path, monkeypatch, name):
    """A packed file of 10 MB may unpack to one line of 10 GB."""
    monkeypatch.setattr(corpus, "LONGEST_LINE", 1000)
    path = pack(tmp_path / name, b"A text.\n\n" * 9 + bytes(5000))
    with pytest.raises(UserError, match="lines of at most 0 MiB, found a long"):
        corpus_plan.plan_corpus([path], 50)
    if "jsonl" not in name:
        with pytest.raises(UserError, match="found a longer one"):
            list(ranking_lines.read(path, "--x"))
    pack(tmp_path / name, b"A text.\n\n" * 9 + b"a" * 999)
    assert len(corpus_plan.plan_corpus([path], 50)) > 1


def test_documents():
    block = corpus.Block("x.txt", 0, 0)
    text = "\ufeffa b\n \t \n\nc <eop>\nd\n<eop>\n\n"
    found = corpus.documents(text.encode(), block)
    assert [d.lines for d in found] == [["a b"], ["c ", "d", ""]]
    assert found[1].paragraph_ends == {0, 2}
    assert found[1].line_number == 3
    with pytest.raises(UserError, match="line 2.*field 'text'"):
        corpus.documents(
            b'{"text": "a"}\n{"body": 1}', corpus.Block("x.jsonl", 0, 0)
        )
    # In capitals, too: braces and quotes were text.
    (document,) = corpus.documents(
        b'{"text": "a"}', corpus.Block("X.JSONL", 0, 0)
    )
    assert document.lines == ["a"]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_document_has_text_and_lines_without_their_ends(end):
    lines = ["a", "<eop>", "b <eop>", "", "<eop>", " <eop>", "", "c ", "", "d"]
    data = end.join(lines).encode() + (b"\r" if "\r" in end else b"")
    found = corpus.documents(data, corpus.Block("x.txt", 0, 0))
    assert [d.lines for d in found] == [["a", "", "b "], ["c "], ["d"]]
    assert [d.line_number for d in found] == [0, 7, 9]
    rows = ["a" + end + "b", "<eop>", "<eop>" + end + "<eop>"]
    data = "\n".join(json.dumps({"text": row}) for row in rows).encode()
    found = corpus.documents(data, corpus.Block("x.jsonl", 0, 0))
    assert [d.lines for d in found] == [["a", "b"]]


OTHER_FILES = [
    ("One.\nTwo.\n".encode("utf-16"), "x.txt: line 1: the file is UTF-16 by"),
    ("One.\n".encode("utf-16-be"), "x.txt: line 1: .* begins as UTF-16BE"),
    (b"One.\rTwo.\rThree.\r", "x.txt: line 1: lines end with CR alone"),
]


@pytest.mark.parametrize("data, found", OTHER_FILES)
def test_other_encodings_and_line_ends_are_named(data, found):
    block = corpus.Block("x.txt", 0, len(data))
    with pytest.raises(corpus.CorpusError, match=found):
        corpus.documents(data, block)
    with pytest.raises(corpus.CorpusError, match=found):
        list(corpus.decode_lines("x.txt", io.BytesIO(data)))


def test_a_mark_is_dropped_at_the_beginning_of_a_file_alone():
    data = "\ufeffa\rb\n\ufeffc\n".encode()
    wanted = ["a\rb\n", "\ufeffc\n"]
    assert list(corpus.decode_lines("x", io.BytesIO(data))) == wanted
    assert corpus.decode(data, corpus.Block("x", 0, 0)) == "".join(wanted)
    later = corpus.decode(data, corpus.Block("x", 9, 0))
    assert later == data.decode()


@pytest.fixture(params=["text.txt", "text.txt.gz"])
def name(request):
    return request.param


def test_a_document_longer_than_four_blocks_is_cut_at_a_line(tmp_path, name):
    lines = [f"line {i} of a book without an end .\n" for i in range(400)]
    data = "".join(lines).encode()
    path = pack(tmp_path / name, data)
    blocks = corpus_plan.plan_blocks(path, 1000)
    assert len(blocks) > 3
    assert [b.start for b in blocks[1:]] == [b.end for b in blocks[:-1]]
    assert (blocks[0].start, blocks[-1].end) == (0, len(data))
    longest = max(b.end - b.start for b in blocks)
    assert longest < corpus.LONGEST_DOCUMENT * 1000 + len(lines[-1])
    reader = corpus.BlockReader()
    found = [
        line
        for b in blocks
        for document in corpus.documents(reader.read(b), b)
        for line in document.lines
    ]
    assert "\n".join(found) + "\n" == "".join(lines)


@pytest.mark.parametrize("name", ["a.csv", "A.TSV", "a.csv.gz"])
def test_a_table_is_no_text(tmp_path, name):
    """Its header, quotes and labels were sentences."""
    path = tmp_path / name
    path.write_bytes(gzip.compress(b'text,label\n"A, b",x\n'))
    with pytest.raises(corpus.CorpusError, match=f"{name}: .* found a table"):
        corpus_plan.plan_blocks(str(path), 100)
    with pytest.raises(corpus.CorpusError, match=f"{name}: .* found a table"):
        corpus.open_text(str(path))


def test_a_packed_file_may_have_its_ending_in_capitals(tmp_path):
    """With --unit=byte its packed bytes were text."""
    path = tmp_path / "A.TXT.GZ"
    path.write_bytes(gzip.compress(b"A text .\n"))
    (block,) = corpus_plan.plan_blocks(str(path), 100)
    assert corpus.BlockReader().read(block) == b"A text .\n"


def test_both_kinds_of_file_are_cut_at_the_same_places(tmp_path):
    path = pathlib.Path(builds.write_corpus(tmp_path / "a.txt", documents=80))
    data = path.read_bytes().replace(
        b"\n\n", b"\n", 40
    )  # the first ones joined
    plain = corpus_plan.plan_blocks(pack(tmp_path / "b.txt", data), 700)
    packed = corpus_plan.plan_blocks(pack(tmp_path / "b.txt.gz", data), 700)
    lines = set()
    place = 0
    for line in data.splitlines(keepends=True):
        place += len(line)
        lines.add(place)
    for found in (plain, packed):
        assert {b.end for b in found} <= lines
        assert max(b.end - b.start for b in found) < 4 * 700 + 200


def test_bytes_that_are_not_utf8_name_file_and_line(tmp_path, name):
    good = b"a sentence .\n\n" * 50
    path = pack(tmp_path / name, good + b"the next is bad\n" + LATIN1 + b"\n")
    blocks = corpus_plan.plan_blocks(path, 200)
    assert len(blocks) > 1
    reader = corpus.BlockReader()
    with pytest.raises(UserError, match=r"line 102: not UTF-8 \(byte 0xef"):
        for b in blocks:
            corpus.documents(reader.read(b), b)


@pytest.mark.parametrize("extra", ["[1]", '{"body": "x"}', '{"text": 3}'])
def test_a_bad_jsonl_line_is_named_by_its_number_in_the_file(tmp_path, extra):
    rows = [json.dumps({"text": f"document {i} ."}) for i in range(30)]
    path = pack(tmp_path / "c.jsonl", "\n".join([*rows, extra]).encode())
    blocks = corpus_plan.plan_blocks(path, 100)
    assert len(blocks) > 3
    with pytest.raises(UserError, match="c.jsonl: line 31: wanted a JSON obj"):
        for b in blocks:
            corpus.documents(corpus.BlockReader().read(b), b)


def test_a_document_with_its_text_twice_is_refused(tmp_path):
    """The last one counted."""
    path = pack(
        tmp_path / "c.jsonl", b'{"text": "a"}\n{"text": "", "text": "b"}'
    )
    block = corpus.Block(path, 0, os.path.getsize(path))
    with pytest.raises(UserError, match=r"line 2: .* the key 'text' twice"):
        corpus.documents(corpus.BlockReader().read(block), block)


def test_half_a_surrogate_pair_is_refused(tmp_path):
    path = pack(tmp_path / "c.jsonl", b'{"text": "a"}\n{"text": "a \\ud800 b"}')
    block = corpus.Block(path, 0, os.path.getsize(path))
    with pytest.raises(UserError, match=r"line 2: \\ud800 is half"):
        corpus.documents(corpus.BlockReader().read(block), block)


@pytest.mark.long
@pytest.mark.parametrize("workers", [1, 2])
def test_a_build_of_bad_text_leaves_nothing_and_the_mended_text_builds(
    tmp_path, workers
):
    path = tmp_path / "corpus.txt"
    builds.write_corpus(path)
    good = path.read_bytes()
    builds.train_spiece(tmp_path, str(path))
    path.write_bytes(good + LATIN1)
    with pytest.raises(UserError, match="corpus.txt: line .*not UTF-8"):
        builds.run(tmp_path, num_workers=workers)
    assert set(os.listdir(tmp_path / "out")) <= {".lock"}
    path.write_bytes(good)
    assert builds.run(tmp_path, num_workers=workers).lanes("train") > 0


def test_other_readers_of_text_refuse_such_bytes_too(tmp_path):
    path = pack(tmp_path / "bad.txt", b"a line .\n" * 200 + LATIN1)
    with pytest.raises(UserError, match="bad.txt: line 201: not UTF-8"):
        train(SentencePieceOptions(path, str(tmp_path / "m"), vocab_size=30))
    assert sorted(os.listdir(tmp_path)) == ["bad.txt"]
    out = str(tmp_path / "out.txt")
    with pytest.raises(UserError, match="bad.txt: line 201: not UTF-8"):
        convert(ConvertOptions(path, out, "book", paragraphs=False))
    assert sorted(os.listdir(tmp_path)) == ["bad.txt"]


# Two plain sentences of each language, written for this test.
LANGUAGES = {
    "en": "The mill burned in 1998, and nobody asked why. It is well known.",
    "de": "Die Mühle brannte 1998, und niemand fragte, warum. Schön wär's.",
    "vi": "Nhà máy bị cháy năm 1998, không ai hỏi vì sao. Điều đó rõ ràng.",
    "ru": "Мельница сгорела в 1998 году, и никто не спросил почему.",
    "hi": "मिल सन् १९९८ में जल गई, और किसी ने नहीं पूछा क्यों। यह सच है।",
    "ta": "ஆலை 1998 இல் எரிந்தது, ஏன் என்று யாரும் கேட்கவில்லை.",
    "th": "โรงสีถูกไฟไหม้ในปี พ.ศ. ๒๕๔๑ และไม่มีใครถามว่าทำไม",
    "ar": "اِحْتَرَقَتِ الطَّاحُونَةُ عَامَ ١٩٩٨، وَلَمْ يَسْأَلْ أَحَدٌ لِمَاذَا.",
    "fa": "آسیاب در سال ۱۳۷۷ سوخت و هیچ‌کس نپرسید چرا. می‌دانیم.",
    "he": "הַטַּחֲנָה נִשְׂרְפָה בִּשְׁנַת 1998, וְאִישׁ לֹא שָׁאַל מַדּוּעַ.",
    "bn": "কলটি ১৯৯৮ সালে পুড়ে গেছে, কেউ জিজ্ঞেস করেনি কেন।",
    "my": "ကြိတ်စက်သည် ၁၉၉၈ ခုနှစ်တွင် မီးလောင်ခဲ့သည်။",
    "km": "រោងម៉ាស៊ីនបានឆេះនៅឆ្នាំ១៩៩៨ ហើយគ្មាននរណាសួរថាហេតុអ្វី។",
    "zh": "磨坊在一九九八年烧毁了，没有人问为什么。这是众所周知的。",
    "ja": "製粉所は１９９８年に燃えた。「なぜ」と聞く人はいなかった。",
    "ko": "방앗간은 1998년에 불탔고, 아무도 이유를 묻지 않았다.",
}


@pytest.mark.parametrize("form", ["NFC", "NFD"])
@pytest.mark.parametrize("language", LANGUAGES)
def test_signs_of_a_script_are_no_symbols(language, form):
    text = unicodedata.normalize(form, LANGUAGES[language])
    # docs/guides/corpora.md recommends 0.3; running text is far below.
    assert corpus.symbol_ratio([text]) < 0.15


def test_symbol_ratio_counts_symbols():
    assert corpus.symbol_ratio(["a-b!", "(c)"]) == pytest.approx(4 / 7)
    assert corpus.symbol_ratio(["+-*/ = |"]) == pytest.approx(6 / 8)
    assert corpus.symbol_ratio(["x\u00b2 \u2167 \u0e17\u0e35"]) == 0.0
    assert corpus.symbol_ratio([]) == 0.0
