"""Tasks that share an encoder: their files, options and runs."""

import json

import numpy as np
import pytest

from data.finetuning.classifier.task import ClassifierTask
from data.finetuning.options import ClassifierDataOptions, FeatureOptions
from tests.helpers.runs.classifier import CONFIG, WORDS, make_options
from training.finetuning import multitask

TASKS = ("sst-2", "sts-b", "rte")
LENGTHS = (12, 20, 16)


def write_tasks(folder):
    """GLUE's layout: a class of a text, a value of two, a class of two."""
    rng = np.random.default_rng(1)
    heads = {
        "SST-2": ("sentence", "label"),
        "STS-B": ("sentence1", "sentence2", "score"),
        "RTE": ("sentence1", "sentence2", "label"),
    }
    for name, columns in heads.items():
        (folder / name).mkdir()
        for split, count in (("train", 24), ("dev", 9)):
            lines = ["\t".join(columns)]
            for _ in range(count):
                texts = [
                    " ".join(rng.choice(WORDS, rng.integers(1, 5)))
                    for _ in columns[1:]
                ]
                red = ["red" in text for text in texts]
                label = str(int(red[0]))
                if name == "STS-B":
                    label = f"{2.5 * sum(red)}"
                if name == "RTE":
                    label = (
                        "entailment" if red[0] == red[1] else "not_entailment"
                    )
                lines.append("\t".join([*texts, label]))
            (folder / name / f"{split}.tsv").write_text("\n".join(lines) + "\n")
    config = dict(CONFIG, n_layer=1, dropout=0.1)
    (folder / "config.json").write_text(json.dumps(config))


def run(folder, spiece, name, stop_at=None, **changes):
    """Results and lines of a run; `stop_at` breaks off after so many steps."""
    options = make_options(
        folder,
        steps=12,
        run={
            "model_dir": str(folder / name),
            "iterations": 1,
            "save_steps": 3,
            "eval_every": 6,
            "progress": "lines",
        },
        **changes,
    )
    settings = multitask.MultiTaskOptions(
        TASKS, LENGTHS, (1.0, 0.5, 1.0), "sqrt"
    )
    tasks = {}
    for task, length in zip(TASKS, LENGTHS, strict=True):
        tasks[task] = ClassifierTask(
            ClassifierDataOptions(task, str(folder)),
            FeatureOptions(spiece, length),
            options,
        ).load()
    said = []

    class Crash(Exception):
        pass

    def say(line):
        said.append(line)
        if stop_at and line.startswith(f"step {stop_at}/"):
            raise Crash

    if stop_at:
        with pytest.raises(Crash):
            multitask.run(tasks, settings, options, say=say)
        return None, said
    return multitask.run(tasks, settings, options, say=say), said


def command_fields(folder, spiece, tasks, options):
    """What `flags.tasks.multitask_flags.read` gives."""
    lengths = dict(zip(TASKS, LENGTHS, strict=True))
    return {
        "options": options,
        "settings": multitask.MultiTaskOptions(
            tasks, tuple(map(lengths.get, tasks)), (1.0,) * len(tasks)
        ),
        "data": {t: ClassifierDataOptions(t, str(folder)) for t in tasks},
        "features": {t: FeatureOptions(spiece, lengths[t]) for t in tasks},
        "flags": {},
    }
