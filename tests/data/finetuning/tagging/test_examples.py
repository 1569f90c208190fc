"""Tagged text is read from columns, CoNLL-U and spans; bad lines are named."""

import gzip
import json

import pytest

from common.errors import UserError
from data.finetuning.examples import BadRows
from data.finetuning.options import TaggingDataOptions
from data.finetuning.tagging import answers as tagging_answers
from data.finetuning.tagging import examples as tagging


def test_columns_are_read_by_number(tmp_path):
    path = tmp_path / "dev.conll"
    path.write_text(
        "-DOCSTART- -X- O\n\nAda NNP B-PER\nLovelace NNP I-PER\n\n\n"
        "東 X B-LOC\n京 X I-LOC\nis X O\n"
    )
    first, second = tagging.read(str(path), BadRows())
    assert first.text == "Ada Lovelace"
    assert first.units == ((0, 3), (4, 12))
    assert first.tags == ("B-PER", "I-PER")
    assert second.text == "東京 is"  # no blank between Han characters
    assert second.where == f"{path}:7"
    other = TaggingDataOptions(text_column=2, tag_column=1, token_separator="_")
    assert tagging.read(str(path), BadRows(), other)[0].text == "B-PER_I-PER"
    assert tagging.tag_names([first, second]) == (
        "O",
        "B-LOC",
        "B-PER",
        "I-LOC",
        "I-PER",
    )
    one = tmp_path / "test.txt"
    one.write_text("Ada\nruns\n\n")
    (example,) = tagging.read(str(one), BadRows(), labelled=False)
    assert example.tags is None and example.text == "Ada runs"


def test_only_ascii_blanks_separate_columns(tmp_path):
    path = tmp_path / "train.conll"
    path.write_text(
        " 1\u00a0000 \t\u00a0x  B-NUM\r\n1\u00a0000  B-NUM \n\u3000a O\n",
        encoding="utf-8",
    )
    (example,) = tagging.read(str(path), BadRows())
    tokens = [example.text[s:e] for s, e in example.units]
    assert tokens == ["1\u00a0000", "1\u00a0000", "\u3000a"]
    assert example.tags == ("\u00a0x  B-NUM", "B-NUM", "O")


def test_conllu_has_words_only_and_ten_columns(tmp_path):
    def line(number, form, tag):
        return "\t".join([number, form, "_", tag, *"_" * 6]) + "\n"

    path = tmp_path / "train.conllu"
    text = "# text = zum x\n" + line("1-2", "zum", "_") + line("1", "zu", "P")
    text += line("2", "dem", "D") + line("2.1", "gone", "V")
    path.write_text(text)
    wanted = TaggingDataOptions(text_column=1, tag_column=3)
    (example,) = tagging.read(str(path), BadRows(), wanted)
    assert (example.text, example.tags) == ("zu dem", ("P", "D"))
    with pytest.raises(UserError, match="give --text_column=1"):
        tagging.read(str(path), BadRows())
    path.write_text(text + "3\tx\t_\tN\n")
    with pytest.raises(UserError, match=":6: wanted 10 columns, found 4"):
        tagging.read(str(path), BadRows(), wanted)
    (tmp_path / "a.conll").write_text("a X B\nb B\n")
    with pytest.raises(UserError, match=":2: wanted 3 columns, found 2"):
        tagging.read(str(tmp_path / "a.conll"), BadRows())


@pytest.mark.parametrize("name", ["a.conllu", "a.conll", "a.txt", "a.bio.gz"])
def test_conllu_is_known_by_its_rows(tmp_path, name):
    rows = ["# sent_id = 1", "# a\tb"]
    for number, form, tag in (
        ("1-2", "zum", "_"),
        ("1", "zu", "P"),
        ("2", "#", "D"),
        ("2.1", "gone", "V"),
    ):
        rows.append("\t".join([number, form, "_", tag, *"_" * 6]))
    data = ("\n".join(rows) + "\n").encode()
    path = tmp_path / name
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    wanted = TaggingDataOptions(text_column=1, tag_column=3)
    (example,) = tagging.read(str(path), BadRows(), wanted)
    assert (example.text, example.tags) == ("zu #", ("P", "D"))
    with pytest.raises(UserError, match="give --text_column=1"):
        tagging.read(str(path), BadRows())
    # Columns of another file: "#" is a token, numbers are tokens.
    other = tmp_path / "b.conll"
    other.write_text("# O\n1 B\n1-2 B\n")
    (example,) = tagging.read(str(other), BadRows())
    assert example.text == "# 1 1-2"


