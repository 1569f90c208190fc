"""Another kind of objective goes through the loop as it is."""

import math

import numpy as np
import pytest
import tensorflow as tf

from common.errors import UserError
from tests.training import toy
from training import loop
from training.checkpointing.run_state import open_run
from training.objectives.contract import LossOutput, Objective, check_metrics
from training.objectives.language_model import LanguageModelObjective
from training.reporting.memory_estimate import estimate

MASK = 0


class MaskedLanguageModel(LanguageModelObjective):
    """Ids at `target_positions` from the row's other ids: no memory."""

    name = "masked_lm"
    config = toy.CONFIG

    build_model = toy.ToyObjective.build_model
    named_variables = toy.ToyObjective.named_variables

    def loss(self, model, batch, memory, training, seed):
        assert memory is None
        positions = batch["target_positions"]  # [B, P]
        hidden = tf.gather(model.table, batch["input_ids"])  # [B, T, D]
        hidden += tf.reduce_mean(hidden, 1, keepdims=True)
        hidden = tf.gather(hidden, positions, batch_dims=1)  # [B, P, D]
        logits = tf.einsum("bpd,dv->bpv", hidden, model.kernel) + model.bias
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
            batch["target_ids"], logits
        )
        total = tf.reduce_sum(losses)
        count = tf.cast(tf.size(losses), tf.float32)
        return LossOutput(total, count, {"lm_loss": (total, count)}, {})


class MeanObjective(Objective):
    """The mean of a weight: none of what a language model has."""

    name = "mean"
    config = toy.CONFIG

    build_model = toy.ToyObjective.build_model
    named_variables = toy.ToyObjective.named_variables

    def loss(self, model, batch, memory, training, seed):
        values = tf.reduce_mean(tf.gather(model.table, batch["input_ids"]), -1)
        total = tf.reduce_sum(tf.square(values))
        return LossOutput(total, tf.cast(tf.size(values), tf.float32), {}, {})


def input_fn(params):
    def masked(batch):
        ids = batch["input_ids"]
        places = tf.constant([[0, 2]] * params["batch_size"])  # [B, P]
        hidden = tf.reduce_max(tf.one_hot(places, ids.shape[1]), 1)  # [B, T]
        return {
            "input_ids": tf.where(hidden > 0, MASK, ids),
            "target_positions": places,
            "target_ids": tf.gather(ids, places, batch_dims=1),
        }

    return toy.input_fn(params).map(masked)


def held_out(params):
    return input_fn(params).take(2)


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


def test_the_estimate_counts_what_the_objective_has(tmp_path):
    spec = input_fn({"batch_size": 8, "start_step": 0}).element_spec
    options = toy.run_options(tmp_path, train_batch_size=8)
    found = {
        objective.name: estimate(open_run(objective, options).learner, spec)
        for objective in (MaskedLanguageModel(), MeanObjective())
    }
    vocabulary = toy.CONFIG.vocab_size
    assert found["masked_lm"]["logits"] == 3 * 8 * 2 * vocabulary * 4
    assert "logits" not in found["mean"] and "memory" not in found["mean"]
    # Without a query stream the targets keep nothing of their own.
    same = found["masked_lm"]["activations"], found["mean"]["activations"]
    assert same[0] == same[1]


def test_an_objective_without_metrics_derives_none(tmp_path):
    lines = []
    options = toy.run_options(tmp_path, train_steps=4)
    result = loop.train(
        MeanObjective(),
        input_fn,
        options,
        eval_input_fn=held_out,
        say=lines.append,
    )
    assert list(result.evaluations[0][1]) == ["loss"]
    (line,) = (x for x in lines if x.startswith("step 4/"))
    names = [part.split()[0] for part in line.split(" | ")[1:4]]
    assert names == ["loss", "lr", "gnorm"]


@pytest.mark.parametrize("declared", [(), ("lm_loss", "accuracy")])
def test_a_loss_gives_the_metrics_that_its_objective_declares(declared):
    one = tf.constant(1.0)
    output = LossOutput(one, one, {"lm_loss": (one, one)}, {})
    check_metrics(MaskedLanguageModel(), output)
    objective = MaskedLanguageModel()
    objective.metric_names = declared
    with pytest.raises(ValueError, match="but its loss gives .'lm_loss'.: cor"):
        check_metrics(objective, output)
