"""Pieces of texts, kept in the cache, and what tagged texts are known by."""

import dataclasses
import types

import numpy as np
import pytest

from common.contract.task_spec import TaskSpec
from common.errors import UserError
from common.vocabularies.text_settings import TextSettings
from data.finetuning.features import tokens
from data.finetuning.options import FeatureOptions, TaggingDataOptions
from data.finetuning.tagging import answers as tagging_answers
from data.finetuning.tagging import task
from data.finetuning.tagging.examples import TaggedText
from tests.helpers.runs import builds
from tests.helpers.runs.classifier import make_options

EXAMPLE = TaggedText("0", "ab c", ((0, 2),), ("X",), False, "f:1")


def test_the_hash_is_of_texts_places_and_tags():
    known = task.hash_examples([EXAMPLE])
    for change in ({"text": "ab d"}, {"units": ((0, 1),)}, {"tags": ("Y",)}):
        other = dataclasses.replace(EXAMPLE, **change)
        assert task.hash_examples([other]) != known, change
    same = dataclasses.replace(EXAMPLE, guid="9", where="g:2")
    assert task.hash_examples([same]) == known
    bare = dataclasses.replace(EXAMPLE, tags=None)
    assert task.hash_examples([bare]) != known


@pytest.fixture(scope="module")
def spiece(tmp_path_factory):
    folder = tmp_path_factory.mktemp("spiece")
    corpus = builds.write_corpus(folder / "corpus.txt")
    return builds.train_spiece(folder, corpus)


def test_pieces_of_every_text_come_back_from_the_cache(spiece, tmp_path):
    texts = ["the tower", "", "a lamp by the river"]
    tokenizer = tokens.open_tokenizer(spiece)
    options = FeatureOptions(spiece, 16, cache_dir=str(tmp_path))
    first, hit = task.tokenize(texts, options, tokenizer)
    again, later = task.tokenize(texts, options, tokenizer)
    assert (hit, later) == (False, True)
    assert len(first) == len(again) == 3 and not len(first[1].ids)
    wanted = tokens.encode_with_offsets(tokenizer, texts)
    for rows in zip(first, again, wanted, strict=True):
        for name in ("ids", "start", "end"):
            one, two, three = (getattr(row, name).tolist() for row in rows)
            assert one == two == three
    other, hit = task.tokenize(texts[:2], options, tokenizer)
    assert not hit and len(other) == 2


def test_a_split_has_the_longest_row_in_every_batch():
    toy = object.__new__(task.TaggingTask)
    toy.features = types.SimpleNamespace(row_length=5)
    table = types.SimpleNamespace(num_examples=3)
    split = types.SimpleNamespace(table=table)
    logits = np.arange(12.0).reshape(2, 3, 2)
    found = toy.outputs_of_first(split, {"logits": logits})["logits"]
    assert found.shape == (3, 5, 2)
    assert found[2].tolist() == found[0].tolist()
    assert found[0, 3].tolist() == found[0, 4].tolist() == [4.0, 5.0]


SPANS = '{"text": "a tower", "spans": [{"start": 2, "end": 7, "label": "X"}]}'


def job(spiece, folder, trained=None, **data):
    options = make_options(
        folder, do_train=trained is None, do_eval=trained is not None
    )
    features = FeatureOptions(spiece, 16)
    return task.TaggingTask(
        TaggingDataOptions(**data), features, options, trained
    )


def test_one_tag_is_none_to_learn(spiece, tmp_path):
    path = tmp_path / "train.conll"
    path.write_text("the O X\ntower O Y\n")
    with pytest.raises(UserError, match=r"at least 2 .* found O; .*\(now 1\)"):
        job(spiece, tmp_path, train_file=str(path), tag_column=1).load()
    found = job(spiece, tmp_path, train_file=str(path)).load()
    assert found.labels == ("X", "Y")
    path = tmp_path / "train.jsonl"
    path.write_text('{"text": "a tower", "spans": []}\n')
    with pytest.raises(UserError, match=r"train.jsonl: wanted at least 2 tags"):
        job(spiece, tmp_path, train_file=str(path)).load()


def test_tags_are_counted_and_one_among_chunks_is_noted(
    spiece, tmp_path, capsys
):
    path = tmp_path / "train.conll"
    path.write_text("the O\ntower B-X\nof 0\n")
    job(spiece, tmp_path, train_file=str(path)).load()
    said = capsys.readouterr().out
    assert "labels (3): 'O' 1, '0' 1, 'B-X' 1\n" in said
    assert "note: 'B-X' names a chunk, '0' does not: scores are of" in said
    path = tmp_path / "train.jsonl"
    path.write_text(SPANS + "\n")
    job(spiece, tmp_path, train_file=str(path)).load()
    said = capsys.readouterr().out
    assert "labels (1): 'X' 1\n" in said and "note" not in said


@pytest.mark.parametrize("labels", [("X", "Y"), ("O", "X"), ("B-X", "I-X")])
def test_spans_need_tags_that_tell_them(spiece, tmp_path, labels):
    """In training, and where a model of other tags is evaluated."""
    path = tmp_path / "a.jsonl"
    path.write_text(SPANS + "\n")
    data = {"labels": labels, "train_file": str(path), "eval_file": str(path)}
    for use in ("train", "dev"):
        with pytest.raises(UserError, match=r"O and B-x, I-x .* found .*X"):
            job(spiece, tmp_path, **data).read(use, use)
    data["labels"] = ("O", "B-X", "I-X")
    assert job(spiece, tmp_path, **data).load().chunks


def test_inside_of_a_label_alone_tells_its_spans(spiece, tmp_path, capsys):
    """Models of others have labels without B-: their spans count as right."""
    path = tmp_path / "a.jsonl"
    path.write_text(SPANS + "\n" + SPANS.replace("X", "Z") + "\n")
    labels = ("O", "I-X")
    tagger = job(spiece, tmp_path, labels=labels, eval_file=str(path))
    split = tagger.read("dev", "dev")
    said = capsys.readouterr().out
    assert "a.jsonl:2: the tag 'I-Z' is not of the training file" in said
    assert "1 rows are used as they are" in said
    labelled = split.table.token_columns["label_ids"]
    pieces = split.windows.pieces[0]
    scores = np.eye(2)[np.maximum(labelled[: len(pieces.ids)], 0)]
    inside = (pieces.start >= 2) & (pieces.end > pieces.start)
    assert set(labelled[: len(pieces.ids)][inside]) == {1}
    found = tagging_answers.answer_pieces(
        split.examples[:1], [pieces], [scores], labels
    )
    assert found.spans == [[(2, 7, "X")]]


def test_tags_without_names_cannot_be_judged(spiece, tmp_path):
    """`LABEL_0`, ...: every gold tag counted as wrong."""
    labels = ("LABEL_0", "LABEL_1")
    settings = TextSettings()
    unnamed = TaskSpec("released", task.HEAD, labels, 16, settings, "")
    with pytest.raises(UserError, match="--labels: wanted names of .* 2 outp"):
        job(spiece, tmp_path, unnamed)
    named = job(spiece, tmp_path, unnamed, labels=("O", "I-X"))
    assert named.labels == ("O", "I-X")
