"""Console entry points: `xlnet-classifier` is `python run_classifier.py`.

Every command is a function without arguments here, by its module's name with
`_` for `.`; `pyproject.toml` gives them their names.
"""

import functools
import runpy

import xlnet_tf2

# Modules that are run; what trains begins with `run_`.
MODULES = (
    "run_classifier",
    "run_lm",
    "run_multitask",
    "run_pretrain",
    "run_race",
    "run_ranking",
    "run_squad",
    "run_tagger",
    "data.convert_corpus",
    "data.convert_newsqa",
    "data.convert_task",
    "data.create_lm_data",
    "data.create_pretraining_data",
    "data.demo_corpus",
    "data.filter_corpus",
    "data.inspect",
    "data.train_sentencepiece",
    "modeling.average_checkpoints",
    "modeling.convert_checkpoint",
    "modeling.explain_dependencies",
    "modeling.explain_permutation",
    "serving.embed",
    "serving.ensemble",
    "serving.export",
    "serving.fill_mask",
    "serving.generate",
    "serving.predict",
    "serving.score",
    "serving.serve",
    "training.compare",
)


def run(module: str) -> None:
    """What `python -m MODULE` does, with the library of this package."""
    assert xlnet_tf2.ROOT
    # Worker processes find the command by its name, as `python -m` leaves it.
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def __getattr__(name: str):
    for module in MODULES:
        if module.replace(".", "_") == name:
            return functools.partial(run, module)
    raise AttributeError(name)
