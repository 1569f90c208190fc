"""The LSTM beside Transformer-XL: which settings of run_lm.py it follows."""

import pytest

from common.errors import UserError
from data.language_modeling import run_data
from flags.training import causal_lm_flags
from modeling.encoders.transformer_xl.config import TransformerXLConfig
from studies.language import lm_lstm
from tests.data.language_modeling.stream_builds import TEXT, run
from tests.flags.fresh_flags import parsed
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


@pytest.mark.parametrize(
    "flag", ["n_head=3", "same_length", "nountie_r", "mem_len=9", "dropatt=0.1"]
)
def test_a_setting_of_attention_is_refused(flag):
    """They had no effect."""
    name = flag.removeprefix("no").partition("=")[0]
    sizes = ("--n_layer=1", "--d_inner=8", "--cutoffs=9", "--dropout=0.1")
    folders = ("--data_dir=d", "--model_dir=m")
    with parsed(causal_lm_flags.define, *folders, *sizes):
        what = causal_lm_flags.from_flags()
        lm_lstm.check(what, lm_lstm.given())
    with parsed(causal_lm_flags.define, *folders, f"--{flag}"):
        with pytest.raises(UserError, match=f"^--{name}: wanted a setting"):
            lm_lstm.check(what, lm_lstm.given())


def test_what_is_followed():
    own = {"seq_len": 8, "order": "shuffled", "eval_split": "test"}
    anchor = {"protocol": "anchor", "eval_seq_len": 9}
    for mode in lm_lstm.MODES:
        what = CausalLMOptions("data", mode=mode, **own, **anchor)
        lm_lstm.check(what, {"recipe": None, "eval_every": 0})


def test_data_of_another_vocabulary_are_refused(tmp_path):
    """An evaluation of them had numbers."""
    upper = {split: text.upper() for split, text in TEXT.items()}
    one, other = (
        run_data.open_data(run(tmp_path, name, texts).data_dir)
        for name, texts in (("one", TEXT), ("other", upper))
    )
    config = TransformerXLConfig(
        vocab_size=one.vocabulary.size,
        **dict(d_model=4, n_layer=1, n_head=1, d_head=4, d_inner=4),
    )
    known = lm_lstm.objective_of(one, config, None).config
    lm_lstm.objective_of(one, config, known)
    with pytest.raises(UserError, match="another vocabulary than the one of"):
        lm_lstm.objective_of(other, config, known)
