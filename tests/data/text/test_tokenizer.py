"""Normalisation, ids and offsets against golden strings and random ones."""

import functools
import json
import unicodedata

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.errors import UserError
from common.vocabularies.text_settings import TextSettings
from data.text import normalization as text_lib
from data.text.tokenizer import WORD_MARK, Tokenizer, split_piece

VARIANTS = {
    "cased": {},
    "uncased": {"uncased": True},
    "keep_accents": {"keep_accents": True},
    "uncased_keep_accents": {"uncased": True, "keep_accents": True},
    "no_remove_space": {"remove_space": False},
}


def settings_of(uncased=False, keep_accents=False, remove_space=True):
    rule = "composed" if keep_accents else "original"
    return TextSettings(rule, uncased, remove_space)


# Characters where the rewritings are at their worst.
TRICKY = "aB '``''\t 09,,5²½ﬁ№…éé̂ΑΣσς İ㈱가 \u200b\u2003中\"."
FUZZ = st.text(
    st.one_of(
        st.sampled_from(TRICKY), st.characters(exclude_categories=("Cs",))
    )
)


@pytest.mark.shared
@pytest.mark.parametrize("variant", VARIANTS)
def test_golden_strings(variant, golden, spiece_model):
    cases = json.loads((golden / "text" / "encode.json").read_text())["cases"]
    tokenizer = Tokenizer(spiece_model, settings_of(**VARIANTS[variant]))
    batch = tokenizer.encode_batch([case["text"] for case in cases])
    for case, ids in zip(cases, batch, strict=True):
        text, wanted = case["text"], case[variant]
        assert tokenizer.normalise(text) == wanted["preprocessed"], text
        assert tokenizer.encode_pieces(text) == wanted["pieces"], text
        assert tokenizer.encode(text) == wanted["ids"], text
        assert ids.tolist() == wanted["ids"], text
        assert tokenizer.encode_with_offsets(text)[0] == wanted["ids"], text


def _definition(text, uncased=False, keep_accents=False, remove_space=True):
    """The original's rule, step by step on whole strings."""
    if remove_space:
        text = " ".join(text.strip().split())
    text = text.replace("``", '"').replace("''", '"')
    if not keep_accents:
        text = unicodedata.normalize("NFKD", text)
        text = "".join(c for c in text if not unicodedata.combining(c))
    return text.lower() if uncased else text


@pytest.mark.long
@pytest.mark.parametrize("variant", VARIANTS)
@settings(max_examples=150, deadline=None, derandomize=True)
@given(text=FUZZ)
def test_normalise_and_align_agree(variant, text):
    options = VARIANTS[variant]
    wanted = _definition(text, **options)
    assert text_lib.normalise(text, **options) == wanted
    aligned = text_lib.align(text, **options)
    assert aligned.text == wanted
    assert len(aligned.starts) == len(aligned.ends) == len(wanted)
    assert (aligned.starts < aligned.ends).all()
    assert (np.diff(aligned.starts) >= 0).all()
    assert (np.diff(aligned.ends) >= 0).all()


@pytest.mark.long
@pytest.mark.shared
@pytest.mark.parametrize("variant", VARIANTS)
def test_paths_agree_on_random_text(variant, spiece_model):
    tokenizer = Tokenizer(spiece_model, settings_of(**VARIANTS[variant]))

    @settings(max_examples=100, deadline=None, derandomize=True)
    @given(texts=st.lists(FUZZ, max_size=4))
    def check(texts):
        wanted = [tokenizer.encode(t) for t in texts]
        for text, ids in zip(texts, wanted, strict=True):
            pieces = tokenizer.encode_pieces(text)
            assert ids == [tokenizer.piece_to_id(p) for p in pieces]
            again, starts, ends = tokenizer.encode_with_offsets(text)
            assert again == ids
            assert all(a <= b for a, b in zip(starts, ends, strict=True))
            assert starts == sorted(starts)
            assert max(ends, default=0) <= len(text)
        batch = tokenizer.encode_batch(texts)
        assert [a.tolist() for a in batch] == wanted

    check()


