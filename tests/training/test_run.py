"""Resume, replicas, accumulation, memory and stopping, on the toy objective."""

import dataclasses
import glob
import json
import os
import signal

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.util import event_pb2

from common.errors import Stopped, UserError
from tests.helpers.runs import toy
from training import loop
from training.checkpointing.best_checkpoint import BestCheckpoint
from training.checkpointing.memory_files import SavedMemory
from training.reporting import loss_log
from training.run_options import OptimizerOptions


class Crash(Exception):
    """Stands for a process that dies."""


def train(options, dropout=0.0, say=lambda line: None, **kwargs):
    kwargs.setdefault("input_fn", toy.input_fn)
    input_fn = kwargs.pop("input_fn")
    objective = kwargs.pop("objective", toy.ToyObjective(dropout=dropout))
    return loop.train(objective, input_fn, options, say=say, **kwargs)


def crash_after(step):
    def say(line):
        if line.startswith(f"step {step}/"):
            raise Crash

    return say


def log_of(folder):
    return (folder / "losses.tsv").read_text()


def weights(result):
    return [v.numpy() for v in result.model.variables]


@pytest.fixture(scope="module")
def one_replica(tmp_path_factory):
    """The undisturbed run that others are compared with: no dropout."""
    folder = tmp_path_factory.mktemp("one")
    result = train(toy.run_options(folder))
    return folder, result


def test_a_trigger_without_evaluations_is_refused(tmp_path):
    """Averaging would never begin, whatever command asks for it."""
    options = toy.run_options(tmp_path / "m", eval_every=4).replace(
        optimizer=OptimizerOptions(average_trigger=3)
    )
    with pytest.raises(UserError, match="nothing is evaluated: wanted"):
        train(options)
    assert not (tmp_path / "m").exists()


def test_a_trigger_beside_evaluations_without_a_loss_is_refused(tmp_path):
    """SQuAD's search beams only; before a step, not at the first evaluation."""
    options = toy.run_options(tmp_path / "m", eval_every=4).replace(
        optimizer=OptimizerOptions(average_trigger=3)
    )
    objective = toy.ToyObjective()
    objective.evaluates_loss = False
    with pytest.raises(UserError, match="those of pretraining have none"):
        train(options, objective=objective, eval_input_fn=toy.input_fn)
    assert not (tmp_path / "m").exists()


def test_data_that_is_damaged_is_one_line_before_the_first_step(tmp_path):
    """A warm start reads batches, and so does a memory that is made again."""

    def damaged(model):
        raise tf.errors.DataLossError(None, None, "corrupted record at 8")

    with pytest.raises(UserError, match="is damaged: corrupted record at 8"):
        train(toy.run_options(tmp_path / "m"), warm_start=damaged)
    options = toy.run_options(tmp_path / "m", memory_checkpoint="recompute")
    train(options.replace(train_steps=6))
    with pytest.raises(UserError, match="^part-0.tfrecord record 7"):
        train(options, input_fn=toy.broken)


def test_one_trace_one_line_per_step_and_files(one_replica):
    folder, result = one_replica
    assert result.finished and result.step == 12
    assert result.trace_count == 1
    names, rows = loss_log.read(str(folder))
    assert names[:2] == ["loss", "learning_rate"]
    assert rows[:, 0].tolist() == list(range(1, 13))
    assert rows[0, 2] == 0.0  # the first rate of a warm-up
    found = set(os.listdir(folder))
    assert {"checkpoint", "xlnet_config.json", "run.json"} <= found
    assert "model.ckpt-6.index" in found and "model.ckpt-12.index" in found
    record = json.loads((folder / "run.json").read_text())
    assert len(record["starts"]) == 1
    assert record["should_match"]["replicas"] == 1


def test_a_resume_that_computes_in_another_order_says_so(tmp_path):
    """Sums are made in other parts, and their bits differ."""
    objective, said = toy.ToyObjective(), []
    options = toy.run_options(tmp_path, train_steps=3)
    train(options, objective=objective)
    objective.loss_chunk_size = 7
    train(options, objective=objective, say=said.append)
    note = "note: `loss_chunk_size` wanted 7, found None: "
    assert any(line.startswith(f"{note}no step is left") for line in said)
    options = options.replace(train_steps=4)
    train(options, objective=objective, say=said.append)
    goes_on = "the run continues, but not bit for bit as before"
    assert note + goes_on in said


