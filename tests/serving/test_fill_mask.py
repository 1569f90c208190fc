"""Fillings as the command prints them, in an order and without one."""

import json
import math

import numpy as np
import pytest

from common.errors import UserError
from serving import fill_mask
from serving.generation import fill
from serving.generation.language_model import LanguageModel
from serving.generation.options import FillOptions
from tests.serving.generation.asked_models import (
    HIDDEN_TEXT as TEXT,
)
from tests.serving.generation.asked_models import (
    MASKED,
    Pieces,
    make_model,
    masked_lm,
    released_tokenizer,
)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return released_tokenizer(tmp_path_factory)


def _run(monkeypatch, capsys, lm, **options):
    options = FillOptions(**({"text": TEXT} | options))
    monkeypatch.setattr(
        fill_mask.flag_values,
        "build",
        lambda cls: options if cls is FillOptions else None,
    )
    monkeypatch.setattr(
        "serving.generation.language_model.load_model", lambda *_, **__: lm
    )
    fill_mask.main()
    return [json.loads(x) for x in capsys.readouterr().out.splitlines()]


def test_the_command_says_that_places_are_independent(
    tokenizer, monkeypatch, capsys
):
    lm = masked_lm(MASKED[0], tokenizer)
    rows = _run(monkeypatch, capsys, lm, beam_size=3)
    assert len(rows) == 3
    assert all(row["independent"] is True for row in rows)
    assert not any("joint" in key for row in rows for key in row)
    for row in rows:
        assert row["sum_log_probs"] == pytest.approx(sum(row["log_probs"]))
        assert len(row["pieces"]) == 2
    (row,) = _run(monkeypatch, capsys, lm, fill="boat|x")
    assert row["text"].startswith("the boat river x")
    assert math.isfinite(row["sum_log_probs"])
    for wrong in ("order", "compare_independent", "attribution"):
        value = "right_to_left" if wrong == "order" else True
        with pytest.raises(UserError, match=f"^--{wrong}: .* bert, which"):
            _run(monkeypatch, capsys, lm, **{wrong: value})
    with pytest.raises(UserError, match="has 46 tokens .* at most 24"):
        _run(monkeypatch, capsys, lm, text="a " * 43 + "<mask>")


@pytest.mark.parametrize("options", [{"beam_size": 3}, {"fill": "boat|x"}])
def test_a_model_whose_outputs_are_no_numbers_is_one_line(
    tokenizer, monkeypatch, capsys, options
):
    lm = masked_lm(MASKED[0], tokenizer)
    for variable in lm.model.variables:
        variable.assign(variable * np.nan)
    with pytest.raises(UserError, match="the model's output for --text is not"):
        _run(monkeypatch, capsys, lm, **options)
    assert capsys.readouterr().out == ""


@pytest.fixture(scope="module")
def letters():
    """A model of the letters a to f, asked about "b" and "d" in "abcde"."""
    lm = LanguageModel(make_model(vocab_size=15, n_layer=1), Pieces())
    ids = np.array([9, 10, 11, 12, 13], np.int32)
    return lm, fill.Hidden(ids, np.array([1, 3]))


@pytest.mark.long
def test_a_given_filling_has_its_chain_and_what_it_would_be_without(letters):
    lm, hidden = letters
    options = FillOptions(
        "x", order="1,0", compare_independent=True, attribution=True
    )
    (row,) = fill_mask.in_order(lm, hidden, options, True)
    filler, order = fill.Filler(lm), np.array([1, 0])
    chain, alone = filler.score(hidden, order), filler.score(hidden, None)
    assert (row["text"], row["pieces"]) == ("abcde", ["b", "d"])
    assert row["order"] == [1, 0]
    assert row["log_probs"] == pytest.approx(chain.log_probs, abs=1e-5)
    assert row["joint_log_prob"] == pytest.approx(chain.joint, abs=1e-5)
    assert row["joint_probability"] == pytest.approx(math.exp(chain.joint))
    assert row["independent_log_probs"] == pytest.approx(
        alone.log_probs, abs=1e-5
    )
    assert row["mutual_information"] == pytest.approx(
        chain.joint - alone.joint, abs=1e-5
    )
    assert abs(row["mutual_information"]) > 1e-4
    assert [piece for piece, _ in row["attribution"]] == ["a", "c", "e"]
    np.testing.assert_allclose(
        [value for _, value in row["attribution"]],
        filler.attribution(hidden, order)[[0, 2, 4]],
        atol=1e-5,
    )


@pytest.mark.long
def test_what_is_said_of_a_found_filling_is_of_that_filling(letters):
    """Not of what stood in the hidden places before."""
    lm, hidden = letters
    options = FillOptions(
        "x",
        order="right_to_left",
        beam_size=4,
        compare_independent=True,
        attribution=True,
    )
    rows = list(fill_mask.in_order(lm, hidden, options, False))
    joints = [row["joint_log_prob"] for row in rows]
    assert len(rows) == 4 and joints == sorted(joints, reverse=True)
    filler, order = fill.Filler(lm), np.array([1, 0])
    for row in rows:
        assert row["text"] == "a{}c{}e".format(*row["pieces"])
        filled = hidden._replace(
            ids=np.array(lm.tokenizer.encode(row["text"]), np.int32)
        )
        chain, alone = filler.score(filled, order), filler.score(filled, None)
        assert row["joint_log_prob"] == pytest.approx(chain.joint, abs=1e-4)
        assert row["independent_log_prob"] == pytest.approx(
            alone.joint, abs=1e-4
        )
        np.testing.assert_allclose(
            [value for _, value in row["attribution"]],
            filler.attribution(filled, order)[[0, 2, 4]],
            atol=1e-4,
        )


def test_nothing_beside_the_chain_is_said_unasked(letters):
    lm, hidden = letters
    (row,) = fill_mask.in_order(lm, hidden, FillOptions("x"), True)
    assert row.keys() == {
        "text",
        "pieces",
        "order",
        "log_probs",
        "joint_log_prob",
        "joint_probability",
    }