@pytest.mark.shared
def test_offsets_lead_to_the_raw_characters(spiece_model):
    tokenizer = Tokenizer(spiece_model, TextSettings(uncased=True))
    text = " A ``cafe\u0301''  paid 2000, in ½ the class"
    ids, starts, ends = tokenizer.encode_with_offsets(text)
    spans = [text[a:b] for a, b in zip(starts, ends, strict=True)]
    assert "".join(spans).replace("½½½", "½") == "".join(text.split())
    assert "e\u0301" in spans and "``" in spans and "class" in spans
    for i, span in zip(ids, spans, strict=True):
        if tokenizer.id_to_piece(i) == "\u2581":
            assert span == ""


@pytest.mark.shared
def test_offsets_take_linear_time(spiece_model):
    tokenizer = Tokenizer(spiece_model)
    text = "the class ``wörld'' has 2,000 " * 4000
    ids, _, ends = tokenizer.encode_with_offsets(text)
    assert ends[-1] == len(text) - 1 and len(ids) > 40000


@pytest.mark.shared
def test_decode_and_symbols(spiece_model):
    tokenizer = Tokenizer(spiece_model)
    assert tokenizer.decode(tokenizer.encode("this is a list")) == (
        "this is a list"
    )
    assert tokenizer.vocab_size == 1000
    assert (tokenizer.symbols.cls, tokenizer.symbols.eop) == (3, 8)
    assert len(tokenizer.sha256) == 64
    starts = tokenizer.word_starts
    assert starts[tokenizer.piece_to_id("\u2581the")]
    assert starts[tokenizer.symbols.eod] and starts[tokenizer.piece_to_id(",")]
    assert not starts[tokenizer.piece_to_id("e")]


def test_bad_files_are_named(tmp_path):
    with pytest.raises(UserError, match="missing.model"):
        Tokenizer(str(tmp_path / "missing.model"))
    path = tmp_path / "text.model"
    path.write_text("no model")
    with pytest.raises(UserError, match="wanted a SentencePiece model"):
        Tokenizer(str(path))


def test_missing_symbol_is_named(tmp_path):
    import io

    import sentencepiece

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["some plain words", "and some more"] * 20),
        model_writer=model,
        vocab_size=40,
        model_type="bpe",
        hard_vocab_limit=False,
        control_symbols="<cls>,<sep>,<pad>,<mask>",
        minloglevel=2,
    )
    path = tmp_path / "plain.model"
    path.write_bytes(model.getvalue())
    with pytest.raises(UserError, match="<eod> is missing"):
        Tokenizer(str(path))


@pytest.mark.shared
def test_digits_before_a_comma_are_encoded_on_their_own(spiece_model):
    """With a word mark they keep it; inside a word they get none."""
    tokenizer = Tokenizer(spiece_model)
    digits = tokenizer._processor.encode("20", return_type=str)
    assert digits[0][0] == WORD_MARK
    split = functools.partial(split_piece, tokenizer._processor)
    assert split(f"{WORD_MARK}20,") == [*digits, ","]
    bare = [digits[0][1:], *digits[1:]] if digits[0][1:] else digits[1:]
    assert split("20,") == [*bare, ","]
    for whole in ("20", "a,", ",", f"{WORD_MARK},", f"{WORD_MARK}2a,"):
        assert split(whole) == [whole]


@pytest.mark.long
@pytest.mark.shared
@pytest.mark.parametrize("variant", VARIANTS)
def test_spelt_spans_are_the_searched_ones(variant, spiece_model):
    """Spans by the pieces' lengths are those of SentencePiece's offsets."""
    tokenizer = Tokenizer(spiece_model, settings_of(**VARIANTS[variant]))
    words = ("the", "a", "1,953,", "2000,", "x,", "--", "caf\u00e9", "\u2581")
    by_lengths = [0]

    @settings(max_examples=150, deadline=None, derandomize=True)
    @given(
        parts=st.lists(st.sampled_from(words), max_size=9),
        odd=FUZZ,
        gap=st.sampled_from((" ", "  ", "")),
    )
    def check(parts, odd, gap):
        for text in (gap.join(parts), gap.join([*parts, odd])):
            text = tokenizer.normalise(text)
            spans = tokenizer._spelt_spans(text)
            if spans is not None:
                by_lengths[0] += len(spans[0]) > 2
                wanted = tokenizer._searched_spans(text)
                for ours, theirs in zip(spans, wanted, strict=True):
                    assert ours.tolist() == theirs.tolist(), text

    check()
    assert by_lengths[0] > 30
