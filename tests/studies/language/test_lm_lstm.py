"""The LSTM beside Transformer-XL: which settings of run_lm.py it follows."""

import pytest

from common.errors import UserError
from studies.language import lm_lstm
from training.jobs.causal_lm_options import CausalLMOptions


@pytest.mark.parametrize(
    "what, given, message",
    [
        # Both trained, whatever they were asked for.
        ({"mode": "score", "input_file": "x"}, {}, "--mode must .* score$"),
        ({"mode": "sweep"}, {}, "^--mode must be one of train, train_and_eval"),
        ({"half_loss": True}, {}, "^--half_loss: wanted"),
        ({"count_mark_pairs": False}, {}, "^--count_mark_pairs: wanted"),
        ({"eval_changes": {"clamp_len": 3}}, {}, "^--eval_clamp_len: wanted"),
        ({}, {"eval_every": 0, "recipe": "txl_ptb"}, "^--recipe: wanted"),
    ],
)
def test_what_would_be_ignored_is_refused(what, given, message):
    with pytest.raises(UserError, match=message):
        lm_lstm.check(CausalLMOptions("data", **what), given)


def test_what_is_followed():
    own = {"seq_len": 8, "order": "shuffled", "eval_split": "test"}
    anchor = {"protocol": "anchor", "eval_seq_len": 9}
    for mode in lm_lstm.MODES:
        what = CausalLMOptions("data", mode=mode, **own, **anchor)
        lm_lstm.check(what, {"recipe": None, "eval_every": 0})
