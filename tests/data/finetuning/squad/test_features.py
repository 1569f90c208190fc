"""SQuAD windows: worked rows, golden features, odd texts, workers and cache."""

import gzip
import json

import numpy as np
import pytest

from common.contract import symbols
from common.contract.symbols import SymbolIds
from common.vocabularies.text_settings import TextSettings
from data.finetuning.examples import BadRows
from data.finetuning.options import FeatureOptions, SquadDataOptions
from data.finetuning.squad import examples as squad_examples
from data.finetuning.squad import features as squad_features
from data.finetuning.squad import windows as squad_windows
from data.finetuning.squad.features import (
    AnswerSpan,
    TokenizedParagraph,
    WindowBuilder,
)
from data.text.tokenizer import WORD_MARK, Tokenizer
from tests.data.finetuning.squad.original_spans import original_spans


def builder(**kwargs):
    settings = {
        "max_seq_length": 10,
        "max_query_length": 2,
        "doc_stride": 3,
        "ids": SymbolIds(),
        "training": True,
    }
    return WindowBuilder(**(settings | kwargs))


def paragraph(n):
    """n tokens of two characters each."""
    start = np.arange(n, dtype=np.int32) * 2
    return TokenizedParagraph(
        np.arange(11, 11 + n, dtype=np.int32), start, start + 2
    )


def test_worked_row_of_the_docstring():
    build = builder()
    build.add(0, [21, 22, 23], paragraph(4), AnswerSpan(4, 7))
    windows = build.finish()
    batch = squad_features.expand_batch(windows.table.batch(np.array([0]), 10))
    rows = {
        "input_ids": [11, 12, 13, 14, 4, 21, 22, 4, 3, 0],
        "segment_ids": [0, 0, 0, 0, 0, 1, 1, 1, 2, 3],
        "input_mask": [1] * 9 + [0],
        "paragraph_mask": [1, 1, 1, 1, 0, 0, 0, 0, 1, 0],
    }
    for name, row in rows.items():
        assert batch[name][0].tolist() == row, name
    assert batch["start_positions"][0] == 2
    assert batch["end_positions"][0] == 3
    assert batch["is_impossible"][0] == 0


def test_windows_without_the_answer_are_impossible():
    build = builder()
    build.add(0, [21, 22], paragraph(9), AnswerSpan(12, 13))  # token 6
    table = build.finish().table
    assert build.finish().doc_start.tolist() == [0, 3, 6]
    assert table.columns["paragraph_length"].tolist() == [5, 5, 3]
    assert table.columns["start_positions"].tolist() == [9, 3, 0]
    assert table.columns["is_impossible"].tolist() == [1, 0, 0]


@pytest.mark.shared
@pytest.mark.parametrize(
    "name", ["train64", "train64_uncased", "dev64", "dev160"]
)
def test_golden_features_are_exact(golden, spiece_model, name):
    path = golden / "squad" / "features.json.gz"
    run = json.loads(gzip.decompress(path.read_bytes()))["runs"][name]
    settings = run["settings"]
    training, length = settings["is_training"], settings["max_seq_length"]
    file = squad_examples.read_squad(
        str(golden / "squad" / settings["file"]), training, BadRows()
    )
    split = squad_windows.build_split(
        file,
        FeatureOptions(
            spiece_model, length, TextSettings(uncased=settings["uncased"])
        ),
        SquadDataOptions(
            max_query_length=settings["max_query_length"],
            doc_stride=settings["doc_stride"],
        ),
        training,
    )
    # The original drops s6a (Hangul) with "MISMATCH DETECTED!"; we keep it.
    dropped = [q.question_id for q in file.questions].index("s6a")
    ours = np.flatnonzero(split.windows.question != dropped)
    assert run["mismatch_count"] == 1
    assert len(ours) == len(run["features"]) < len(split.windows.question)
    batch = squad_features.expand_batch(split.windows.table.batch(ours, length))
    for number, feature in enumerate(run["features"]):
        check_arrays(batch, number, feature, training)
    check_spans(split, ours, run["features"], spiece_model, settings["uncased"])


def check_arrays(batch, row, feature, training):
    for name, wanted in (
        ("input_ids", feature["input_ids"]),
        ("segment_ids", feature["segment_ids"]),
        # The original's masks: 1 = padding, 1 = no answer here.
        ("input_mask", [1 - x for x in feature["input_mask"]]),
        ("paragraph_mask", [1 - x for x in feature["p_mask"]]),
    ):
        assert batch[name][row].tolist() == wanted, name
    assert batch["cls_index"][row] == feature["cls_index"]
    if training:
        assert batch["start_positions"][row] == feature["start_position"]
        assert batch["end_positions"][row] == feature["end_position"]
        assert bool(batch["is_impossible"][row]) == feature["is_impossible"]


