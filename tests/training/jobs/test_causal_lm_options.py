"""What `run_lm.py` evaluates, and what it refuses to leave out silently."""

import pytest

from common.errors import UserError
from modeling.encoders.transformer_xl.config import TransformerXLConfig
from training.jobs.causal_lm_options import CausalLMOptions
from training.reporting import run_record

CONFIG = TransformerXLConfig(
    **dict(vocab_size=9, d_model=4, n_layer=1, n_head=1, d_head=4, d_inner=4),
    mem_len=8,
)


def evaluates(there=("train", "valid"), config=CONFIG, eval_every=0, **what):
    return CausalLMOptions("data", **what).evaluates(
        config, eval_every, there.__contains__
    )


def test_a_split_that_is_missing_is_said_or_refused():
    assert evaluates() == (True, [])
    assert evaluates(mode="train") == (False, [])
    there, lines = evaluates(there=("train",))
    assert not there and "no valid split" in lines[0]
    with pytest.raises(UserError, match="no valid split .*--valid_glob"):
        evaluates(there=("train",), eval_every=3)
    with pytest.raises(UserError, match="no vaild split"):
        evaluates(eval_split="vaild")


@pytest.mark.parametrize(
    "what, message",
    [
        (
            {"mode": "eval", "output_file": "x"},
            "--output_file is of --mode=sc",
        ),
        (
            {"input_file": "x"},
            "is of --mode=score, found train_and_eval: leave",
        ),
        (
            {"mode": "score", "input_file": "x", "output_file": "a.jsonl.gz"},
            "--output_file is written plain: give a name without .gz",
        ),
        (
            {"mode": "score", "input_file": "x", "output_file": "-"},
            "--output_file=-: wanted the name of a file",
        ),
        ({"score_line_end": False}, "^--noscore_line_end is of --mode=score"),
        ({"mode": "eval", "sweep_max": 9}, "--sweep_max is of --mode=sweep"),
        ({"sweep_clamp_lens": (3,)}, "--sweep_clamp_lens is of --mode=sweep"),
        (
            {"mode": "score", "sweep_dir": "x"},
            "--sweep_dir is of --mode=sweep",
        ),
        (
            {"mode": "score", "input_file": "x", "protocol": "anchor"},
            "--protocol is of evaluations of a split",
        ),
        (
            {"mode": "score", "input_file": "x", "eval_split": "test"},
            "^--eval_split is of evaluations of a split",
        ),
        (
            {"mode": "score", "input_file": "x", "count_mark_pairs": False},
            "^--nocount_mark_pairs is of evaluations of a split",
        ),
    ],
)
def test_a_setting_of_another_mode_is_refused(what, message):
    """A table that was asked for was not written, without a word."""
    with pytest.raises(UserError, match=message) as e:
        CausalLMOptions("data", **what)
    assert "\n" not in str(e.value)


def test_settings_of_their_own_mode():
    one = {"input_file": "x", "output_file": "y", "score_line_end": False}
    assert CausalLMOptions("data", mode="score", **one).output_file == "y"
    many = {"sweep_step": 2, "sweep_max": 9, "sweep_gain": 0.1}
    assert CausalLMOptions("data", mode="sweep", **many).sweep_step == 2
    anchor = {"protocol": "anchor", "count_mark_pairs": False}
    assert CausalLMOptions("data", mode="eval", **anchor).protocol == "anchor"


def test_a_training_alone_says_that_it_evaluates_nothing():
    there, lines = evaluates(mode="train", eval_every=4)
    assert not there and "--eval_every=4: of evaluations; " in lines[0]
    there, lines = evaluates(
        mode="train",
        eval_split="vaild",
        eval_seq_len=7,
        count_mark_pairs=False,
        eval_changes={"mem_len": 3},
    )
    assert not there and lines[0].lstrip() == (
        "--eval_split, --nocount_mark_pairs, --eval_seq_len, --eval_mem_len: of "
        "evaluations; --mode=train makes none"
    )


def test_a_resumed_run_keeps_what_it_learns_from(tmp_path):
    folder = str(tmp_path)

    def start(resuming=True, **what):
        must = CausalLMOptions("d", **what).must_match()
        return run_record.update(folder, {}, must, {}, resuming)

    start(resuming=False, half_loss=True)
    with pytest.raises(UserError, match="`half_loss` wanted False, found True"):
        start()
    with pytest.raises(UserError, match="`order` wanted shuffled, found order"):
        start(half_loss=True, order="shuffled")
    # An older run.json has neither; what it was made with is in its flags.
    (tmp_path / "run.json").write_text(
        '{"flags": {"order": "shuffled"}, "must_match": {"data": "x"}}'
    )
    with pytest.raises(UserError, match="`order` wanted ordered, found shuffl"):
        start()
    start(order="shuffled")


def test_other_evaluations_of_a_resumed_run_are_noted(tmp_path):
    def start(segment=12, resuming=True, steps=3, **what):
        should = CausalLMOptions("d", **what).should_match(segment, steps)
        return run_record.update(str(tmp_path), {}, {"a": 1}, should, resuming)

    start(resuming=False)
    assert start() == []
    assert "`eval_steps` wanted 5, found 3: the run co" in start(steps=5)[0]
    assert "`eval_seq_len` wanted 24, found 12: the run co" in start(24)[0]
    assert "`eval_split` wanted test" in start(24, eval_split="test")[0]


def test_changes_are_of_evaluation_alone():
    changes = {"mem_len": 20, "clamp_len": 3}
    there, lines = evaluates(eval_changes=changes)
    assert there and "--eval_mem_len, --eval_clamp_len" in lines[0]
    assert evaluates(mode="eval", eval_changes=changes) == (True, [])


def test_windows_see_all_of_themselves():
    assert evaluates(protocol="sliding") == (True, [])
    for change in ({"same_length": True}, {"memory_start": "zeros"}):
        config = CONFIG.replace(**change)
        with pytest.raises(UserError, match="windows would see"):
            evaluates(config=config, protocol="sliding")
        without = config.with_memory(0)
        if not config.same_length:
            assert evaluates(config=without, protocol="sliding")[0]
    with pytest.raises(UserError, match="every token only itself"):
        CausalLMOptions(
            "d",
            mode="eval",
            protocol="sliding",
            eval_changes={"same_length": True},
        )
    with pytest.raises(UserError, match="nothing would be evaluated"):
        CausalLMOptions("d", mode="sweep", sweep_step=9, sweep_max=8)


def test_files_of_scores_are_of_that_mode():
    scored = {"input_file": "lines.txt", "output_file": "scores.jsonl"}
    assert CausalLMOptions("data", mode="score", **scored).output_file
    for name, path in scored.items():
        with pytest.raises(UserError, match=f"--{name} is of --mode=score"):
            CausalLMOptions("data", mode="eval", **{name: path})
