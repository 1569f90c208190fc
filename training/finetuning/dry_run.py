"""`--dry_run`: everything that a run needs is tried once, and nothing is kept.

Data, checkpoints, folders and disk were looked at before (`preflight`). Here
the model is built and its weights are read, one training step is computed on
the first batch, and one batch of every split to evaluate or predict; metrics,
reports and predictions are made of it and thrown away.
"""

import functools
import os

import numpy as np
import tensorflow as tf
import tf_keras

from common import files
from common.errors import UserError
from data.finetuning.task import EVAL, PREDICT, TRAIN, Task
from modeling.checkpoints.folder import newest_prefix
from training import loop
from training import strategy as strategy_lib
from training.checkpointing import run_state
from training.checkpointing.checkpoints import (
    PREFIX,
    check_folder,
    restore_weights,
)
from training.finetuning.options import FinetuneOptions
from training.finetuning.outputs import prediction_folder, require_finite
from training.finetuning.sources import weights_of
from training.reporting import report, run_record
from training.reporting.memory_estimate import estimate_lines
from training.step.batch_split import BatchSplit, distribute
from training.step.learner import build_learner
from training.step.train_step import Trainer


def check(
    task: Task, options: FinetuneOptions, objective, say, warm_start=None
) -> None:
    """Says what the run would be; changes no file.

    `warm_start` is that of the training, see `run_state.open_run`. Raises
    UserError: what the run itself would stop with, or a loss that is no number.
    """
    run = options.run
    if options.do_train:
        model = _one_step(task, run, objective, say, warm_start)
    else:
        strategy = strategy_lib.setup(run.strategy)
        with strategy.scope():
            model = objective.build_model()
        source = weights_of(options)
        say(source.line)
        restore_weights(strategy, model, source, "all")
    one = run.replace(eval_steps=1)
    for name, split in task.evals.items():
        result = loop.evaluate(
            objective, task.batches(split, EVAL), one, model=model
        )
        require_finite(name, result.predictions)
        require_report(task, name, result, options)
        say(f"evaluation   {name}: the first batch is well")
    for name, split in task.predicts.items():
        first = _first(task.batches(split, PREDICT))
        outputs = loop.predict(
            objective, first, options.predict_run, model=model
        )
        require_finite(name, outputs)
        outputs.pop("example_index", None)
        every = task.outputs_of_first(split, outputs)
        _require_files(options, functools.partial(task.write, split, every))
        say(f"prediction   {name}: the first batch is well")
    say("dry run: all is well; nothing was trained, nothing written")


def _one_step(task: Task, run, objective, say, warm_start):
    """The model after one step that nobody keeps."""
    check_folder(run.model_dir, objective)
    strategy = strategy_lib.setup(run.strategy)
    tf_keras.utils.set_random_seed(run.strategy.seed)  # as `open_run`
    split = BatchSplit(
        run.train_batch_size,
        strategy.num_replicas_in_sync,
        run.grad_accumulation_steps,
        objective.row_groups,
    )
    learner = build_learner(
        objective, strategy, split, run.optimizer, run.train_steps
    )
    newest = newest_prefix(run.model_dir, PREFIX)
    if newest:
        restore_weights(strategy, learner.model, newest, "all")
        run_record.update(
            run.model_dir,
            {},
            {"seed": run.strategy.seed, "head": objective.name}
            | task.must_match(),
            {},
            True,
            False,
        )
    start = None if newest else run_state.begin(run, learner, warm_start)[0]
    dataset, spec = distribute(strategy, task.batches(task.train, TRAIN), split)
    state = run_state.RunState(
        run,
        learner,
        checkpoints=None,
        chief=True,
        restored_from=newest or (start and start.path),
        weights=start,
    )
    _, lines = estimate_lines(learner, spec)
    for line in report.start_lines(state, lines):
        say(line)
    trainer = Trainer(
        learner, dataset, run.strategy.seed, run.strategy.jit_compile
    )
    trainer.train(tf.constant(1))
    loss = float(trainer.last[0, 0])
    if not np.isfinite(loss):
        raise UserError(f"the loss of the first batch is {loss}")
    say(f"first batch  loss {loss:.5g}")
    return learner.model


def require_report(task: Task, name: str, result, options) -> None:
    """Metrics and files of a split can be made, and their places are free.

    The first batch's answers stand for those of all examples. Files go to a
    folder that is removed. Raises UserError: a folder lies where a file will
    be, or a file of an earlier evaluation is damaged.
    """
    kept = os.path.join(options.run.model_dir, f"eval_{name}.json")
    if files.exists(kept):
        files.read_json_object(kept, "move it away")
    split = task.evals[name]
    outputs = task.outputs_of_first(split, result.predictions)
    labels = {
        k: v[np.arange(split.table.num_examples) % len(v)]
        for k, v in result.labels.items()
    }
    task.metrics(split, outputs, labels)
    write = functools.partial(task.write_report, split, outputs)
    _require_files(options, write)


def _require_files(options: FinetuneOptions, write) -> None:
    """Files can be made; UserError: a folder has the name of one."""
    folder = prediction_folder(options)
    with files.temporary_folder() as scratch:
        for path in write(scratch):
            target = os.path.join(folder, os.path.basename(path))
            if os.path.isdir(target):
                raise UserError(
                    f"{target} is a folder, and a report of that name will be "
                    "written: move it away"
                )


def _first(input_fn):
    return lambda params: input_fn(params).take(1)
