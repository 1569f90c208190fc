"""Answers that are where they say, and why others are not."""

import json
import lzma
import unicodedata

import pytest

from common.errors import UserError
from data.finetuning.examples import BadRows
from data.finetuning.options import FeatureOptions, SquadDataOptions
from data.finetuning.squad import answer_places, examples
from data.finetuning.squad import windows as squad_windows
from tests.helpers import languages

CONTEXT = "Caf\u00e9 \U0001f600 by Ada  Lovelace,\nin 1843, in London."


@pytest.mark.parametrize(
    "text, start, there",
    [
        ("Ada  Lovelace", 10, "Ada  Lovelace"),
        ("Ada Lovelace", 10, "Ada  Lovelace"),
        ("ADA LOVELACE", 10, "Ada  Lovelace"),
        (" Ada\u00a0Lovelace ", 9, " Ada  Lovelace"),
        ("Lovelace, in 1843", 15, "Lovelace,\nin 1843"),
        ("Cafe\u0301", 0, "Caf\u00e9"),
        ("Cafe", 0, "Caf\u00e9"),
        ("\uff21da", 10, "Ada"),
        ("Lon\u00addon", 37, "London"),
        # From the space before it.
        ("London", 36, " London"),
    ],
)
def test_the_same_place_in_another_spelling(text, start, there):
    end = answer_places.end_of(CONTEXT, text, start)
    assert CONTEXT[start:end] == there
    assert answer_places.problem(CONTEXT, text, start) is None


@pytest.mark.parametrize("language", languages.LANGUAGES)
def test_composed_and_decomposed_words_of_nine_languages(language):
    for line in languages.lines(language):
        apart = unicodedata.normalize("NFD", line)
        for context, other in ((line, apart), (apart, line)):
            end = answer_places.end_of(context, other, 0)
            assert unicodedata.normalize("NFC", context[:end]) in (
                unicodedata.normalize("NFC", line),
                # A last mark is a part of the character before it.
                unicodedata.normalize("NFC", line)[:-1],
            )


@pytest.mark.parametrize(
    "context, text, start, words",
    [
        (CONTEXT, "London", 41, "at 37: .* count bytes of UTF-8"),
        (CONTEXT, "London", 38, "at 37: .* count UTF-16 units"),
        ("Cafe\u0301 end", "nd", 6, "at 7: .* count composed characters"),
        ("a\nb\nthe end", "end", 10, "at 8: .* as two characters"),
        ("a\r\nb\r\nthe end", "end", 8, "at 10: .* as one character"),
        ("the end", "end", 5, "at 4: .* count from 1"),
        ("\ufeffthe end", "nd", 5, "at 6: .* behind the byte order mark"),
        ("end, the end", "end", 7, "nearest place of this text is 9"),
        ("the end", "stop", 1, "holds this text nowhere"),
        ("the end", "stop", 900, "do not fit the paragraph's 7; .* nowhere"),
        ("the end", "end", -1, "do not fit the paragraph's 7; .* is 4"),
        ("the end", " \n", 3, "the answer is empty"),
    ],
)
def test_other_words_are_refused_with_the_likely_cause(
    context, text, start, words
):
    assert answer_places.problem(context, text, start) is not None
    with pytest.raises(UserError, match=words):
        raise UserError(answer_places.problem(context, text, start))


def write(path, context, answers):
    qas = [
        {
            "id": str(i),
            "question": "?",
            "answers": [{"text": text, "answer_start": start}],
        }
        for i, (text, start) in enumerate(answers)
    ]
    value = {"data": [{"paragraphs": [{"context": context, "qas": qas}]}]}
    path.write_text(json.dumps(value))
    return str(path)


def test_shifted_answers_are_bad_rows(tmp_path):
    """All of a file whose offsets are bytes, but those before the accent."""
    words = [w.strip(",.") for w in CONTEXT.split()]
    places = [CONTEXT.index(word) for word in words]
    bytes_of = [len(CONTEXT[:place].encode()) for place in places]
    path = write(
        tmp_path / "b.json", CONTEXT, zip(words, bytes_of, strict=True)
    )
    bad = BadRows(skip=True)
    file = examples.read_squad(path, True, bad)
    assert [q.answer for q in file.questions] == ["Caf\u00e9"]
    assert bad.count == len(words) - 1
    with pytest.raises(UserError, match=r"question 1: '1': .* bytes of UTF-8"):
        examples.read_squad(path, True, BadRows())
    # Evaluation compares texts, not places.
    assert len(examples.read_squad(path, False, BadRows()).questions) == 9


@pytest.mark.shared
def test_the_span_ends_where_the_paragraph_ends_it(spiece_model, tmp_path):
    context = "It was Ada   Lovelace in 1843."
    answers = [("Ada Lovelace", 7), ("Ada   Lovelace", 7)]
    path = write(tmp_path / "s.json", context, answers)
    file = examples.read_squad(path, True, BadRows())
    assert [q.answer for q in file.questions] == [a for a, _ in answers]
    split = squad_windows.build_split(
        file,
        FeatureOptions(spiece_model, 64),
        SquadDataOptions(max_query_length=8),
        True,
    )
    columns = split.windows.table.columns
    for name in ("start_positions", "end_positions"):
        assert columns[name][0] == columns[name][1]
    end = split.paragraphs[0].end[columns["end_positions"][0]]
    assert context[:end].endswith("Lovelace")


@pytest.mark.shared
@pytest.mark.parametrize("name", ["train-v1.1", "train-v2.0", "dev-v1.1"])
def test_every_official_answer_is_in_its_place(shared, name):
    with lzma.open(shared / "data" / "squad" / f"{name}.json.xz") as f:
        articles = json.load(f)["data"]
    checked = 0
    for paragraph in (p for a in articles for p in a["paragraphs"]):
        context = paragraph["context"]
        for answer in (a for q in paragraph["qas"] for a in q["answers"]):
            start = answer["answer_start"]
            end = answer_places.end_of(context, answer["text"], start)
            assert end == start + len(answer["text"])
            checked += 1
    assert checked > 2000
