"""run_pretrain.py on small records: refusals, replicas, resume, evaluation."""

import dataclasses
import os
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from absl import flags

import run_pretrain
from common.errors import UserError
from data.pretraining import build
from data.pretraining.manifest import PretrainingManifest
from data.pretraining.options import BuildOptions
from flags.training import pretrain_flags
from modeling.encoders import registry
from tests.conftest import ROOT
from tests.flags.fresh_flags import remove_ours
from tests.helpers.runs.pretrain import config_for, losses, records, run_options
from tests.training.conftest import *  # noqa: F403  (virtual CPU replicas)
from training import loop
from training.jobs.pretrain_options import PretrainOptions
from training.objectives import build as heads
from training.reporting import run_record

pytestmark = pytest.mark.shared
assert records  # the fixture


def train(records, options, stop_at=None, **changes):
    """A run on the records; `stop_at` ends it after so many steps."""
    what = PretrainOptions(data_dir=records)
    data = run_pretrain.open_data(what)
    objective = heads.build_objective(
        "pretraining", config_for(data.manifest, **changes), bi_data=True
    )

    class Crash(Exception):
        pass

    def say(line):
        if stop_at and line.startswith(f"step {stop_at}/"):
            raise Crash

    if stop_at:
        options = options.replace(progress="lines")
    try:
        return loop.train(
            objective,
            data.train_batches(0),
            options,
            must_match=data.must_match(),
            say=say,
        )
    except Crash:
        return None


@pytest.mark.slow
def test_one_two_and_four_replicas_give_the_same_losses(records, tmp_path):
    train(records, run_options(tmp_path / "1"))
    wanted = losses(tmp_path / "1")
    for replicas in (2, 4):
        train(records, run_options(tmp_path / str(replicas), replicas))
        np.testing.assert_allclose(
            losses(tmp_path / str(replicas)), wanted, rtol=1e-4, atol=1e-5
        )
    # Directions count: with every row forward the losses are others.
    what = PretrainOptions(data_dir=records)
    data = run_pretrain.open_data(what)
    options = run_options(tmp_path / "wrong")
    objective = heads.build_objective(
        "pretraining", config_for(data.manifest), bi_data=False
    )
    loop.train(
        objective,
        data.train_batches(0),
        options,
        say=lambda line: None,
    )
    assert np.abs(losses(tmp_path / "wrong") - wanted)[:, 1].max() > 1e-3


@pytest.mark.slow
def test_a_crashed_run_with_dropout_goes_on_bit_for_bit(records, tmp_path):
    rates = {"dropout": 0.1, "dropatt": 0.1}
    whole = train(records, run_options(tmp_path / "a"), **rates)
    train(records, run_options(tmp_path / "b"), stop_at=8, **rates)
    rest = train(records, run_options(tmp_path / "b"), **rates)
    a, b = ((tmp_path / x / "losses.tsv").read_text() for x in "ab")
    assert a == b
    for x, y in zip(whole.model.variables, rest.model.variables, strict=True):
        assert x.numpy().tobytes() == y.numpy().tobytes()
    assert whole.trace_count == rest.trace_count == 1


