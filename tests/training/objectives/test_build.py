"""Every head trains, evaluates and predicts; replicas change nothing."""

import numpy as np
import pytest

from common.errors import UserError
from modeling.encoders.bert.config import BertConfig
from tests.helpers.runs import toy
from tests.training.objectives.toy_heads import (
    CONFIG,
    OPTIONS,
    C,
    N,
    T,
    Y,
    examples,
    functions,
)
from training import loop
from training.objectives import build as heads

SHAPES = {
    "classification": {"logits": (N, Y)},
    "multi_label": {"logits": (N, Y)},
    "regression": {"logits": (N,)},
    "span": {"start_top_index": (N, 2), "end_top_index": (N, 6)},
    "multiple_choice": {"logits": (N, C)},
    "token_classification": {"logits": (N, T, Y)},
}


def run(head, folder, **changes):
    objective = heads.build_objective(head, CONFIG, **OPTIONS[head])
    endless, once = functions(examples(head))
    options = toy.run_options(
        folder, train_steps=4, save_steps=0, progress="none", **changes
    )
    result = loop.train(objective, endless, options)
    evaluation = loop.evaluate(objective, once, options, model=result.model)
    outputs = loop.predict(objective, once, options, model=result.model)
    return evaluation, outputs


@pytest.mark.long
@pytest.mark.parametrize(
    "head",
    [
        "classification",
        *(
            pytest.param(h, marks=pytest.mark.slow)
            for h in OPTIONS
            if h != "classification"
        ),
    ],
)
def test_a_head_gives_every_row_on_one_and_two_replicas(head, tmp_path):
    evaluation, outputs = run(head, tmp_path / "1")
    assert outputs["example_index"].tolist() == list(range(N))
    for name, shape in SHAPES[head].items():
        assert outputs[name].shape == shape
        np.testing.assert_array_equal(
            outputs[name], evaluation.predictions[name]
        )
    two, _ = run(head, tmp_path / "2", distribution="mirrored", replicas=2)
    assert two.metrics.keys() == evaluation.metrics.keys()
    for name, value in evaluation.metrics.items():
        assert two.metrics[name] == pytest.approx(value, abs=2e-4)
    for name, value in evaluation.labels.items():
        np.testing.assert_array_equal(two.labels[name], value)
    if head == "span":
        assert evaluation.metrics == {}
    else:
        assert evaluation.metrics["loss"] > 0


def test_an_unknown_head_is_refused_with_the_list():
    with pytest.raises(UserError, match="token_classification"):
        heads.build_objective("tagging", CONFIG)


def test_a_fine_tuned_model_keeps_the_memory_length_in_its_config():
    objective = heads.build_objective("regression", CONFIG)
    assert objective.config.mem_len is None
    assert objective.saved_config.mem_len == 4


def test_a_fine_tuned_model_says_nothing_of_the_head_before():
    """A TF1 checkpoint has no task: Hugging Face's file named old labels."""
    of_head = {
        "id2label": {"0": "a", "1": "b", "2": "c"},
        "label2id": {"a": 0, "b": 1, "c": 2},
        "problem_type": "multi_label_classification",
        "architectures": ["x"],
    }
    theirs = of_head | {"use_cache": True}
    bert = BertConfig(
        vocab_size=9, d_model=4, n_layer=1, n_head=2, d_inner=6, extra=theirs
    )
    for config in (CONFIG.replace(extra={"hf": theirs}), bert):
        for head in ("regression", "token_classification"):
            kept = heads.build_objective(head, config).saved_config
            left = kept.extra.get("hf", kept.extra)
            assert left == {"use_cache": True}
            assert kept == config.replace(extra=kept.extra)
