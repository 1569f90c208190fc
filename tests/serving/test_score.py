"""Log-probabilities of texts as the command prints them."""

import dataclasses
import json

import numpy as np
import pytest

from common.errors import UserError
from data.text.lm_vocabulary import PieceVocabulary
from data.text.tokenizer import Tokenizer
from serving import score
from serving.generation.causal_scoring import CausalScorer
from serving.generation.language_model import LanguageModel
from serving.generation.options import ModelOptions, ScoreOptions
from serving.generation.scoring import Scorer
from tests.serving.generation.asked_models import Pieces, asked, make_model

EOS = ("eos", ["<eos>", "a", "b", "<unk>"])
OPEN = ("none", ["a", "b", "c", "<unk>"])


@pytest.fixture(scope="module")
def lm(spiece_model):
    return LanguageModel(make_model(), Tokenizer(spiece_model))


def run(monkeypatch, options, lm, causal):
    built = {ScoreOptions: options, ModelOptions: ModelOptions("c")}
    monkeypatch.setattr(score.flag_values, "build", built.get)
    generation = "serving.generation"
    monkeypatch.setattr(f"{generation}.language_model.load_model", lambda _: lm)
    monkeypatch.setattr(f"{generation}.causal.load_causal", lambda *_: lm)
    monkeypatch.setattr(f"{generation}.causal.is_causal", lambda _: causal)
    score.main()


def test_scores_that_are_no_numbers_are_one_line(monkeypatch, capsys):
    """`NaN` is no JSON."""
    found = [
        score.Scored(1, ["a"], np.zeros((1, 1), np.float32)),
        score.Scored(1, ["a"], np.full((1, 1), np.nan, np.float32)),
    ]
    monkeypatch.setattr(score, "_permuted", lambda *_: found)
    with pytest.raises(UserError, match=r"output for --text\[1\] is not"):
        run(monkeypatch, ScoreOptions(("a", "b")), None, False)
    assert len(capsys.readouterr().out.splitlines()) == 1


@pytest.mark.long
@pytest.mark.shared
def test_each_pieces_own_score_of_the_command(lm, monkeypatch, capsys):
    """--per_token: the mean over the orders, piece by piece, in text order."""
    text, context = "The old tower was open.", 4
    options = ScoreOptions((text,), "random", 3, seed=5, context_chars=context)
    options = dataclasses.replace(options, per_token=True, memory_len=0)
    run(monkeypatch, options, lm, False)
    found = json.loads(capsys.readouterr().out)
    ids, starts, _ = lm.tokenizer.encode_with_offsets(text)
    given = int(np.searchsorted(starts, context))
    assert given >= 1 and found["scored_tokens"] == len(ids) - given
    assert "".join(found["pieces"]).replace("\u2581", " ").endswith("open.")
    assert found["pieces"] == [lm.tokenizer.id_to_piece(i) for i in ids[given:]]
    scorer = Scorer(lm.model, options.max_seq_length, 0)
    wanted = [
        scorer.score(np.array(ids, np.int32), "random", 5 + i, given).log_probs
        for i in range(3)
    ]
    own = found["mean_token_log_probs"]
    np.testing.assert_allclose(own, np.mean(wanted, 0), atol=2e-5)
    assert sum(own) == pytest.approx(found["mean_log_prob"], abs=1e-4)
    assert np.std(own) > 0.1  # pieces differ; one would not stand out


@pytest.mark.long
@pytest.mark.parametrize(
    "rule, line_end, context, tokens, pieces",
    [
        (EOS, True, 2, 4, ["b", "a", "<eos>"]),
        (EOS, False, 2, 3, ["b", "a"]),
        # Without the end of a line the first token has no log-probability.
        (OPEN, True, 0, 3, ["b", "a"]),
        (OPEN, True, 4, 3, ["a"]),
        (OPEN, True, 99, 3, []),
    ],
)
def test_tokens_of_a_line_that_a_left_to_right_model_scores(
    monkeypatch, capsys, rule, line_end, context, tokens, pieces
):
    lm = asked(*rule)
    options = ScoreOptions(
        ("a b a", "b"),
        context_chars=context,
        score_line_end=line_end,
        per_token=True,
    )
    run(monkeypatch, options, lm, True)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    found = json.loads(lines[0])
    assert (found["tokens"], found["pieces"]) == (tokens, pieces)
    assert found["scored_tokens"] == len(pieces)
    ids, _ = lm.vocabulary.encode_line("a b a", line_end)
    (whole,) = CausalScorer(lm.model, 9, 1).score([ids])
    own = whole[len(whole) - len(pieces) :]
    assert found["mean_token_log_probs"] == pytest.approx(own, abs=1e-4)
    assert found["log_probs"] == [pytest.approx(own.sum(), abs=1e-4)]
    if not len(own):
        assert found["perplexity"] is None
        return
    assert found["perplexity"] == pytest.approx(np.exp(-own.mean()), rel=1e-4)


@pytest.mark.long
def test_every_order_of_a_short_text(monkeypatch, capsys):
    lm = LanguageModel(make_model(vocab_size=15, n_layer=1), Pieces())
    options = ScoreOptions(("abcd",), "all", context_chars=1, memory_len=0)
    run(monkeypatch, options, lm, False)
    found = json.loads(capsys.readouterr().out)
    assert (found["order"], found["scored_tokens"]) == ("all", 3)
    ids = np.asarray(Pieces().encode("abcd"), np.int32)
    totals = Scorer(lm.model, 9, 0).all_orders(ids, 1).sum(1)
    assert len(totals) == 6 and np.ptp(totals) > 1e-4
    assert found["log_probs"] == pytest.approx(totals, abs=1e-4)
    assert found["mean_log_prob"] == pytest.approx(totals.mean(), abs=1e-4)
    wanted = np.exp(-totals.mean() / 3)
    assert found["perplexity"] == pytest.approx(wanted, rel=1e-4)
    assert "pieces" not in found


def test_options_of_the_other_kind_of_model_are_refused(monkeypatch):
    options = ScoreOptions(("a",), "random")
    with pytest.raises(UserError, match="--order=random: c is a left-to-right"):
        run(monkeypatch, options, None, True)
    options = ScoreOptions(("a",), score_line_end=False)
    with pytest.raises(UserError, match="--noscore_line_end: c is not a left"):
        run(monkeypatch, options, None, False)
    options = ScoreOptions(("a", " "))
    with pytest.raises(UserError, match=r"--text\[1\]: the text is empty"):
        run(monkeypatch, options, None, True)


@pytest.mark.shared
@pytest.mark.parametrize("causal", [False, True])
def test_a_text_without_pieces_is_scored(
    monkeypatch, capsys, spiece_model, causal
):
    """A zero-width space is no white space, and has no piece."""
    tokenizer = Tokenizer(spiece_model)
    lm = LanguageModel(make_model(n_layer=1), tokenizer)
    if causal:
        vocabulary = PieceVocabulary(spiece_model, "none")
        toy = asked(*OPEN, vocab_size=vocabulary.size)
        lm = toy._replace(vocabulary=vocabulary)
    assert tokenizer.encode("\u200b") == []
    run(monkeypatch, ScoreOptions(("\u200b",)), lm, causal)
    found = json.loads(capsys.readouterr().out)
    assert (found["tokens"], found["scored_tokens"]) == (0, 0)
    assert found["log_probs"] == [0.0] and found["perplexity"] is None