@pytest.mark.slow
def test_another_jobs_checkpoints_are_followed(records, tmp_path):
    """An evaluation job waits for the first one and ends with the last."""
    command = [sys.executable, "run_pretrain.py", "--mode=eval", "--follow"]
    command += [f"--data_dir={records}", f"--model_dir={tmp_path / 'model'}"]
    command += ["--train_steps=12", "--eval_batch_size=4"]
    follower = subprocess.Popen(
        command,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        result = train(records, run_options(tmp_path / "model"))
        output, _ = follower.communicate(timeout=120)
    finally:
        follower.kill()
    assert follower.returncode == 0, output
    (last,) = re.findall(r"evaluation at step 12: .*loss (\S+)", output)
    what = PretrainOptions(data_dir=records, mode="eval")
    data = run_pretrain.open_data(what)
    objective = heads.build_objective("pretraining", config_for(data.manifest))
    options = run_options(tmp_path / "model", eval_batch_size=4)
    eval_fn = data.held_out_batches(0)
    wanted = loop.evaluate(objective, eval_fn, options, model=result.model)
    assert float(last) == pytest.approx(wanted.metrics["loss"], rel=1e-4)


@pytest.mark.slow
def test_stored_masks_give_the_losses_of_stored_orders(
    records, tmp_path, spiece_model
):
    options = PretrainingManifest.load(records).options
    build.build(
        BuildOptions(
            input_glob=os.path.join(records, os.pardir, "text.txt"),
            spiece_model_file=spiece_model,
            output_dir=str(tmp_path / "masks"),
            **(options | {"materialize_masks": True}),
        )
    )
    # TensorFlow's arithmetic optimizer orders the additions of the two programs
    # differently; without it they are equal to the bit.
    arithmetic = {"arithmetic_optimization": False}
    tf.config.optimizer.set_experimental_options(arithmetic)
    try:
        train(records, run_options(tmp_path / "orders"))
        train(str(tmp_path / "masks"), run_options(tmp_path / "masks_run"))
    finally:
        arithmetic["arithmetic_optimization"] = True
        tf.config.optimizer.set_experimental_options(arithmetic)
    wanted = losses(tmp_path / "orders")
    assert losses(tmp_path / "masks_run").tobytes() == wanted.tobytes()
    assert wanted[-1, 1] < wanted[0, 1] - 1  # it moved


@pytest.mark.slow
def test_held_out_loss_counts_every_target_once(records, tmp_path):
    what = PretrainOptions(data_dir=records, mode="eval")
    data = run_pretrain.open_data(what)
    assert data.held_out == (data.manifest, "dev")
    options = run_options(tmp_path, train_steps=4)
    result = train(records, options)
    objective = heads.build_objective("pretraining", config_for(data.manifest))
    values = []
    for batch in (4, 8):
        options = run_options(tmp_path, eval_batch_size=batch)
        eval_fn = data.held_out_batches(0)
        values.append(
            loop.evaluate(
                objective, eval_fn, options, model=result.model
            ).metrics
        )
    # The same lanes and memories in other batches.
    assert values[0]["loss"] == pytest.approx(values[1]["loss"], rel=1e-4)
    assert values[0]["perplexity"] == pytest.approx(np.exp(values[0]["loss"]))


def test_flags_that_contradict_the_data_are_listed(records):
    what = PretrainOptions(
        data_dir=records, wanted={"seq_len": 512, "num_predict": 85}
    )
    with pytest.raises(UserError) as e:
        run_pretrain.open_data(what)
    assert "seq_len: wanted 512, found 20" in str(e.value)
    assert "num_predict: wanted 85, found" in str(e.value)


@pytest.fixture
def built_config(records, tmp_path):
    """(folder's configuration, more flags) -> M of a run on the records."""

    def run(model_dir=None, init=None, path=None, *arguments, saved=True):
        """Folders and the file hold that `mem_len`; None = there is none."""
        what = PretrainOptions(data_dir=records)
        data = run_pretrain.open_data(what)
        given = {"model_dir": model_dir, "init": init, "path": path}
        places = {}
        for name, memory in given.items():
            places[name] = str(tmp_path / name)
            shutil.rmtree(places[name], ignore_errors=True)
            if memory is not None:
                mem_len = None if memory == "unset" else memory
                config = config_for(data.manifest, mem_len=mem_len)
                os.makedirs(places[name])
                registry.write_config(places[name], config)
            if name == "model_dir" and memory is not None and saved:
                prefix = os.path.join(places[name], "model.ckpt-1")
                tf.train.Checkpoint(step=tf.Variable(1)).write(prefix)
        options = run_options(
            places["model_dir"],
            init_checkpoint=None if init is None else places["init"],
        )
        command = ["run_pretrain.py", f"--data_dir={records}", *arguments]
        command.append("--model_dir=" + places["model_dir"])
        if path is not None:
            file = registry.config_file_in(places["path"])
            command.append(f"--model_config_path={file}")
        remove_ours()
        pretrain_flags.define()
        flags.FLAGS(command)
        return run_pretrain.build_config(data, what, options).mem_len

    yield run
    remove_ours()
    flags.FLAGS.unparse_flags()


def test_the_memory_where_no_flag_gives_it(built_config):
    default = 15  # three quarters of T = 20
    assert built_config() == default
    # A released checkpoint says nothing of it; 0 is said.
    assert built_config(init="unset") == default
    assert built_config(init=0) == 0 and built_config(init=7) == 7
    # A file's own value stands, as that of a run that goes on.
    assert built_config(path=9) == 9 and built_config(path=0) == 0
    assert built_config(path="unset") == default
    assert built_config(model_dir="unset") is None
    assert built_config(model_dir=4, init="unset") == 4
    assert built_config(model_dir=4, path=9) == 4
    assert built_config(5, 6, 9, "--mem_len=3") == 3
    # A run that died before its first checkpoint binds nobody.
    assert built_config(model_dir=4, saved=False) == default
    assert built_config(model_dir="unset", saved=False) == default
    assert built_config(model_dir=4, init=7, saved=False) == 7
    assert built_config(model_dir=4, path=9, saved=False) == 9


def test_evaluations_without_held_out_data_are_refused(
    records, tmp_path, monkeypatch
):
    data = run_pretrain.open_data(PretrainOptions(data_dir=records))
    bare = dataclasses.replace(data, held_out=None)
    monkeypatch.setattr(run_pretrain, "open_data", lambda what: bare)
    remove_ours()
    pretrain_flags.define()
    try:
        model = tmp_path / "model"
        command = ["run_pretrain.py", f"--data_dir={records}", "--eval_every=3"]
        flags.FLAGS([*command, f"--model_dir={model}"])
        with pytest.raises(UserError, match="--eval_every=3: .* no dev split"):
            run_pretrain.main()
        assert not model.exists()
    finally:
        remove_ours()
        flags.FLAGS.unparse_flags()


def test_another_dev_set_of_a_resumed_run_is_noted(records, tmp_path):
    """`evaluations.jsonl` had losses of both, without a word."""
    model = str(tmp_path)
    remove_ours()
    pretrain_flags.define()
    flags.FLAGS(["run", f"--data_dir={records}", f"--model_dir={model}"])
    what = PretrainOptions(data_dir=records)
    data = run_pretrain.open_data(what)
    other = dataclasses.replace(data, held_out=(data.manifest, "train"))

    def start(data, what=what, resuming=True):
        request = run_pretrain.make_request(data, what, run_options(model))
        facts = request.must_match, request.should_match or {}
        return run_record.update(model, {}, *facts, resuming)

    try:
        start(data, resuming=False)
        assert start(data) == []
        (note,) = start(other)
        assert "`dev_data` wanted train" in note
        # What trains alone evaluates nothing.
        assert start(data, dataclasses.replace(what, mode="train")) == []
    finally:
        remove_ours()
        flags.FLAGS.unparse_flags()


def test_another_vocabulary_is_refused(records, tmp_path):
    other = tmp_path / "other.model"
    other.write_bytes(b"another file")
    what = PretrainOptions(data_dir=records, spiece_model_file=str(other))
    with pytest.raises(UserError, match="spiece_sha256: wanted"):
        run_pretrain.open_data(what)
    missing = PretrainOptions(data_dir=records, spiece_model_file="none.model")
    with pytest.raises(UserError, match="none.model does not exist"):
        run_pretrain.open_data(missing)


def test_a_missing_manifest_is_named(tmp_path):
    with pytest.raises(UserError, match="manifest.json does not exist"):
        run_pretrain.open_data(PretrainOptions(data_dir=str(tmp_path)))


def test_an_odd_batch_is_refused_before_anything_is_written(records, tmp_path):
    with pytest.raises(UserError, match="2 directions"):
        train(records, run_options(tmp_path / "m", train_batch_size=9))
    assert not (tmp_path / "m").exists()


def test_batches_are_by_global_row(records):
    # What `training.step.batch_split` splits: forward rows first, then backward ones.
    what = PretrainOptions(data_dir=records)
    make = run_pretrain.open_data(what).train_batches(0)
    params = {"batch_size": 8, "start_step": 0}
    first = next(iter(make(params).as_numpy_iterator()))
    assert first["input_ids"].shape == (8, 20)
    assert first["reset_memory"].all()
    later = next(iter(make(params | {"start_step": 5}).as_numpy_iterator()))
    assert later["reset_memory"].all()  # five segments per lane
