"""Which checkpoint of a folder is its weights: by files alone."""

import json
import shutil

import pytest
import tensorflow as tf

from common.errors import UserError
from modeling.checkpoints import restore, weights
from modeling.encoders.registry import write_config
from modeling.encoders.xlnet.config import XLNetConfig


def save(folder, number, **items):
    """A checkpoint as a training writes it; `items` beside the model."""
    module = tf.Module()
    module.w = tf.Variable(float(number))
    checkpoint = tf.train.Checkpoint(model=module, **items)
    path = str(folder / f"model.ckpt-{number}")
    checkpoint.write(path)
    text = f'model_checkpoint_path: "model.ckpt-{number}"\n'
    (folder / "checkpoint").write_text(text)
    return path


def keep(folder, step, value, metric="f1"):
    """`best/` of a run."""
    place = folder / "best"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    more = {"metric": tf.Variable(metric, dtype=tf.string)} if metric else {}
    return save(
        place,
        step,
        value=tf.Variable(value, dtype=tf.float64),
        step=tf.Variable(step, dtype=tf.int64),
        **more,
    )


def log(folder, **values):
    """`evaluations.jsonl`: s4=0.5 is an evaluation at step 4."""
    rows = [{"step": int(k[1:]), "f1": v} for k, v in values.items()]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "evaluations.jsonl").write_text(text)


@pytest.fixture
def run(tmp_path):
    """Evaluated at 2 and 4, better at 2."""
    save(tmp_path, 2)
    save(tmp_path, 4)
    keep(tmp_path, 2, 0.75)
    log(tmp_path, s2=0.75, s4=0.5)
    return tmp_path


def chosen(folder, choice="auto"):
    found = restore.resolve(str(folder), choice)
    return weights.name_in(str(folder), found.path), found.why


def test_the_best_of_a_run_that_evaluated_to_its_end(run):
    assert chosen(run) == ("best/model.ckpt-2", "the best by f1, 0.75")
    # A version that did not save the metric's name.
    keep(run, 2, 0.75, metric=None)
    assert chosen(run) == ("best/model.ckpt-2", "the best 0.75")


def test_trained_on_without_evaluations(run):
    save(run, 6)
    name, why = chosen(run)
    assert name == "model.ckpt-6"
    assert why == (
        "the newest; not best/: it is of step 2, and step 6 was not evaluated"
    )


def test_a_best_of_another_run(run):
    """Its evaluation is not in the log, or says something else."""
    for values in ({"s4": 0.5}, {"s2": 0.7, "s4": 0.5}):
        log(run, **values)
        name, why = chosen(run)
        assert name == "model.ckpt-4" and "no evaluation of its step 2" in why
    (run / "evaluations.jsonl").unlink()
    assert chosen(run)[0] == "model.ckpt-4"
    log(run, s2=0.75, s4=0.5)
    keep(run, 2, 0.75, metric="accuracy")  # a metric that the log has not
    assert chosen(run)[0] == "model.ckpt-4"


def test_a_best_beyond_the_newest(run):
    """Killed between an evaluation and the next save, then not trained on."""
    keep(run, 8, 0.9)
    log(run, s2=0.75, s4=0.5, s8=0.9)
    assert chosen(run)[0] == "model.ckpt-4"


def test_what_is_asked_for(run):
    assert chosen(run, "last") == ("model.ckpt-4", "the newest")
    save(run, 6)
    assert chosen(run, "best")[0] == "best/model.ckpt-2"
    named = restore.resolve(str(run / "model.ckpt-2.index"), "best")
    assert named.path == str(run / "model.ckpt-2") and named.why == ""
    shutil.rmtree(run / "best")
    with pytest.raises(UserError, match="choice=best: .*ckpt-6 alone"):
        chosen(run, "best")
    assert chosen(run) == ("model.ckpt-6", "the newest")


def test_best_alone(run):
    for path in (*run.glob("model.*"), run / "checkpoint"):
        path.unlink()
    assert chosen(run)[0] == "best/model.ckpt-2"
    with pytest.raises(UserError, match="choice=last: .*ckpt-2 alone"):
        chosen(run, "last")
    assert weights.choose(str(run / "none"), "last") is None


def test_where_the_settings_of_best_are(run):
    best = run / "best"
    assert weights.home_of(str(best)) == str(best)
    config = XLNetConfig(7, d_model=4, n_layer=1, n_head=1, d_head=2, d_inner=3)
    write_config(str(run), config)
    assert weights.home_of(f"{best}/") == str(run)
    assert restore.resolve(str(best)).folder == str(run)
    found = restore.find_config(str(best / "model.ckpt-2"))
    assert found.to_dict() == config.to_dict()
    # A model folder of that name is its own.
    write_config(str(best), config)
    assert weights.home_of(str(best)) == str(best)


def test_a_damaged_log_is_named(run):
    for damaged in ("[1", '{"step": "3"}', '{"step": 3, "f1": "0.5"}', '"x"'):
        (run / "evaluations.jsonl").write_text('{"step": 2}\n' + damaged)
        with pytest.raises(UserError, match="evaluations.jsonl is damaged"):
            chosen(run)
    (run / "evaluations.jsonl").write_text('{"step": 2, "f1": NaN, "n": 1}\n')
    assert set(weights.read_log(str(run))) == {2}
    assert chosen(run, "last")[0] == "model.ckpt-4"
