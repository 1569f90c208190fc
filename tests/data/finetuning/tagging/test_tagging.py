"""Tagged text: readers, the rule for pieces that cross a boundary, scores."""

import gzip
import json

import numpy as np
import pytest

from common.errors import UserError
from data.finetuning.examples import BadRows
from data.finetuning.features import tokens as task_tokens
from data.finetuning.options import TaggingDataOptions
from data.finetuning.squad.features import TokenizedParagraph
from data.finetuning.tagging import answers as tagging_answers
from data.finetuning.tagging import examples as tagging
from data.finetuning.tagging import features, metrics
from data.finetuning.tagging.examples import TaggedText
from data.text.tokenizer import Tokenizer


def pieces(*spans):
    """Pieces 10, 11, ... with these characters."""
    start, end = np.array(spans, np.int32).reshape(-1, 2).T
    ids = np.arange(10, 10 + len(start), dtype=np.int32)
    return TokenizedParagraph(ids, start, end)


def spans_example(text, *spans):
    return TaggedText(
        "0",
        text,
        tuple((s, e) for s, e, _ in spans),
        tuple(t for _, _, t in spans),
        False,
        "x:1",
    )


def words_example(tokens, tags):
    text, units = tagging.join_tokens(tokens)
    return TaggedText("0", text, units, tuple(tags), True, "x:1")


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


def test_a_piece_across_tokens_is_the_first_tokens():
    """Text "ab cd e": pieces "ab c" | "d" | " e", and a lone word mark."""
    example = words_example(["ab", "cd", "e"], ["X", "Y", "Z"])
    cut = pieces((0, 0), (0, 4), (4, 5), (6, 7))
    ids = {"X": 0, "Y": 1, "Z": 2}
    labels, shared = features.word_labels(example, cut, ids)
    assert labels.tolist() == [-1, 0, -1, 2]
    assert shared == 1
    scores = np.eye(3)[[2, 0, 1, 2]]
    # "cd" is answered by the piece that holds its first character.
    assert features.word_answers(example, cut, scores).tolist() == [0, 0, 2]


def test_a_span_has_the_pieces_it_covers_by_half():
    """Text "New York-based": pieces "New", " Yor", "k-b", "ased"."""
    example = spans_example("New York-based", (0, 8, "LOC"))
    cut = pieces((0, 3), (4, 7), (7, 10), (10, 14))
    ids = {"O": 0, "B-LOC": 1, "I-LOC": 2}
    labels, shared = features.span_labels(example, cut, ids)
    assert labels.tolist() == [1, 2, 0, 0]  # a third of "k-b" is inside
    assert shared == 0
    half = pieces((0, 3), (4, 7), (7, 9), (9, 14))
    assert features.span_labels(example, half, ids)[0].tolist() == [1, 2, 2, 0]
    inside = spans_example("abcdef", (1, 2, "LOC"))
    labels, shared = features.span_labels(inside, pieces((0, 6)), ids)
    assert labels.tolist() == [1] and shared == 1


def test_answers_give_back_the_spans_of_clean_pieces():
    """I- after O or another label begins a span; blanks are no part of it."""
    labels = ("O", "B-A", "I-A", "B-B", "I-B")
    text = "aa bb cc dd ee"
    cut = pieces((0, 2), (2, 5), (5, 8), (8, 11), (11, 14))
    example = spans_example(text)
    for tags, wanted in (
        ((1, 2, 0, 3, 0), [(0, 5, "A"), (9, 11, "B")]),
        ((2, 1, 2, 4, 4), [(0, 2, "A"), (3, 8, "A"), (9, 14, "B")]),
        ((0, 0, 0, 0, 0), []),
    ):
        scores = np.eye(5)[list(tags)]
        spans = features.span_answers(example, cut, scores, labels)
        assert spans == wanted


@pytest.mark.shared
@pytest.mark.parametrize(
    "text",
    [
        "It cost 12,000 francs in 1998, naïve café “quoted”",
        "東京は日本の首都で、人口は1,400万人です。",
        "Кто живёт в Нью-Йорке?  two  blanks",
        "नमस्ते दुनिया",
    ],
)
def test_gold_labels_score_as_gold(spiece_model, text):
    """Random spans on piece boundaries come back from their own labels."""
    tokenizer = Tokenizer(spiece_model)
    cut = task_tokens.encode_with_offsets(tokenizer, [text])[0]
    first = features.first_characters(text, cut)
    starts_in_text = np.flatnonzero(first < len(text))
    rng = np.random.default_rng(7)
    labels = ("O", "B-A", "I-A", "B-B", "I-B")
    ids = {name: i for i, name in enumerate(labels)}
    for _ in range(20):
        a, b = np.sort(rng.choice(starts_in_text, 2, replace=False))
        # Pieces of one raw character share it: no boundary lies between.
        if (cut.start[a] < cut.end[:a]).any() or (
            cut.start[b + 1 :] < cut.end[b]
        ).any():
            continue
        end = len(text[: cut.end[b]].rstrip())
        example = spans_example(text, (int(first[a]), end, "A"))
        piece_labels, shared = features.span_labels(example, cut, ids)
        scores = np.eye(5)[np.maximum(piece_labels, 0)]
        spans = features.span_answers(example, cut, scores, labels)
        assert spans == [(first[a], end, "A")] and shared == 0


