"""`--dry_run`: everything that a run needs is tried once, and nothing is kept.

Data, checkpoints, folders and disk were looked at before (`preflight`). Here
the model is built and its weights are read, one training step is computed on
the first batch, and one batch of every split to evaluate or predict; reports,
tables and pictures of classes are made and thrown away.
"""

import os
import tempfile

import numpy as np
import tensorflow as tf
import tf_keras

from common import files
from common.errors import UserError
from modeling.checkpoints.folder import newest_prefix
from training import loop
from training import strategy as strategy_lib
from training.checkpointing import run_state
from training.checkpointing.checkpoints import PREFIX, restore_weights
from training.finetuning.job import Job
from training.finetuning.options import FinetuneOptions
from training.finetuning.sources import weights_of
from training.reporting import report, run_record
from training.reporting.memory_estimate import estimate_lines
from training.step.batch_split import BatchSplit, distribute
from training.step.learner import build_learner
from training.step.train_step import Trainer


def check(job: Job, options: FinetuneOptions, objective, say) -> None:
    """Says what the run would be; changes no file.

    Raises:
      UserError: what the run itself would stop with, or a loss that is no
        number.
    """
    run = options.run
    if options.do_train:
        model = _one_step(job, run, objective, say)
    else:
        strategy = strategy_lib.setup(run.strategy)
        with strategy.scope():
            model = objective.build_model()
        source = weights_of(options)
        say(source.line)
        restore_weights(strategy, model, source, "all")
    one = run.replace(eval_steps=1)
    for name, split in job.evals.items():
        result = loop.evaluate(objective, split.input_fn, one, model=model)
        _require_finite(name, result.predictions)
        _require_reports(name, split, result, options)
        say(f"evaluation   {name}: the first batch is well")
    for name, split in job.predicts.items():
        outputs = loop.predict(
            objective, _first(split.input_fn), run, model=model
        )
        _require_finite(name, outputs)
        say(f"prediction   {name}: the first batch is well")
    say("dry run: all is well; nothing was trained, nothing written")


def _one_step(job: Job, run, objective, say):
    """The model after one step that nobody keeps."""
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
    found = newest_prefix(run.model_dir, PREFIX)
    path, require = found or run.init_checkpoint, run.init_require
    if found:
        require = "all"
        run_record.update(
            run.model_dir, {}, _must_match(job, run, objective), {}, True, False
        )
    if path:
        restore_weights(strategy, learner.model, path, require)
    dataset, spec = distribute(strategy, job.train_input_fn, split)
    state = run_state.RunState(
        run, learner, checkpoints=None, chief=True, restored_from=path
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


def _must_match(job: Job, run, objective) -> dict:
    return {"seed": run.strategy.seed, "head": objective.name} | job.must_match


def _require_reports(name: str, split, result, options) -> None:
    """Metrics and files of a split can be made, and their places are free.

    The first batch's answers stand for those of all examples; only where an
    example is a row of logits, since spans and tags lie in their own windows.
    Files go to a folder that is removed.

    Raises:
      UserError: a folder lies where a file will be, or a file of an earlier
        evaluation is damaged.
    """
    home = options.run.model_dir
    kept = os.path.join(home, f"eval_{name}.json")
    if files.exists(kept):
        files.read_json_object(kept, "move it away")
    logits = result.predictions.get("logits")
    if split.lengths is None or logits is None or logits.ndim != 2:
        return
    rows = np.arange(len(split.lengths)) % len(logits)
    outputs = {k: v[rows] for k, v in result.predictions.items()}
    split.metrics(outputs, {k: v[rows] for k, v in result.labels.items()})
    if split.write is None:
        return
    place = options.predict_dir or os.path.join(home, "predictions")
    with tempfile.TemporaryDirectory() as scratch:
        for path in split.write(outputs, scratch):
            target = os.path.join(place, os.path.basename(path))
            if os.path.isdir(target):
                raise UserError(
                    f"{target} is a folder, and a report of that name will be "
                    "written: move it away"
                )


def _first(input_fn):
    """One batch of what `input_fn` gives."""
    return lambda params: input_fn(params).take(1)


def _require_finite(name: str, outputs: dict) -> None:
    for value in outputs.values():
        if not np.isfinite(value).all():
            raise UserError(
                f"the model's output on {name} is not finite: check the "
                "checkpoint"
            )