@pytest.mark.parametrize("first", [0, 1])
def test_numbers_of_words_are_no_words(tmp_path, first):
    """GermEval's files: number, token, outer tag, inner tag."""
    path = tmp_path / "train.tsv"
    path.write_text(
        f"#\thttp://a.de\t[2009-10-17]\n{first}\tAm\tO\tO\n"
        f"{first + 1}\tTroia\tB-OTH\tB-LOC\n\n"
        f"# http://b.de [2010-01-01]\n{first}\tBonn\tB-LOC\tO\n"
    )
    for labelled in (True, False):
        with pytest.raises(UserError, match="column 0 holds the numbers of"):
            tagging.read(str(path), BadRows(), labelled=labelled)
    wanted = TaggingDataOptions(text_column=1, tag_column=2)
    found = tagging.read(str(path), BadRows(), wanted)
    assert [(e.text, e.tags) for e in found] == [
        ("Am Troia", ("O", "B-OTH")),
        ("Bonn", ("B-LOC",)),
    ]
    path.write_text("1\tNUM\n\n1\tNUM\nb\tX\n")
    assert len(tagging.read(str(path), BadRows())) == 2


def test_json_lines_may_have_their_ending_in_capitals(tmp_path):
    """They were read as columns: `{"text":` was a token."""
    path = tmp_path / "TEST.JSONL.GZ"
    path.write_bytes(gzip.compress(b'{"text": "Ada lives"}\n'))
    (example,) = tagging.read(str(path), BadRows(), labelled=False)
    assert example.text == "Ada lives" and not example.words


def test_texts_keep_their_ids_and_numbers(tmp_path):
    path = tmp_path / "dev.jsonl"
    rows = [{"text": "a", "id": 7}, {"text": ""}, {"text": "b"}]
    rows += [{"text": "c", "GUID": "x-1", "spans": []}, {"text": "d", "id": []}]
    path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    examples = tagging.read(str(path), BadRows(skip=True), labelled=False)
    assert [e.guid for e in examples] == [7, 2, "x-1", 4]
    answers = tagging_answers.Answers([[]] * 4, [[]] * 4, [[]] * 4)
    lines = tagging_answers.prediction_text(examples, answers).splitlines()
    assert [json.loads(line)["id"] for line in lines] == [7, 2, "x-1", 4]
    path = tmp_path / "dev.conll"
    path.write_text("a A\n\nb\nb B\n\n\nc C\n")
    examples = tagging.read(str(path), BadRows(skip=True))
    assert [(e.guid, e.text) for e in examples] == [(0, "a"), (2, "c")]


@pytest.mark.parametrize("where", range(4))
def test_a_sentence_with_an_unreadable_line_is_left_out(tmp_path, where):
    """It was trained on without that token; a problem is told once of each."""
    lines = [b"# one", b"Ada B-PER", b"lives O", b"here O"]
    lines.insert(where + 1, b"caf\xe9 O")
    path = tmp_path / "train.conll"
    path.write_bytes(b"\n".join(lines) + b"\nmore\n\nx O\n")
    bad = BadRows(skip=True)
    (example,) = tagging.read(str(path), bad)
    assert (example.text, example.guid, bad.count) == ("x", 1, 1)
    assert f"train.conll:{where + 2}: " in bad.shown[0]
    with pytest.raises(UserError, match=f"train.conll:{where + 2}: .*UTF-8"):
        tagging.read(str(path), BadRows())


def test_spans_are_read_sorted_and_without_blanks(tmp_path):
    path = tmp_path / "train.jsonl"
    row = {
        "text": "Ada saw Bob ",
        "spans": [
            {"start": 7, "end": 12, "label": "PER"},
            {"start": 0, "end": 3, "label": "PER"},
        ],
    }
    path.write_text(json.dumps(row) + "\n")
    (example,) = tagging.read(str(path), BadRows())
    assert example.units == ((0, 3), (8, 11))
    assert tagging.tag_names([example]) == ("O", "B-PER", "I-PER")
    assert tagging.find_split(str(tmp_path), "train") == str(path)
    assert tagging.find_split(str(tmp_path), "dev") is None


