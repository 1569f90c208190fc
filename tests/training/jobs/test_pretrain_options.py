"""Which options of a pretraining go together, and what a resumed one keeps."""

import dataclasses

import pytest

from common.errors import UserError
from training.jobs.pretrain_options import PretrainOptions


@pytest.mark.parametrize(
    "objective, flag",
    [
        ("mlm", {"target_order": "none"}),
        ("mlm", {"resample_permutation": True}),
        ("permutation_lm", {"mlm_stream": "query"}),
        ("permutation_lm", {"mask_rate": 0.1}),
        ("permutation_lm", {"sentence_order": True}),
        ("permutation_lm", {"pack": True}),
    ],
)
def test_a_flag_of_the_other_objective_is_one_line(objective, flag):
    ((name, value),) = flag.items()
    other = {"mlm": "permutation_lm", "permutation_lm": "mlm"}[objective]
    with pytest.raises(UserError, match=f"^--{name} is of --objective={other}"):
        PretrainOptions("d", objective=objective, **flag)
    assert getattr(PretrainOptions("d", objective=other, **flag), name) == value
    # The encoder decides later where no objective is given.
    open_ = PretrainOptions("d", **flag)
    open_.check_objective(other)
    with pytest.raises(UserError, match=f"--{name} is of"):
        open_.check_objective(objective)


@pytest.mark.parametrize(
    "flag, other, value",
    [
        ("resample_targets", "mask_rate", 0.1),
        ("resample_permutation", "target_order", "none"),
        ("resample_permutation", "target_order", "forward"),
    ],
)
def test_a_draw_that_another_flag_replaces_is_refused(flag, other, value):
    for fields in ({flag: True}, {other: value}):
        PretrainOptions("d", **fields)
    with pytest.raises(UserError, match=f"^--{flag} .*--{other}={value}.* one"):
        PretrainOptions("d", **{flag: True, other: value})


def test_there_is_one_second_head():
    for flag in ("next_sentence", "sentence_order"):
        PretrainOptions("d", **{flag: True})
    with pytest.raises(UserError, match="there is one second head"):
        PretrainOptions("d", next_sentence=True, sentence_order=True)


def test_only_an_evaluation_follows_another_job():
    assert PretrainOptions("d", mode="eval", follow=True).follow
    for mode in ("train", "train_and_eval"):
        with pytest.raises(UserError, match="--follow is of --mode=eval"):
            PretrainOptions("d", mode=mode, follow=True)


def test_evaluations_that_are_asked_for_are_made_or_said():
    for mode in ("train", "train_and_eval", "eval"):
        assert PretrainOptions("d", mode=mode).evaluates(0, False) == []
    options = PretrainOptions("d")
    assert options.evaluates(4, True) == []
    with pytest.raises(UserError, match="--eval_every=4: d has no dev split"):
        options.evaluates(4, False)
    (line,) = PretrainOptions("d", mode="train").evaluates(4, True)
    assert line == (
        "note: --eval_every=4: of --mode=train_and_eval; --mode=train "
        "evaluates nothing"
    )
    (line,) = PretrainOptions("d", "held", mode="train").evaluates(0, True)
    assert line.startswith("note: --eval_data_dir=held: of --mode=train_and_")


@pytest.mark.parametrize(
    "wrong, message",
    [
        ({"mode": "predict"}, "--mode must be one of"),
        ({"target_order": "backward"}, "--target_order must be one of"),
        ({"loss_chunk_size": 0}, "--loss_chunk_size must be >= 1"),
    ],
)
def test_a_wrong_value_is_named(wrong, message):
    with pytest.raises(UserError, match=message):
        PretrainOptions("d", **wrong)


def test_a_resumed_run_keeps_what_records_are_read_as():
    """Each of these changes what is learned from the same records."""
    plain = PretrainOptions("d").must_match()
    changes = {
        "next_sentence": True,
        "target_order": "none",
        "mlm_stream": "query",
        "reset_memory_at_document": True,
        "resample_permutation": True,
        "resample_targets": True,
    }
    assert plain.keys() == changes.keys()
    for name, value in changes.items():
        found = PretrainOptions("d", **{name: value}).must_match()
        assert found == plain | {name: value} != plain
    # Where the records lie, and how long they are read, may change.
    moved = PretrainOptions("e", mode="train", loss_chunk_size=3)
    assert moved.must_match() == plain
    assert dataclasses.replace(moved, mode="eval").must_match() == plain
