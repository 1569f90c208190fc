"""A toy classification task, its options and its run."""

import json

import numpy as np

from data.finetuning.options import ClassifierDataOptions, FeatureOptions

CONFIG = {
    "d_head": 5,
    "d_inner": 24,
    "d_model": 20,
    "ff_activation": "gelu",
    "n_head": 3,
    "n_layer": 2,
    "n_token": 1000,
    "untie_r": True,
    "dropout": 0.0,
    "dropatt": 0.0,
}
WORDS = ("red", "green", "tower", "river", "winter")


def write_task(folder, rows=30, labels=("no", "yes")):
    """train/dev/test of texts whose label is whether "red" is in them."""
    rng = np.random.default_rng(0)
    for split, count in (("train", rows), ("dev", 11), ("test", 7)):
        lines = ["text\tlabel"] if split != "test" else ["text"]
        for _ in range(count):
            words = rng.choice(WORDS, rng.integers(1, 9)).tolist()
            line = " ".join(words)
            if split != "test":
                line += "\t" + labels["red" in words]
            lines.append(line)
        (folder / f"{split}.tsv").write_text("\n".join(lines) + "\n")
    (folder / "config.json").write_text(json.dumps(CONFIG))


def make_job(folder, spiece, options, features=None, **data):
    from data.finetuning.classifier.task import ClassifierTask

    return ClassifierTask(
        ClassifierDataOptions(
            **({"task_name": "tsv", "data_dir": str(folder)} | data)
        ),
        features or FeatureOptions(spiece, 16),
        options,
    ).load()


def make_options(folder, steps=3, **changes):
    from training.finetuning.options import FinetuneOptions
    from training.run_options import OptimizerOptions, RunOptions

    run = RunOptions(
        model_dir=str(folder / "model"),
        train_steps=steps,
        train_batch_size=6,
        eval_batch_size=4,
        iterations=steps,
        save_steps=0,
        progress="none",
        optimizer=OptimizerOptions(learning_rate=3e-3),
    )
    run = run.replace(**changes.pop("run", {}))
    return FinetuneOptions(
        run=run, model_config_path=str(folder / "config.json"), **changes
    )


def run(folder, spiece, options, features=None, **data):
    from training.finetuning.driver import Driver

    job = make_job(folder, spiece, options, features, **data)
    said = []
    return Driver(job, options, say=said.append).run(), said


def read_rows(path):
    return [line.split("\t") for line in path.read_text().splitlines()]