@pytest.mark.long
@pytest.mark.parametrize(
    "changes",
    [
        dict(distribution="mirrored", replicas=2),
        pytest.param(
            dict(distribution="mirrored", replicas=4), marks=pytest.mark.slow
        ),
        dict(grad_accumulation_steps=2),
        pytest.param(
            dict(
                distribution="mirrored", replicas=2, grad_accumulation_steps=2
            ),
            marks=pytest.mark.slow,
        ),
        pytest.param(dict(jit_compile=True), marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_replicas_and_micro_batches_give_the_losses_of_one(
    tmp_path, one_replica, changes
):
    # The toy's loss depends on every row's memory and direction.
    result = train(toy.run_options(tmp_path, **changes))
    _, wanted = loss_log.read(str(one_replica[0]))
    _, found = loss_log.read(str(tmp_path))
    np.testing.assert_allclose(found, wanted, atol=2e-6)
    for ours, theirs in zip(
        weights(result), weights(one_replica[1]), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, atol=5e-6)


@pytest.mark.long
@pytest.mark.parametrize(
    "changes",
    [
        dict(),
        pytest.param(
            dict(
                distribution="mirrored", replicas=2, grad_accumulation_steps=2
            ),
            marks=pytest.mark.slow,
        ),
    ],
    ids=["one", "two"],
)
def test_a_crashed_run_goes_on_bit_for_bit(tmp_path, changes):
    undisturbed = train(toy.run_options(tmp_path / "a", **changes), dropout=0.2)
    options = toy.run_options(tmp_path / "b", **changes)
    with pytest.raises(Crash):
        train(options, 0.2, crash_after(4))  # before the first save
    with pytest.raises(Crash):
        train(options, 0.2, crash_after(8))  # after the save at 6
    assert log_of(tmp_path / "b").count("\n") == 9
    resumed = train(options, 0.2)
    assert log_of(tmp_path / "a") == log_of(tmp_path / "b")
    for ours, theirs in zip(
        weights(resumed), weights(undisturbed), strict=True
    ):
        assert ours.tobytes() == theirs.tobytes()


@pytest.mark.long
def test_another_number_of_replicas_keeps_the_memory(tmp_path, one_replica):
    lines = []
    with pytest.raises(Crash):
        train(toy.run_options(tmp_path), 0.0, crash_after(8))
    train(
        toy.run_options(tmp_path, distribution="mirrored", replicas=4),
        say=lines.append,
    )
    _, wanted = loss_log.read(str(one_replica[0]))
    _, found = loss_log.read(str(tmp_path))
    np.testing.assert_allclose(found, wanted, atol=2e-6)
    assert any("`replicas` wanted 4, found 1" in line for line in lines)


@pytest.mark.long
def test_another_batch_size_needs_reset_memory(tmp_path):
    with pytest.raises(Crash):
        train(toy.run_options(tmp_path), 0.0, crash_after(8))
    smaller = toy.run_options(tmp_path, train_batch_size=4)
    with pytest.raises(UserError, match="--reset_memory"):
        train(smaller)
    assert train(smaller.replace(reset_memory=True)).finished
    # From then on the new memory is saved: no flag is needed again.
    assert train(smaller.replace(train_steps=14)).step == 14


@pytest.mark.long
def test_saving_beside_the_steps_changes_nothing(tmp_path, one_replica):
    options = toy.run_options(tmp_path, async_save=True, save_steps=2)
    with pytest.raises(Crash):
        train(options, 0.0, crash_after(8))
    # What was in flight became whole.
    latest = tf.train.latest_checkpoint(str(tmp_path))
    assert latest.endswith("ckpt-6")
    found, wanted = train(options), one_replica[1]
    assert log_of(tmp_path) == log_of(one_replica[0])
    for ours, theirs in zip(weights(found), weights(wanted), strict=True):
        assert ours.tobytes() == theirs.tobytes()
    memory = [
        SavedMemory(result.checkpoint).read(np.arange(8))
        for result in (found, wanted)
    ]
    for a, b in zip(*(m.layers for m in memory), strict=True):
        assert a.tobytes() == b.tobytes()
    assert len(glob.glob(str(tmp_path / "*.memory"))) == 3  # --max_save


@pytest.mark.slow
def test_memory_that_is_not_saved_is_made_again_or_empty(tmp_path):
    """With a learning rate of almost 0 it is exactly what it was."""
    rows, lines = {}, {}
    for how in ("exact", "recompute", "none"):
        options = toy.run_options(
            tmp_path / how,
            memory_checkpoint=how,
            optimizer=OptimizerOptions(learning_rate=1e-30),
        )
        with pytest.raises(Crash):
            train(options, 0.2, crash_after(8))
        has = bool(glob.glob(str(tmp_path / how / "*.memory")))
        assert has == (how == "exact")
        lines[how] = []
        train(options, 0.2, lines[how].append)
        rows[how] = loss_log.read(str(tmp_path / how))[1][:, 1]
    np.testing.assert_array_equal(rows["exact"], rows["recompute"])
    assert (rows["exact"] != rows["none"])[6:].any()
    told = {k: [n for n in v if "bit for bit" in n] for k, v in lines.items()}
    assert not told["exact"]
    assert "rebuilt from the 2 steps before step 7" in told["recompute"][0]
    assert "starts empty" in told["none"][0]
    # A checkpoint without memory cannot go on exactly.
    options = toy.run_options(tmp_path / "none", train_steps=14)
    with pytest.raises(UserError, match="holds no memory; give --memory_ch"):
        train(options)


def test_odd_batch_with_two_directions_is_refused(tmp_path):
    with pytest.raises(UserError, match="2 directions"):
        train(toy.run_options(tmp_path, train_batch_size=7))
    assert not os.path.exists(tmp_path / "run.json")


@pytest.mark.long
def test_steps_without_a_target_are_in_no_mean(tmp_path):
    """Their loss is 0: the line of progress was too low."""

    def half_empty(params):
        steps = tf.data.Dataset.counter(params["start_step"])
        batches = tf.data.Dataset.zip(steps, toy.input_fn(params))
        return batches.map(
            lambda step, batch: (
                batch
                | {
                    "target_weights": tf.ones_like(batch["target_weights"])
                    * tf.cast(step % 2, tf.float32)
                }
            )
        )

    result = train(toy.run_options(tmp_path), input_fn=half_empty)
    names, rows = loss_log.read(str(tmp_path))
    losses = rows[-4:, 1 + names.index("loss")]
    assert (losses == 0).tolist() == [True, False, True, False]
    assert result.last["loss"] == pytest.approx(losses[1::2].mean())


@pytest.mark.slow
def test_xla_draws_other_dropout_masks_from_the_same_seed(tmp_path):
    """As docs/guides/training.md says; without dropout losses are equal."""
    first = {}
    for dropout in (0.0, 0.3):
        for compiled in (False, True):
            folder = tmp_path / f"{dropout}-{compiled}"
            options = toy.run_options(folder, jit_compile=compiled)
            train(options.replace(train_steps=4), dropout)
            _, rows = loss_log.read(str(folder))
            first[dropout, compiled] = rows[0, 1]
    assert first[0.0, True] == pytest.approx(first[0.0, False], abs=1e-6)
    assert abs(first[0.3, True] - first[0.3, False]) > 0.01


@pytest.mark.long
def test_a_signal_during_the_last_evaluation_acts_behind_it(tmp_path):
    """It was lost, and what the command does next began."""
    seen, lines = [], []

    def say(line):
        lines.append(line)
        if line.startswith("evaluation at step 12"):
            os.kill(os.getpid(), signal.SIGTERM)

    def note(number, frame):
        seen.append(number)
        assert lines[-1].startswith("memory: ")  # all is said

    before = signal.signal(signal.SIGTERM, note)
    try:
        result = train(
            toy.run_options(tmp_path),
            say=say,
            eval_input_fn=lambda params: toy.input_fn(params, 2),
        )
    finally:
        signal.signal(signal.SIGTERM, before)
    assert result.finished and seen == [signal.SIGTERM]


@pytest.mark.long
def test_a_signal_during_an_evaluation_stops_behind_it(tmp_path):
    """Not after one more host loop, which a preempted machine has no time for."""

    def say(line):
        if line.startswith("evaluation at step 3:"):
            os.kill(os.getpid(), signal.SIGTERM)

    def run(folder, say=lambda line: None):
        options = toy.run_options(folder, save_steps=0, eval_every=3)
        held_out = {"eval_input_fn": lambda params: toy.input_fn(params, 2)}
        return train(options, 0.2, say, **held_out)

    result = run(tmp_path / "a", say)
    assert (result.step, result.reason) == (3, "SIGTERM")
    assert result.checkpoint.endswith("ckpt-3")
    assert run(tmp_path / "a").step == run(tmp_path / "b").step == 12
    for name in ("losses.tsv", "evaluations.jsonl"):
        found, wanted = (tmp_path / f / name for f in "ab")
        assert found.read_text() == wanted.read_text()


@pytest.mark.long
def test_without_progress_a_stop_is_one_line(tmp_path):
    """The command ended with its status, and without a word."""
    lines = []
    options = toy.run_options(tmp_path, progress="none", max_hours=1e-9)
    result = train(options, say=lines.append)
    assert not result.finished and len(lines) == 1
    assert "--max_hours is over" in lines[0]
    assert "resumes from there" in lines[0]


@pytest.mark.long
def test_without_progress_a_run_that_begins_anew_says_so(tmp_path):
    best = BestCheckpoint(str(tmp_path), tf.Module(), "loss", higher=False)
    assert best.offer({"loss": 0.5}, 10)
    lines = []
    train(toy.run_options(tmp_path, progress="none"), say=lines.append)
    assert len(lines) == 1 and "moved to" in lines[0]


@pytest.mark.long
def test_sigterm_saves_within_one_host_loop(tmp_path):
    lines = []

    def say(line):
        lines.append(line)
        if line.startswith("step 4/"):
            os.kill(os.getpid(), signal.SIGTERM)

    result = train(toy.run_options(tmp_path, save_steps=0), 0.2, say)
    assert not result.finished and result.reason == "SIGTERM"
    assert result.step == 4 and result.checkpoint.endswith("ckpt-4")
    assert "resumes from there" in lines[-1]
    with pytest.raises(Stopped) as stop:
        result.or_stop()
    assert stop.value.status == 143
    whole = train(toy.run_options(tmp_path, save_steps=0), 0.2)
    assert whole.or_stop().step == 12
    train(toy.run_options(tmp_path / "b", save_steps=0), 0.2)
    assert log_of(tmp_path) == log_of(tmp_path / "b")


@pytest.mark.long
def test_a_closed_terminal_saves_and_nohup_goes_on(tmp_path):
    def say(line):
        if line.startswith("step 4/"):
            os.kill(os.getpid(), signal.SIGHUP)

    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        result = train(toy.run_options(tmp_path / "a", save_steps=0), 0.2, say)
        assert not result.finished and result.reason == "SIGHUP"
        assert result.checkpoint.endswith("ckpt-4")
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        assert train(toy.run_options(tmp_path / "b"), 0.2, say).finished
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.slow
def test_max_hours_stops_cleanly(tmp_path):
    result = train(toy.run_options(tmp_path, max_hours=1e-9))
    assert result.step == 4 and "max_hours" in result.reason


def test_a_finished_run_started_again_changes_nothing(one_replica):
    folder, _ = one_replica
    before = log_of(folder)
    lines = []
    again = train(toy.run_options(folder), say=lines.append)
    assert again.finished and again.step == 12
    assert log_of(folder) == before
    # No step was made here, so none has a cost.
    assert any(line.startswith("trained to step 12") for line in lines)
    assert not any(line.startswith("cost:") for line in lines)


def test_a_start_that_trains_nothing_does_not_rewrite_what_trained(tmp_path):
    """`training.compare` takes flags for those that gave the losses."""

    def start(flags, **changes):
        options = toy.run_options(tmp_path, iterations=2, **changes)
        loop.train(
            toy.ToyObjective(),
            toy.input_fn,
            options,
            flags=flags,
            say=lambda line: None,
        )

    def read():
        record = json.loads((tmp_path / "run.json").read_text())
        return record["flags"], len(record["starts"])

    start({"rate": 1}, train_steps=3)
    with pytest.raises(UserError, match="give --mem_len=0"):
        start(
            {"rate": 2},
            train_steps=5,
            min_batch_size=4,
            batch_size_warmup_tokens=9,
        )
    assert read() == ({"rate": 1}, 1)
    start({"rate": 3}, train_steps=3)
    assert read() == ({"rate": 1}, 2)
    start({"rate": 4}, train_steps=4)
    assert read() == ({"rate": 4}, 3)


def planted_nan(params):
    def plant(i, batch):
        bad = tf.where(i == 8, float("nan"), 1.0)
        weights = batch["target_weights"] * bad
        return batch | {"target_weights": weights}

    start = params["start_step"]
    return toy.input_fn(params).enumerate(start).map(plant)


@pytest.mark.long
def test_a_nan_stops_with_steps_and_the_last_good_checkpoint(tmp_path):
    with pytest.raises(UserError, match=r"step 9 .*steps 9-12.*ckpt-8"):
        train(toy.run_options(tmp_path, save_steps=4), input_fn=planted_nan)
    latest = tf.train.latest_checkpoint(str(tmp_path))
    assert latest.endswith("ckpt-8")


@pytest.mark.long
def test_the_readers_error_is_one_line(tmp_path):
    with pytest.raises(UserError, match="record 7: id 99") as e:
        train(toy.run_options(tmp_path), input_fn=toy.broken)
    assert "\n" not in str(e.value)


@pytest.mark.long
def test_a_run_prints_through_say_alone_and_writes_summaries(tmp_path, capsys):
    lines = []
    train(toy.run_options(tmp_path, train_steps=4), say=lines.append)
    assert capsys.readouterr().out == ""  # nothing of orbit's
    assert any(line.startswith("step 4/4") for line in lines)
    (path,) = glob.glob(str(tmp_path / "train" / "events.out.*"))
    tags = {}
    for record in tf.data.TFRecordDataset(path):
        event = event_pb2.Event.FromString(record.numpy())
        for value in event.summary.value:
            tags.setdefault(event.step, set()).add(value.tag)
    assert {"loss", "steps_per_second", "parameter_norm"} <= tags[4]


def test_a_model_dir_of_another_model_or_data_is_refused(tmp_path):
    facts = {"vocabulary": "abc"}
    train(toy.run_options(tmp_path, train_steps=4), must_match=facts)
    with pytest.raises(UserError, match="`vocabulary` wanted xyz, found abc"):
        train(toy.run_options(tmp_path), must_match={"vocabulary": "xyz"})
    other = toy.ToyObjective()
    other.config = toy.CONFIG.replace(d_model=6)
    with pytest.raises(UserError, match="`d_model` wanted 6, found 4"):
        train(toy.run_options(tmp_path), objective=other)


@pytest.mark.long
def test_evaluation_uses_averaged_weights(tmp_path):
    def held_out(params):
        return toy.input_fn(params | {"start_step": 500}, steps=503)

    found = {}
    for decay in (0.0, 0.999):
        folder = tmp_path / str(decay)
        options = toy.run_options(folder, eval_every=4, eval_at_start=True)
        options = options.replace(
            optimizer=dataclasses.replace(options.optimizer, ema_decay=decay)
        )
        result = train(options, eval_input_fn=held_out)
        found[decay] = [m["loss"] for _, m in result.evaluations]
    assert (folder / "losses.tsv").read_text() == log_of(tmp_path / "0.0")
    # An average over a thousand steps hardly moves in twelve.
    moved, slow = (abs(x[-1] - x[0]) for x in (found[0.0], found[0.999]))
    assert found[0.0][0] == found[0.999][0]
    assert 0 < slow < 0.1 * moved


@pytest.mark.long
def test_the_best_checkpoint_is_kept(tmp_path):
    options = toy.run_options(tmp_path, eval_every=4, best_metric="loss")
    options = options.replace(best_higher=False, eval_at_start=True)

    def held_out(params):
        return toy.input_fn(params | {"start_step": 500}, steps=503)

    result = train(options, eval_input_fn=held_out)
    assert [step for step, _ in result.evaluations] == [0, 4, 8, 12]
    losses = [m["loss"] for _, m in result.evaluations]
    best = tf.train.load_checkpoint(str(tmp_path / "best"))
    value = best.get_tensor("value/.ATTRIBUTES/VARIABLE_VALUE")
    assert value == min(losses)
    lines = (tmp_path / "evaluations.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [0, 4, 8, 12]
    perplexity = result.evaluations[0][1]["perplexity"]
    assert perplexity == pytest.approx(np.exp(losses[0]))


@pytest.mark.slow
def test_host_wait_is_measured(tmp_path):
    def slow(params):
        def wait(batch):
            batch["reset_memory"] = tf.numpy_function(
                lambda x: (__import__("time").sleep(0.1), x)[1],
                [batch["reset_memory"]],
                tf.bool,
            )
            batch["reset_memory"].set_shape([params["batch_size"]])
            return batch

        return toy.input_fn(params).map(wait)

    waits = []

    def say(line):
        if line.startswith("step"):
            waits.append(float(line.split("wait ")[1].split("%")[0]))

    train(toy.run_options(tmp_path), input_fn=slow, say=say)
    # The toy step takes about a millisecond; the bound leaves room for load.
    assert waits[-1] > 10