@pytest.mark.shared
@pytest.mark.parametrize("layout", ["cls_last", "cls_first"])
def test_windows_count_each_piece_once(spiece_model, layout):
    """Labels of all windows together are the text's; scores go back so."""
    tokenizer = Tokenizer(spiece_model)
    rng = np.random.default_rng(3)
    examples = [
        words_example(
            rng.choice(["red", "tower", "winter", "sea"], n).tolist(),
            rng.choice(["X", "Y", "Z"], n).tolist(),
        )
        for n in (1, 40, 9)
    ]
    cut = task_tokens.encode_with_offsets(tokenizer, [e.text for e in examples])
    names = ("X", "Y", "Z")
    for length, stride in ((12, 3), (12, 10), (64, 5), (9, 1)):
        windows = features.build_windows(
            examples, cut, names, length, stride, tokenizer.symbols, layout
        )
        labels = windows.table.token_columns["label_ids"]
        counted = sum(len(e.units) for e in examples) - windows.shared
        assert (labels >= 0).sum() == counted
        batch = windows.table.batch(np.arange(windows.table.num_rows), length)
        assert batch["label_ids"].shape == batch["input_ids"].shape
        assert (batch["label_ids"][batch["input_mask"] == 0] == -1).all()
        # A model that says each window's own labels, noise elsewhere.
        known = batch["label_ids"][..., None] == np.arange(3)
        logits = np.where(
            batch["label_ids"][..., None] >= 0,
            known * 9.0,
            rng.normal(size=known.shape),
        )
        scores = features.piece_scores(windows, logits)
        answers = tagging_answers.answer_pieces(
            examples, windows.pieces, scores, names
        )
        assert [tuple(t) for t in answers.tags] == [e.tags for e in examples]


def test_chunks_are_counted_whole():
    gold = [["B-A", "I-A", "O", "B-B"], ["O", "B-A"]]
    guess = [["B-A", "O", "O", "B-B"], ["O", "B-A"]]
    scores = metrics.evaluate(gold, guess, True)
    # Two of three chunks are right, of three that were told.
    assert scores["f1"] == pytest.approx(2 / 3)
    assert scores["accuracy"] == pytest.approx(5 / 6)
    assert "B" in metrics.report(gold, guess, True)
    single = metrics.evaluate([["N", "V"]], [["N", "N"]], False)
    assert single == pytest.approx({"accuracy": 0.5, "f1": (2 / 3) / 2})
    assert metrics.names_chunks(("O", "B-A", "I-A"))
    assert not metrics.names_chunks(("O",))
    assert not metrics.names_chunks(("NOUN", "B-A"))


@pytest.mark.parametrize(
    "gold, guess, wanted",
    [
        ("U-PER U-PER", "B-PER L-PER", (0.0, 0.0, 0.0)),
        ("B-PER L-PER U-PER O", "O O U-PER O", (1.0, 0.5, 2 / 3)),
        ("B-PER I-PER L-PER", "B-PER I-PER L-PER", (1.0, 1.0, 1.0)),
    ],
)
def test_tags_of_last_and_only_words_bound_chunks(gold, guess, wanted):
    rows = [gold.split()], [guess.split()]
    values = metrics.evaluate(*rows, chunks=True)
    scores = [values[n] for n in ("precision", "recall", "f1")]
    assert scores == pytest.approx(list(wanted))
    line = metrics.report(*rows, chunks=True).splitlines()[2].split()
    assert line[0] == "PER"
    assert [float(x) for x in line[1:4]] == pytest.approx(wanted, abs=1e-4)


def test_the_baseline_tells_what_a_word_most_often_is():
    train = [
        words_example(["a", "b", "a"], ["X", "Y", "X"]),
        words_example(["a", "c"], ["Y", "Y"]),
    ]
    baseline = metrics.MajorityBaseline(train)
    assert baseline.guess(words_example(["a", "z"], ["X", "X"])) == ["X", "Y"]
    spans = metrics.MajorityBaseline(
        [spans_example("in or New York", (6, 14, "LOC"))]
    )
    asked = spans_example("New York, York")
    assert spans.guess(asked) == [(0, 8, "LOC"), (10, 14, "LOC")]


def test_predictions_keep_the_layout():
    example = words_example(["a", "b"], ["X", "Y"])
    answers = tagging_answers.Answers([["X", "X"]], [[]], [[0.5, 0.5]])
    text = tagging_answers.prediction_text([example], answers)
    assert text == "a\tX\tX\nb\tY\tX\n\n"
    example = spans_example("ab c", (0, 2, "X"))
    answers = tagging_answers.Answers([[]], [[(3, 4, "X")]], [[0.25]])
    row = json.loads(tagging_answers.prediction_text([example], answers))
    assert row["spans"] == [
        {"start": 3, "end": 4, "label": "X", "confidence": 0.25}
    ]
    assert row["gold"] == [{"start": 0, "end": 2, "label": "X"}]