def check_spans(split, ours, features, spiece_model, uncased):
    tokenizer = Tokenizer(spiece_model, TextSettings(uncased=uncased))
    paragraph_of = [q.paragraph for q in split.file.questions]
    texts = squad_features.window_texts(
        split.windows, split.paragraphs, paragraph_of
    )
    for window, feature in zip(ours, features, strict=True):
        question, text = texts[window]
        whole = split.paragraphs[paragraph_of[question]]
        marked = [
            tokenizer.id_to_piece(int(i))[0] == WORD_MARK for i in whole.ids
        ]
        first, last = original_spans(whole, marked)
        start, length = feature["doc_span"]
        span = slice(start, start + length)
        assert first[span].tolist() == feature["tok_start_to_orig_index"]
        assert last[span].tolist() == feature["tok_end_to_orig_index"]
        assert text.max_context.tolist() == feature["token_is_max_context"]
        raw = split.file.paragraphs[paragraph_of[question]]
        for a, b, c, d in zip(
            text.token_start,
            text.token_end,
            first[span],
            last[span],
            strict=True,
        ):
            # Lone marks have no text, but for the one before the text.
            if b >= a or raw[c : d + 1].strip():
                assert raw[a : b + 1] == raw[c : d + 1].strip()


@pytest.mark.shared
@pytest.mark.parametrize(
    "name, training", [("train64", True), ("dev64", False)]
)
def test_golden_records_hold_the_same_features(
    golden, spiece_model, name, training
):
    tf = pytest.importorskip("tensorflow")
    file = squad_examples.read_squad(
        str(golden / "squad" / ("train.json" if training else "dev.json")),
        training,
        BadRows(),
    )
    split = squad_windows.build_split(
        file,
        FeatureOptions(spiece_model, 64),
        SquadDataOptions(max_query_length=12, doc_stride=24),
        training,
    )
    dropped = [q.question_id for q in file.questions].index("s6a")
    ours = np.flatnonzero(split.windows.question != dropped)
    batch = squad_features.expand_batch(split.windows.table.batch(ours, 64))
    records = tf.data.TFRecordDataset(
        str(golden / "squad" / f"{name}.tf_record")
    )
    count = 0
    for row, record in enumerate(records.as_numpy_iterator()):
        example = tf.train.Example.FromString(record)
        feature = {
            key: list(value.int64_list.value or value.float_list.value)
            for key, value in example.features.feature.items()
        }
        assert batch["input_ids"][row].tolist() == feature["input_ids"]
        assert batch["segment_ids"][row].tolist() == feature["segment_ids"]
        assert (1 - batch["input_mask"][row]).tolist() == feature["input_mask"]
        assert (1 - batch["paragraph_mask"][row]).tolist() == feature["p_mask"]
        assert [batch["cls_index"][row]] == feature["cls_index"]
        if training:
            assert [batch["start_positions"][row]] == feature["start_positions"]
            assert [batch["end_positions"][row]] == feature["end_positions"]
            assert [batch["is_impossible"][row]] == feature["is_impossible"]
        count += 1
    assert count == len(ours)


ODD = (
    "한국어 문장. 서울은 큰 도시.",
    "e\u0301 cafe\u0301  😀😀 end",
    "  two   spaces\t\there ",
    "x² ½ ﬁne … ``q''",
    "1,953, was 2,000, late",
    "\u200b\ufeffzero width",
)


@pytest.mark.shared
@pytest.mark.parametrize("text", ODD)
def test_every_word_of_odd_texts_can_be_answered(spiece_model, tmp_path, text):
    questions, start = [], 0
    for number, word in enumerate(text.split()):
        start = text.index(word, start)
        answer = {"text": word, "answer_start": start}
        questions.append(
            {"id": str(number), "question": "?", "answers": [answer]}
        )
        start += len(word)
    value = {"data": [{"paragraphs": [{"context": text, "qas": questions}]}]}
    path = tmp_path / "odd.json"
    path.write_text(json.dumps(value))
    file = squad_examples.read_squad(str(path), True, BadRows())
    split = squad_windows.build_split(
        file,
        FeatureOptions(spiece_model, 96),
        SquadDataOptions(max_query_length=8),
        True,
    )
    columns = split.windows.table.columns
    whole = split.paragraphs[0]
    for row, question in enumerate(questions):
        assert columns["is_impossible"][row] == 0
        a = whole.start[columns["start_positions"][row]]
        b = whole.end[columns["end_positions"][row]]
        assert text[a:b].strip() == question["answers"][0]["text"].strip(
            "\u200b\ufeff"
        ) or (question["answers"][0]["text"] in text[a:b])


