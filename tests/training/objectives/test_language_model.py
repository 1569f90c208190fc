"""What every language model has: perplexity, chunks, no predictions."""

import math

import numpy as np
import pytest

from common.errors import UserError
from tests.helpers.runs import toy
from tests.training.objectives.toy_objectives import (
    MaskedLanguageModel,
    held_out,
    input_fn,
)
from training import loop
from training.objectives.language_model import TwoSegmentObjective


@pytest.mark.long
@pytest.mark.parametrize("steps", [1, 2])
def test_a_masked_language_model_needs_its_class_only(tmp_path, steps):
    lines = []
    options = toy.run_options(
        tmp_path, train_steps=4, grad_accumulation_steps=steps
    )
    result = loop.train(
        MaskedLanguageModel(),
        input_fn,
        options,
        eval_input_fn=held_out,
        say=lines.append,
    )
    assert "objective    masked_lm" in lines
    assert any("| ppl " in line for line in lines)
    ((step, metrics),) = result.evaluations
    assert step == 4
    assert metrics["perplexity"] == pytest.approx(math.exp(metrics["lm_loss"]))
    # Rows are in no groups: an odd batch divides.
    options = options.replace(eval_batch_size=7)
    again = loop.evaluate(
        MaskedLanguageModel(), held_out, options, model=result.model
    )
    assert np.isfinite(again.metrics["loss"])
    with pytest.raises(UserError, match="masked_lm has no mode=predict"):
        loop.predict(
            MaskedLanguageModel(), held_out, options, model=result.model
        )


def test_a_diverged_loss_has_a_finite_perplexity():
    objective = MaskedLanguageModel()
    assert objective.derived_metrics({"lm_loss": 0.0}) == {"perplexity": 1.0}
    found = objective.derived_metrics({"lm_loss": 1e9})["perplexity"]
    assert 1e300 < found < math.inf


@pytest.mark.parametrize("size", [0, -3])
def test_a_chunk_holds_a_target_at_least(size):
    with pytest.raises(UserError, match=f"must be >= 1, received {size}$"):
        MaskedLanguageModel(loss_chunk_size=size)
    assert MaskedLanguageModel(loss_chunk_size=1).loss_chunk_size == 1


def test_what_two_segments_train_follows_from_the_options():
    """Both directions are groups of rows; a pair has a metric of its own."""
    config = toy.CONFIG.with_memory(None)
    plain = TwoSegmentObjective(config, bi_data=False)
    assert (plain.row_groups, plain.memory_len) == (1, 0)
    assert plain.metric_names == ("lm_loss", "accuracy")
    both = TwoSegmentObjective(toy.CONFIG, next_sentence=True)
    assert (both.row_groups, both.memory_len) == (2, 3)
    assert both.metric_names[2:] == ("next_sentence_accuracy",)
    with pytest.raises(UserError, match="^--pack: xlnet packs rows in fine-"):
        TwoSegmentObjective(toy.CONFIG, pack=True)
