"""Layouts of two texts, by the file that lies in a folder."""

import json

import pytest

from common.errors import UserError
from common.vocabularies import (
    joined_texts,
    released_vocabulary,
    vocabulary,
)

ROW = {"sep": ["</s>", 2], "cls": ["<s>", 0]}
ROBERTA, BERT = "RobertaProcessing", "BertProcessing"
NAMES = {"model_input_names": ["input_ids", "attention_mask"]}


@pytest.mark.parametrize(
    "kind, config, segments, wanted",
    [
        (BERT, {}, 2, "cls_first"),
        (BERT, NAMES, 2, "cls_first_one_segment"),
        (BERT, {}, 1, "cls_first_one_segment"),
        # An encoder without segments has one way less.
        (BERT, NAMES, None, "cls_first"),
        (ROBERTA, {}, 2, "cls_first_sep_sep_one_segment"),
        (ROBERTA, {}, None, "cls_first_sep_sep"),
    ],
)
def test_layouts_of_two_texts(tmp_path, kind, config, segments, wanted):
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps({"post_processor": ROW | {"type": kind}}))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    read = vocabulary.read(str(path))
    assert joined_texts.layout_of(read, "cls_first", segments) == wanted
    assert joined_texts.layout_of(read, "cls_last", segments) == "cls_last"


@pytest.mark.parametrize(
    "kind, config",
    [
        (BERT, NAMES),
        (BERT, {"tokenizer_class": "TokenizersBackend"}),
        (None, {"tokenizer_class": "RobertaTokenizer"}),
        (None, NAMES | {"tokenizer_class": "XLMRobertaTokenizerFast"}),
        (BERT, {"tokenizer_class": "AlbertTokenizer", "backend": "tokenizers"}),
    ],
)
@pytest.mark.parametrize("vocab", [{"<s>": 0}, [["<s>", 0.0]]])
def test_a_copy_joins_two_texts_as_its_original(tmp_path, kind, config, vocab):
    """A model that is tuned twice reads its second task's rows alike."""
    (tmp_path / "copy").mkdir()
    path = tmp_path / "tokenizer.json"
    rule = kind and ROW | {"type": kind}
    rules = {"model": {"vocab": vocab}, "post_processor": rule}
    path.write_text(json.dumps(rules))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    read = vocabulary.read(str(path))
    copy = vocabulary.copy(read, read.resolve(), str(tmp_path / "copy"))
    again = vocabulary.read(copy)
    layout = joined_texts.layout_of(read, "cls_first", 2)
    assert layout != "cls_first"
    assert joined_texts.layout_of(again, "cls_first", 2) == layout
    assert again.sha256 == read.sha256


def test_other_files_stay_as_the_encoder_has_them(tmp_path):
    path = tmp_path / "tokenizer.json"
    for content in ("no JSON", "[]", '{"post_processor": 3}'):
        path.write_text(content)
        read = vocabulary.read(str(path))
        assert joined_texts.layout_of(read, "cls_first", 2) == "cls_first"


@pytest.mark.parametrize(
    "about, layout, fits",
    [
        ({"backend": "tokenizers"}, "cls_last", False),
        ({"backend": "tokenizers"}, "cls_first", True),
        ({}, "cls_last", True),
        ({"model_input_names": ["input_ids"]}, "cls_last", False),
        ({"model_input_names": ["token_type_ids"]}, "cls_last", True),
    ],
)
def test_rows_with_cls_at_the_end_need_segments(tmp_path, about, layout, fits):
    path = tmp_path / vocabulary.HF_CONFIG
    path.write_text(json.dumps({"tokenizer_class": "XLNetTokenizer"} | about))
    if fits:
        joined_texts.check_segments(str(tmp_path), layout)
        return
    with pytest.raises(UserError, match=f"{path}: wanted an XLNet that was"):
        joined_texts.check_segments(str(tmp_path), layout)


@pytest.mark.parametrize(
    "rule, kind, model, fits",
    [
        (None, "BertTokenizerFast", "bert", True),
        (None, None, "bert", True),
        (None, None, "albert", True),
        (None, "PreTrainedTokenizerFast", "bert", False),
        (None, "TokenizersBackend", "albert", False),
        ({"type": "ByteLevel"}, None, "modernbert", False),
        # The class of a ModernBERT's tokenizer has no effect there.
        (None, "BertTokenizer", "modernbert", False),
        (None, None, None, False),
        (ROW | {"type": BERT}, "PreTrainedTokenizerFast", "modernbert", True),
    ],
)
def test_rows_of_one_text_have_cls_and_sep(tmp_path, rule, kind, model, fits):
    """As transformers 5 makes them; ours have both, whatever a file says."""
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps({"post_processor": rule}))
    about = {"tokenizer_class": kind} if kind else {}
    (tmp_path / vocabulary.HF_CONFIG).write_text(json.dumps(about))
    if model:
        (tmp_path / "config.json").write_text(f'{{"model_type": "{model}"}}')
    read = vocabulary.read(str(path))
    if fits:
        joined_texts.check_frame(read, "stop")
        return
    with pytest.raises(UserError, match=f"{path}: wanted a post_proc.*; stop"):
        joined_texts.check_frame(read, "stop")


def test_files_of_pieces_alone_are_framed_by_their_class(tmp_path):
    lines = "".join(f"{s}\n" for s in released_vocabulary.SYMBOLS)
    (tmp_path / "vocab.txt").write_text(lines)
    read = vocabulary.read(str(tmp_path / "vocab.txt"))
    joined_texts.check_frame(read, "stop")
