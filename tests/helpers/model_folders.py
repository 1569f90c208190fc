"""What can become of a trained model's folder, made with its files.

One tiny model is trained; `STATES` are folders of it, each with the checkpoint
that is meant.
"""

import dataclasses
import json
import shutil

import numpy as np
import sentencepiece
import tensorflow as tf

from data.finetuning.options import FeatureOptions
from modeling.checkpoints import native, restore
from modeling.encoders.registry import write_config
from tests.helpers.runs import builds
from tests.helpers.runs.classifier import (
    CONFIG,
    make_job,
    make_options,
    write_task,
)
from training.finetuning import ensemble, multitask
from training.finetuning.driver import Driver
from training.finetuning.options import FinetuneOptions
from training.objectives.build import build_objective

BEST, LAST = "best/model.ckpt-2", "model.ckpt-4"
RUN = {"save_steps": 2, "iterations": 2, "max_save": 0}


@dataclasses.dataclass(frozen=True)
class World:
    """A task, its vocabulary, and the folder of the trained model.

    `choice` is the --checkpoint_choice of all commands.
    """

    folder: object
    spiece: str
    choice: str = "auto"

    def options(self, model_dir, steps=4, **changes) -> FinetuneOptions:
        run = RUN | {"checkpoint_choice": self.choice}
        run |= {"model_dir": str(model_dir)} | changes.pop("run", {})
        return make_options(self.folder, steps=steps, run=run, **changes)

    def job(self, options):
        features = FeatureOptions(self.spiece, 16)
        return make_job(self.folder, self.spiece, options, features)

    def run(self, model_dir, steps=4, **changes) -> list[str]:
        """The lines of a run_classifier.py."""
        options, said = self.options(model_dir, steps, **changes), []
        export = changes.pop("export", None)
        Driver(self.job(options), options, export, say=said.append).run()
        return said


def make_world(folder) -> World:
    """Trains, evaluating; the best step is the first, and not the last."""
    corpus = builds.write_corpus(folder / "corpus.txt")
    spiece = builds.train_spiece(folder, corpus)
    made = World(folder, spiece)
    write_task(folder, rows=12)
    size = sentencepiece.SentencePieceProcessor(spiece).get_piece_size()
    config = CONFIG | {
        "n_token": size,
        "n_layer": 1,
        "d_model": 18,
        "d_head": 6,
    }
    (folder / "config.json").write_text(json.dumps(config))
    made.run(
        folder / "model",
        do_train=True,
        best_metric="loss",
        run={"eval_every": 2},
    )
    _make_best_the_first(folder / "model")
    return made


def read_network(model, name):
    """The network of a checkpoint of a folder."""
    source = restore.resolve(str(model / name))
    objective = build_objective(
        "classification", restore.find_config(str(model)), num_labels=2
    )
    network = objective.build_model()
    restore.restore(network, source)
    return network


def _make_best_the_first(model):
    """Whatever the losses were: step 2 is the best of 2 and 4."""
    path = model / "evaluations.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    rows[0]["loss"], rows[1]["loss"] = 0.25, 0.5
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    shutil.rmtree(model / "best")
    keep_best(model, read_network(model, "model.ckpt-2"), "loss", 0.25)


def keep_best(model, network, metric, value):
    """`best/` of step 2 as a training keeps it."""
    (model / "best").mkdir()
    tf.train.Checkpoint(
        model=network,
        value=tf.Variable(value, dtype=tf.float64),
        step=tf.Variable(2, dtype=tf.int64),
        metric=tf.Variable(metric, dtype=tf.string),
    ).write(str(model / BEST))
    text = 'model_checkpoint_path: "model.ckpt-2"\n'
    (model / "best" / "checkpoint").write_text(text)


def write_joint_run(model, objective, random_seed=0):
    """A folder of several tasks' training: step 2 was better than step 4."""
    model.mkdir()
    write_config(str(model), objective.saved_config)
    network = objective.build_model()
    rng = np.random.default_rng(random_seed)

    def redraw():
        for variable in network.variables:
            variable.assign(rng.normal(0.0, 0.3, variable.shape))

    redraw()
    keep_best(model, network, "mean", 0.75)
    redraw()
    tf.train.Checkpoint(model=network).write(str(model / LAST))
    text = 'model_checkpoint_path: "model.ckpt-4"\n'
    (model / "checkpoint").write_text(text)
    rows = ({"step": 2, "mean": 0.75}, {"step": 4, "mean": 0.5})
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (model / "evaluations.jsonl").write_text(text)


