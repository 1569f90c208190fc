"""What a left-to-right model is asked: lines, beginnings, segments."""

import numpy as np
import pytest

from common.errors import UserError
from common.vocabularies.text_settings import TextChoice
from data.text.lm_vocabulary import PieceVocabulary, SymbolVocabulary
from modeling.heads.causal_lm import CausalLanguageModel
from serving.generation.causal import check_text, checkpoints, load_causal
from serving.generation.causal_decoder import CausalGenerator
from serving.generation.causal_scoring import CausalScorer
from serving.generation.decoder import Result
from serving.generation.options import ModelOptions
from tests.serving.generation.asked_models import asked


def test_a_line_between_marks_ends_in_one_and_the_next_begins_with_one():
    lm = asked()
    prompt = [0, 1]
    assert lm.prompt_ids("a").tolist() == prompt
    new = [2, 2, 0, 0, 1, 1, 0, 0, 2]  # b b | a a | b
    for lines, kept in ((1, 3), (2, 7), (0, 9)):
        generator = CausalGenerator(lm.model, [], 0, lm.ends_after(lines))
        ids = np.asarray([new])
        (length,) = Result.of(ids, ids, generator.stops(ids)).lengths
        assert length == kept
        text = lm.vocabulary.decode([*prompt, *new[:length]])
        assert text.count("\n") == (lines or 2)
    # Behind a line that is closed the first mark opens one: it was the end.
    assert lm.prompt_ids("a\n").tolist() == [0, 1, 0]
    assert [lm.ends_after(n, "a\n") for n in (0, 1, 2)] == [0, 2, 4]
    other = asked("eos", ["<eos>", "a", "<unk>"])
    for prompt in ("a", "a\n"):
        assert [other.ends_after(n, prompt) for n in (0, 1, 2)] == [0, 1, 2]


def test_the_beginning_that_is_not_scored():
    """Tokens of the text; the mark before it is none."""
    lm = asked()
    ids, scored = lm.vocabulary.encode_line("a b a")
    assert scored and ids.tolist() == [0, 1, 2, 1, 0]
    for chars, rest in ((0, "a b a <S>"), (2, "b a <S>"), (4, "a <S>")):
        given = lm.tokens_before("a b a", chars)
        symbols = [lm.vocabulary.symbol(int(i)) for i in ids[1:][given:]]
        assert symbols == rest.split()


def test_a_beginning_may_end_within_a_word():
    """Half of a word is no symbol, which such a vocabulary refuses."""
    words = SymbolVocabulary(
        "word", ["<eos>", "ab", "b"], "eos", False, "error"
    )
    lm = asked("eos", ["<eos>", "ab", "b"])._replace(vocabulary=words)
    counts = [lm.tokens_before("ab b", chars) for chars in range(5)]
    assert counts == [0, 1, 1, 1, 2]


@pytest.mark.shared
def test_a_beginning_may_end_behind_a_line(spiece_model):
    """The end of the line is a token, too."""
    vocabulary = PieceVocabulary(spiece_model, "eos")
    lm = asked("eos", ["<eos>", "a"])._replace(vocabulary=vocabulary)
    first, text = len(vocabulary.encode("It cost")), "It cost\nhe asked"
    for chars, count in ((7, first), (8, first + 1), (9, first + 2)):
        assert lm.tokens_before(text, chars) == count
    assert lm.tokens_before(text, 99) == len(vocabulary.encode(text))


@pytest.mark.long
@pytest.mark.parametrize("encoding", ["absolute", "per_layer"])
def test_company_changes_nothing_where_places_are_counted_from_the_end(
    encoding,
):
    lm = asked(encoding=encoding, mem_len=0, max_positions=6)
    assert lm.segment_len(3) == 6
    texts = [np.asarray([0, 1, 2]), np.asarray([0, 2, 1, 1, 2, 1, 0, 0, 2])]
    found = []
    for company in (texts[:1], texts):
        longest = max(map(len, company))
        scorer = CausalScorer(lm.model, lm.segment_len(longest), 2)
        found.append(scorer.score(company)[0])
    np.testing.assert_allclose(*found, atol=1e-6)
    unknown = asked(encoding="absolute", mem_len=0, max_positions=None)
    with pytest.raises(UserError, match="--eval_seq_len=T"):
        unknown.segment_len(3)
    known = unknown.model.config.replace(extra={"seq_len": 7})
    model = CausalLanguageModel(known)
    assert unknown._replace(model=model).segment_len(3) == 7
    assert asked().segment_len(3) == 3


def test_text_settings_are_the_vocabulary_s():
    """What flags say of them was ignored."""
    words = [
        SymbolVocabulary("word", ["<eos>", "a"], "eos", lower)
        for lower in (False, True)
    ]
    for vocabulary in words:
        lower = vocabulary.lower_case
        for said in (None, TextChoice(), TextChoice(uncased=lower)):
            check_text(said, vocabulary, "v.json")
        with pytest.raises(UserError, match="v.json is of other .* --uncased"):
            check_text(TextChoice(uncased=not lower), vocabulary, "v.json")
        with pytest.raises(UserError, match="--text_rule .* v.json of words"):
            check_text(TextChoice("original"), vocabulary, "v.json")


@pytest.mark.shared
def test_text_settings_of_pieces_are_the_vocabulary_s(spiece_model):
    vocabulary = PieceVocabulary(spiece_model)
    settings = vocabulary.tokenizer.settings
    check_text(TextChoice(settings.rule), vocabulary, spiece_model)
    with pytest.raises(UserError, match="`uncased` wanted True"):
        said = TextChoice(settings.rule, not settings.uncased)
        check_text(said, vocabulary, spiece_model)


def test_a_token_that_would_see_itself_alone_is_refused(monkeypatch):
    """`serving.score --memory_len=0` gave such numbers without a word."""
    config = asked(same_length=True).model.config
    monkeypatch.setattr(checkpoints, "find_config", lambda _: config)
    with pytest.raises(UserError, match="^m is of same_length.* received 0$"):
        load_causal(ModelOptions("m"), 0)
    for memory in (None, 1):
        with pytest.raises(UserError) as e:
            load_causal(ModelOptions("/nowhere/m"), memory)
        assert "same_length" not in str(e.value)
