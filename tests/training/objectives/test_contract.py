"""Another kind of objective goes through the loop as it is."""

import pytest
import tensorflow as tf

from tests.helpers.runs import toy
from tests.training.objectives.toy_objectives import (
    MaskedLanguageModel,
    MeanObjective,
    held_out,
    input_fn,
)
from training import loop
from training.objectives.contract import LossOutput, check_metrics


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