# --- States of a folder: (folder to name, checkpoint that is meant) -------------


def copied(world, to):
    """Another folder with the files of the trained model."""
    shutil.copytree(world.folder / "model", to)
    return to


def end_at(model, step, evaluated):
    """As if it had been trained on from 4, with or without evaluations."""
    for path in model.glob("model.ckpt-4.*"):
        shutil.copy(path, model / path.name.replace("-4.", f"-{step}."))
    text = f'model_checkpoint_path: "model.ckpt-{step}"\n'
    (model / "checkpoint").write_text(text)
    if evaluated:
        with open(model / "evaluations.jsonl", "a") as f:
            f.write(json.dumps({"step": step, "loss": 0.75}) + "\n")


def fine_tuned(world, to):
    return copied(world, to), BEST


def resumed(world, to):
    end_at(copied(world, to), 6, evaluated=True)
    return to, BEST


def resumed_without_evaluation(world, to):
    end_at(copied(world, to), 6, evaluated=False)
    return to, "model.ckpt-6"


def restarted(world, to):
    """The checkpoints of the first run are gone, but not its `best/`."""
    model = copied(world, to)
    for path in (*model.glob("model.ckpt-*"), model / "checkpoint"):
        path.unlink()
    said = world.run(model, steps=1, do_train=True, run={"progress": "lines"})
    assert any("is of an earlier run" in line for line in said)
    assert (model / "best.old").is_dir() and not (model / "best").exists()
    assert not (model / "evaluations.jsonl").exists()
    return model, "model.ckpt-1"


def copied_without_times(world, to):
    """As `cp -r` does, to another place: the files are as new as each other."""
    place = to.parent / "elsewhere" / "m"
    shutil.copytree(
        world.folder / "model", place, copy_function=shutil.copyfile
    )
    return place, BEST


def renamed_to_best(world, to):
    model = copied(world, to).rename(to.parent / "best")
    return model, BEST


def best_alone(world, to):
    model = copied(world, to)
    for path in (*model.glob("model.ckpt-*"), model / "checkpoint"):
        path.unlink()
    return model, BEST


def ensemble_member(world, to):
    """An ensemble has answered with it, and with another."""
    other = copied(world, to.parent / "other")
    end_at(other, 6, evaluated=False)
    members = [
        ensemble.Member(str(folder), world.job(own), own)
        for folder in (copied(world, to), other)
        for own in [world.options(folder, do_eval=True)]
    ]
    home = to.parent / "both"
    ensemble.run(members, world.options(home, do_eval=True), str)
    record = json.loads((home / "ensemble.json").read_text())
    assert record["checkpoints"] == [BEST, "model.ckpt-6"]
    return to, BEST


def multi_task_part(world, to):
    """As run_multitask.py writes a task's folder, of the best joint weights."""
    home = to.parent / "joint"
    options = world.options(home, do_train=True)
    tasks = {"tsv": world.job(options)}
    settings = multitask.MultiTaskOptions(("tsv",), (16,), (1.0,))
    objective = multitask.build_objective(tasks, settings, options)
    write_joint_run(home, objective)
    said = []
    multitask.split_heads(tasks, options, objective, said.append)
    part = home / "tasks" / "tsv"
    assert said == [
        f"weights      {home / BEST} (the best by mean, 0.75)",
        f"wrote {part}",
    ]
    joint, own = (
        {values.tobytes() for values in native.read(str(path)).values()}
        for path in (home / BEST, part / "ckpt-1")
    )
    assert own <= joint and len(own) > 10
    return part, "ckpt-1"


STATES = (
    fine_tuned,
    resumed,
    resumed_without_evaluation,
    restarted,
    copied_without_times,
    renamed_to_best,
    best_alone,
    ensemble_member,
    multi_task_part,
)