def test_refused_spans_are_no_gold_and_are_predicted(tmp_path):
    path = tmp_path / "train.jsonl"
    span = [{"start": 0, "end": 1, "label": "PER"}]
    answers = ("reject", "accept")
    rows = [
        {"text": a, "spans": span, "_task_hash": 1, "answer": a}
        for a in answers
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    bad = BadRows()
    (example,) = tagging.read(str(path), bad)
    assert example.text == "accept" and "1 rows without" in bad.summary()
    unlabelled = tagging.read(str(path), BadRows(), labelled=False)
    assert [e.text for e in unlabelled] == list(answers)


@pytest.mark.parametrize("packing", ["", ".gz"])
def test_the_files_of_conll_2003_have_their_own_names(tmp_path, packing):
    names = {"train": "eng.train", "dev": "eng.testa", "test": "eng.testb"}
    for split, name in names.items():
        path = tmp_path / (name + packing)
        path.write_text("EU NNP B-NP B-ORG\n")
        assert tagging.find_split(str(tmp_path), split) == str(path)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.conll", "Ada B-PER\nruns\n\n", "a.conll:2: wanted a tag in column"),
        ("a.conll", "\tO\n", "a.conll:1: the token is empty"),
        ("a.conll", "\n \n", "holds no usable text"),
        ("a.jsonl", "{}\n", "a.jsonl:1: wanted a non-empty string 'text'"),
        ("a.jsonl", "[1]\n", "a.jsonl:1: wanted a JSON object"),
        ("a.jsonl", '{"text": "ab"}\n', "wanted 'spans', a list"),
        ("a.jsonl", '{"text": "ab", "spans": [3]}\n', "wanted 'spans', a list"),
        ("a.jsonl", (1, 9, "X"), "1 to 9 does not lie in the text"),
        ("a.jsonl", (0.0, 1, "X"), "wanted 'spans', a list"),
        ("a.jsonl", (0, 1, "O"), "'O' is what no span covers"),
        ("a.jsonl", (2, 3, "X"), "white space only"),
        ("a.jsonl", (0, 2, "X", 1, 2, "Y"), "0 to 2 and 1 to 2 overlap"),
    ],
)
def test_bad_lines_are_named_or_left_out(tmp_path, name, text, message):
    if isinstance(text, tuple):
        keys = ("start", "end", "label")
        spans = [
            dict(zip(keys, text[i : i + 3], strict=True))
            for i in range(0, len(text), 3)
        ]
        text = json.dumps({"text": "ab c", "spans": spans}) + "\n"
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(UserError, match=message):
        tagging.read(str(path), BadRows())
    if "usable" in message:
        return
    good = '{"text": "x", "spans": []}\n' if "json" in name else "\nx O\n"
    path.write_text(text + good)
    bad = BadRows(skip=True)
    assert [e.text for e in tagging.read(str(path), bad)] == ["x"]
    assert bad.count == 1


@pytest.mark.parametrize("text, tag", [(1, -1), (-2, 0), (0, -2), (-1, 1)])
def test_token_and_tag_are_two_columns_of_the_file(tmp_path, text, tag):
    path = tmp_path / "a.conll"
    path.write_text("Ada PER\nlives O\n")
    columns = TaggingDataOptions(text_column=text, tag_column=tag)
    with pytest.raises(UserError, match=r"a.conll:1: .* are one column of 2"):
        tagging.read(str(path), BadRows(True), columns)
    # A text to predict need not have a tag.
    (example,) = tagging.read(str(path), BadRows(), columns, labelled=False)
    assert example.tags is None
    # In three columns they are two.
    path.write_text("x Ada PER\ny lives O\n")
    (example,) = tagging.read(str(path), BadRows(), columns)
    assert len(set(example.tags)) == 2


@pytest.mark.parametrize("header", ["token\ttag", "Word\tPOS\tNER"])
def test_a_header_is_no_word(tmp_path, header):
    path = tmp_path / "a.tsv"
    rest = "\tX" * (header.count("\t") - 1)
    path.write_text(f"{header}\nAda{rest}\tB-PER\n")
    for labelled in (False, True):
        with pytest.raises(UserError, match=r"a.tsv:1: .* found the header"):
            tagging.read(str(path), BadRows(True), labelled=labelled)
    path.write_text(f"Ada{rest}\tB-PER\nword{rest}\tO\n")
    assert tagging.read(str(path), BadRows())[0].tags == ("B-PER", "O")


def test_marks_begin_and_end_spans():
    tags = "B-x I-x E-x E-x S-x S-x I-x O U-y L-y B-y I-x".split()
    parts = [(3 * i, 3 * i + 2, tag) for i, tag in enumerate(tags)]
    assert tagging.join_tags(parts) == [
        (0, 8, "x"),  # B I E
        (9, 11, "x"),  # behind an end E begins
        (12, 14, "x"),
        (15, 17, "x"),
        (18, 20, "x"),  # behind a single one I begins
        (24, 26, "y"),
        (27, 29, "y"),  # behind a single one L begins
        (30, 32, "y"),
        (33, 35, "x"),  # I of another label begins
    ]
