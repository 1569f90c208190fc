"""What `run_lm.py` evaluates, and what it refuses to leave out silently."""

import pytest

from common.errors import UserError
from modeling.encoders.transformer_xl.config import TransformerXLConfig
from tests.training import toy
from training.causal_lm_options import CausalLMOptions

CONFIG = TransformerXLConfig(
    **dict(vocab_size=9, d_model=4, n_layer=1, n_head=1, d_head=4, d_inner=4),
    mem_len=8,
)


def evaluates(folder, there=("train", "valid"), config=CONFIG, **what):
    names = ("eval_every", "average_trigger")
    own = {k: what.pop(k) for k in names if k in what}
    run = toy.run_options(folder, eval_every=own.get("eval_every", 0))
    if own.get("average_trigger"):
        run = run.replace(
            optimizer=run.optimizer.__class__(
                **(vars(run.optimizer) | {"average_trigger": 5})
            )
        )
    return CausalLMOptions("data", **what).evaluates(
        config, run, there.__contains__
    )


def test_a_split_that_is_missing_is_said_or_refused(tmp_path):
    assert evaluates(tmp_path) == (True, [])
    assert evaluates(tmp_path, mode="train") == (False, [])
    there, lines = evaluates(tmp_path, there=("train",))
    assert not there and "no valid split" in lines[0]
    with pytest.raises(UserError, match="no valid split .*--valid_glob"):
        evaluates(tmp_path, there=("train",), eval_every=3)
    with pytest.raises(UserError, match="no vaild split"):
        evaluates(tmp_path, eval_split="vaild")
    with pytest.raises(UserError, match="average_trigger counts evaluations"):
        evaluates(tmp_path, mode="train", eval_every=3, average_trigger=5)


def test_changes_are_of_evaluation_alone(tmp_path):
    changes = {"mem_len": 20, "clamp_len": 3}
    there, lines = evaluates(tmp_path, eval_changes=changes)
    assert there and "--eval_mem_len, --eval_clamp_len" in lines[0]
    assert evaluates(tmp_path, mode="eval", eval_changes=changes) == (True, [])


def test_windows_see_all_of_themselves(tmp_path):
    assert evaluates(tmp_path, protocol="sliding") == (True, [])
    for change in ({"same_length": True}, {"memory_start": "zeros"}):
        config = CONFIG.replace(**change)
        with pytest.raises(UserError, match="windows would see"):
            evaluates(tmp_path, config=config, protocol="sliding")
        without = config.with_memory(0)
        if not config.same_length:
            assert evaluates(tmp_path, config=without, protocol="sliding")[0]
    with pytest.raises(UserError, match="every token only itself"):
        CausalLMOptions(
            "d",
            mode="eval",
            protocol="sliding",
            eval_changes={"same_length": True},
        )
    with pytest.raises(UserError, match="nothing would be evaluated"):
        CausalLMOptions("d", mode="sweep", sweep_step=9, sweep_max=8)
