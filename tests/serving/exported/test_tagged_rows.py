"""A tagger's export reads the files that its training reads."""

import json

import numpy as np
import pytest

from common.errors import UserError
from data.finetuning.squad.features import TokenizedParagraph
from data.finetuning.tagging import examples, features
from serving.exported import answering, input_rows, tagged_rows
from serving.exported.rows import InputRow
from serving.options import PredictOptions
from tests.serving.exported.fake_models import FakeModel, answers, options

SENTENCES = "Ada\tB-PER\nlives\tO\n\nin\tO\nRome\tB-LOC\nnow\tO\n"
LABELS = ["O", "B-LOC", "B-PER"]


class Tagger(FakeModel):
    """A piece per three characters; its label follows from its first one.

    At most four pieces of a text are read.
    """

    description = {
        "head": tagged_rows.TAGGER,
        "labels": LABELS,
        "data_options": {"text_column": 0, "tag_column": -1},
    }

    def __call__(self, inputs):
        counts = [min((len(t) + 2) // 3, 4) for t in inputs["text"]]
        self.calls.append(len(counts))
        width = max(counts)
        starts = np.tile(np.arange(width) * 3, (len(counts), 1))
        labels = np.full(starts.shape, b"", object)
        for row, text in enumerate(inputs["text"]):
            for i in range(counts[row]):
                labels[row, i] = LABELS[ord(text[3 * i]) % 3].encode()
        ids = [[LABELS.index(x.decode() or "O") for x in r] for r in labels]
        return {
            "label_ids": np.asarray(ids),
            "labels": labels,
            "num_pieces": np.asarray(counts),
            "piece_starts": starts,
            "piece_ends": starts + 3,
            "truncated": np.asarray([len(t) > 12 for t in inputs["text"]]),
        }


def rows(path, fake=None, **changes):
    fake = fake or Tagger()
    asked = PredictOptions("model", input_file=str(path), **changes)
    return list(input_rows.read_rows(fake.inputs(), fake.description, asked))


@pytest.mark.parametrize("name", ["a.conll", "A.BIO", "a.iob2"])
def test_a_sentence_is_a_row_with_a_tag_per_token(tmp_path, name):
    (tmp_path / name).write_text(SENTENCES)
    answering.predict_file(Tagger(), options(tmp_path, name))
    one, other = answers(tmp_path)
    assert (one["row"], other["row"]) == (0, 1)
    assert (one["tokens"], other["tokens"]) == (
        ["Ada", "lives"],
        ["in", "Rome", "now"],
    )
    assert one["true_label"] == ["B-PER", "O"]
    # "Ada", " li", "ves": the token begins in the second piece.
    assert one["tags"] == [LABELS[ord("A") % 3], LABELS[ord(" ") % 3]]
    found = examples.read(str(tmp_path / name), examples.BadRows())
    for example, answer in zip(found, (one, other), strict=True):
        pieces = TokenizedParagraph(
            *(np.asarray(answer[f"piece_{x}"]) for x in ("starts",) * 2),
            np.asarray(answer["piece_ends"]),
        )
        scores = np.eye(3)[[LABELS.index(x) for x in answer["labels"]]]
        wanted = features.word_answers(example, pieces, scores)
        assert answer["tags"] == [LABELS[i] for i in wanted]


def test_a_text_that_was_cut_has_no_tags_behind_its_end():
    row = InputRow("a:1", {}, units=((0, 3), (4, 9), (11, 12), (13, 15)))
    answer = {
        "labels": ["O", "B-PER"],
        "piece_starts": [0, 3],
        "piece_ends": [3, 11],
        "truncated": True,
    }
    about = Tagger.description
    found = tagged_rows.told(row, answer, about)
    assert found == {"tags": ["O", "B-PER", None, None]}
    whole = tagged_rows.told(row, answer | {"truncated": False}, about)
    assert whole == {"tags": ["O", "B-PER", "B-PER", "B-PER"]}
    nothing = dict.fromkeys(("labels", "piece_starts", "piece_ends"), [])
    found = tagged_rows.told(row, answer | nothing, about)
    assert found == {"tags": [None] * 4}
    found = tagged_rows.told(
        row, answer | nothing | {"truncated": False}, about
    )
    assert found == {"tags": ["O"] * 4}
    assert tagged_rows.told(row, answer, {"head": "classification"}) == {}


def test_a_text_has_the_spans_that_its_pieces_tell():
    """As `predictions/*.jsonl` of `run_tagger.py` has them."""
    row = InputRow("a:1", {"text": "in New York now"})
    ids = [0, 1, 3, 3, 0]
    answer = {
        "label_ids": ids,
        "piece_starts": [0, 3, 7, 9, 12],
        "piece_ends": [2, 6, 9, 11, 15],
        "truncated": False,
    }
    labels = ["O", "B-LOC", "B-PER", "I-LOC"]
    about = {"head": tagged_rows.TAGGER, "labels": labels}
    (span,) = tagged_rows.told(row, answer, about)["spans"]
    assert span == {"start": 3, "end": 11, "label": "LOC"}
    none = dict.fromkeys(("label_ids", "piece_starts", "piece_ends"), [])
    assert tagged_rows.told(row, answer | none, about) == {"spans": []}
    # Parts of speech name no chunks.
    about = about | {"labels": ["DET", "NOUN", "VERB", "O"]}
    assert tagged_rows.told(row, answer, about) == {}


def test_columns_are_those_of_training(tmp_path):
    (tmp_path / "a.conll").write_text("1 B-PER Ada\n2 O saw\n\n1 O it\n")
    fake = Tagger()
    fake.description = fake.description | {
        "data_options": {
            "text_column": 2,
            "tag_column": 1,
            "token_separator": "_",
        }
    }
    found = rows(tmp_path / "a.conll", fake)
    assert [r.inputs["text"] for r in found] == ["Ada_saw", "it"]
    assert found[0].known["true_label"] == ["B-PER", "O"]
    # A text to predict has no tags.
    (tmp_path / "b.conll").write_text("Ada\nsaw\n")
    (row,) = rows(tmp_path / "b.conll")
    assert row.known == {"row": 0, "tokens": ["Ada", "saw"]}


def test_bad_sentences_keep_their_places(tmp_path):
    path = tmp_path / "a.conll"
    path.write_bytes(b"\xff O\nb O\n\nc O\n\nd\ne O e\n\nf O\n\n\ng\n")
    problems = [r.problem for r in rows(path)]
    assert [bool(p) for p in problems] == [True, False, True, False, True]
    for place, line in ((0, 1), (2, 6), (4, 12)):
        assert problems[place].startswith(f"{path}:{line}: ")
    answering.predict_file(
        Tagger(), options(tmp_path, "a.conll", skip_bad_rows=True)
    )
    found = answers(tmp_path)
    assert [a["row"] for a in found] == list(range(5))
    assert [a.get("tokens") for a in found] == [None, ["c"], None, ["f"], None]
    with pytest.raises(UserError, match="a.conll:1: .*--skip_bad_rows"):
        list(answering.predict_rows(Tagger(), iter(rows(path)), options(path)))


@pytest.mark.parametrize("name", ["a.txt", "a.tsv", "eng.testb"])
def test_tagged_tokens_of_another_name_are_refused(tmp_path, name):
    """Each line was a text: token, tab and tag."""
    path = tmp_path / name
    path.write_text("# id 1\n" + SENTENCES.replace("\t", " "))
    if name == "a.tsv":
        path.write_text(SENTENCES)
    with pytest.raises(UserError, match="ends in .conll"):
        rows(path)


def test_texts_that_end_like_a_tag_stay_texts(tmp_path):
    path = tmp_path / "a.txt"
    for content in ("blood group O\n", "type O\nor A\n", "O\nO\n", "a\nb O\n"):
        path.write_text(content)
        assert [r.inputs["text"] for r in rows(path)] == content.splitlines()


def test_spans_of_json_lines_are_no_text(tmp_path):
    """They were refused as a column that is no text of the model."""
    path = tmp_path / "a.jsonl"
    spans = [{"start": 0, "end": 3, "label": "PER"}]
    path.write_text(json.dumps({"text": "Ada", "spans": spans, "id": 7}) + "\n")
    (row,) = rows(path)
    assert row.known == {"key": 7, "true_label": spans}
    fake = FakeModel()
    fake.description = {"labels": [], "head": "classification"}
    with pytest.raises(UserError, match="spans"):
        rows(path, fake)


def test_no_other_model_reads_tagged_tokens(tmp_path):
    path = tmp_path / "a.conllu"
    path.write_text(SENTENCES)
    with pytest.raises(UserError, match="which a tagger reads"):
        rows(path, FakeModel())
    with pytest.raises(UserError, match="--text_columns is for"):
        rows(path, text_columns=("a",))