def test_windows_follow_each_other_where_the_stride_is_longer():
    found = squad_features.doc_windows(10, 3, 5)
    assert found == [(0, 3), (3, 3), (6, 3), (9, 1)]


@pytest.mark.parametrize(
    "answer, wanted",
    [
        ((2, 5), (0, 3, False)),
        ((3, 4), (1, 2, False)),
        ((3, 6), (9, 9, True)),  # its last token is the one behind the window
        ((1, 3), (9, 9, True)),
        (None, (9, 9, True)),
    ],
    ids=str,
)
def test_an_answer_lies_in_a_window_whole_or_not_at_all(answer, wanted):
    # The window holds tokens 2 to 5, CLS stands at 9.
    assert squad_features._window_answer(answer, 2, 4, 9) == wanted


IDS = SymbolIds()


@pytest.mark.parametrize("layout", symbols.LAYOUTS)
def test_windows_name_the_same_tokens_in_both_layouts(layout):
    paragraph = squad_features.TokenizedParagraph(
        np.arange(50, 60, dtype=np.int32),
        np.arange(0, 20, 2),
        np.arange(2, 22, 2),
    )
    builder = squad_features.WindowBuilder(10, 3, 3, IDS, True, layout)
    span = squad_features.AnswerSpan(8, 11)  # tokens 4 and 5
    builder.add(0, [21, 22], paragraph, span)
    windows = builder.finish()
    count = len(windows.question)
    batch = squad_features.expand_batch(
        windows.table.batch(np.arange(count), 10)
    )
    answered = 0
    for row in range(count):
        ids = batch["input_ids"][row]
        seen = ids[batch["paragraph_mask"][row] == 1].tolist()
        start, end = batch["start_positions"][row], batch["end_positions"][row]
        cls = batch["cls_index"][row]
        assert ids[cls] == IDS.cls
        inside = seen[1:] if symbols.is_cls_first(layout) else seen[:-1]
        first = windows.doc_start[row]
        assert inside == paragraph.ids[first : first + len(inside)].tolist()
        if batch["is_impossible"][row]:
            assert start == end == cls
        else:
            assert ids[start : end + 1].tolist() == [54, 55]
            answered += 1
    assert answered
    if layout == "cls_first":
        assert batch["input_ids"][0].tolist()[:4] == [3, 21, 22, 4]
        assert batch["segment_ids"][0].tolist() == [0] * 4 + [1] * 6
    if layout == "cls_first_sep_cls":
        assert batch["input_ids"][0].tolist()[:5] == [3, 21, 22, 4, 3]
        assert batch["segment_ids"][0].tolist() == [0] * 5 + [1] * 5
    if layout == "cls_first_sep_sep_one_segment":
        assert batch["input_ids"][0].tolist()[:5] == [3, 21, 22, 4, 4]
        assert not batch["segment_ids"].any()


@pytest.mark.shared
def test_a_lone_mark_before_the_text_is_its_first_letter(spiece_model):
    from common.contract import symbols
    from data.finetuning.squad import features as squad_features

    tokenizer = Tokenizer(spiece_model)
    texts = ["Xq zebra", "京都は日本の", "½ cup", "Ωmega, q  x", "  Hello"]
    lone = 0
    for text in texts:
        ids, start, end = tokenizer.encode_spans(text)
        tokens = TokenizedParagraph(ids, start, end)
        builder = squad_features.WindowBuilder(
            32, 4, 8, tokenizer.symbols, False
        )
        builder.add(0, [7], tokens)
        windows = squad_features.window_texts(builder.finish(), [tokens], [0])
        marked = [tokenizer.id_to_piece(int(i))[0] == WORD_MARK for i in ids]
        first, last = original_spans(tokens, marked)
        found = windows[0][1]
        for i in range(len(ids)):
            for j in range(i, len(ids)):
                ours = text[found.token_start[i] : found.token_end[j] + 1]
                wanted = text[first[i] : last[j] + 1].strip()
                assert ours.strip() == wanted, (text, i, j)
        if start[0] == end[0] == 0:
            lone += 1
            assert (
                text[found.token_start[0] : found.token_end[0] + 1] == text[0]
            )
    assert lone == 4
    assert symbols.SEGMENT_A == 0
