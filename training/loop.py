"""Train, evaluate, predict: the outer loops behind every `run_*.py`.

Estimator-style: an `input_fn(params)`, an objective and `RunOptions`. A run
goes on by itself from the newest checkpoint of `model_dir`; the same command
started again gives the losses of a run that was never stopped.
"""

import dataclasses
import os
import time
from collections.abc import Callable, Iterable

import numpy as np
import orbit
import tensorflow as tf

from common.errors import UserError
from modeling.config import FILE_NAME as CONFIG_NAME
from training import reporting, run_record, session, strategy, train_step
from training.checkpoints import BestCheckpoint
from training.evaluation import EvalResult, Evaluator, MetricFn
from training.guards import check_finite, translate_errors
from training.loss_log import LossLog
from training.memory_estimate import estimate_lines
from training.objectives import Objective
from training.options import RunOptions
from training.rows import distribute
from training.stop import StopRequest

InputFn = Callable[[dict], tf.data.Dataset]


@dataclasses.dataclass(frozen=True)
class TrainResult:
    """How a training ended.

    Attributes:
      step: updates made.
      finished: False when it was stopped on request.
      reason: why it stopped, None when finished.
      last: statistics of the last host loop, means by name.
      evaluations: (step, metrics) of every evaluation of this process.
      checkpoint: prefix of the newest checkpoint.
      model: the model, with the final weights.
      trace_count: traces of the host loop (1 unless shapes change).
    """

    step: int
    finished: bool
    reason: str | None
    last: dict[str, float]
    evaluations: list[tuple[int, dict[str, float]]]
    checkpoint: str | None
    model: object
    trace_count: int


def train(
    objective: Objective,
    input_fn: InputFn,
    options: RunOptions,
    eval_input_fn: InputFn | None = None,
    metric_fn: MetricFn | None = None,
    must_match: dict | None = None,
    flags: dict | None = None,
    notes: Iterable[str] = (),
    say: Callable[[str], None] = print,
) -> TrainResult:
    """Trains up to `options.train_steps`, resuming where `model_dir` is.

    Args:
      objective: from `heads.build_objective`.
      input_fn: endless global batches from `params["start_step"]` on.
      options: the run.
      eval_input_fn: finite global batches; evaluated every
        `options.eval_every` steps and at the end.
      metric_fn: more metrics from an `EvalResult`, official ones for example.
      must_match: facts about the data that a resumed run cannot change.
      flags: for `run.json`.
      notes: more lines for the start-up summary.
      say: takes every line of the report.

    Raises:
      UserError: anything that the user can put right; the last good
        checkpoint stays.
    """
    run = _Run(
        objective,
        input_fn,
        options,
        eval_input_fn,
        metric_fn,
        must_match,
        flags,
        list(notes),
        say,
    )
    return run()


class _Run:
    """One call of `train`."""

    def __init__(
        self,
        objective,
        input_fn,
        options,
        eval_input_fn,
        metric_fn,
        must_match,
        flags,
        notes,
        say,
    ):
        self.options = options
        self.session = s = session.open_session(objective, options)
        self.processes = strategy.worker_count(s.strategy)
        self.say = say if s.chief else _silent
        self._record(must_match or {}, flags or {})
        dataset, spec = distribute(
            s.strategy,
            input_fn,
            options.train_batch_size,
            objective.row_groups,
            options.grad_accumulation_steps,
            s.start_step,
        )
        self.trainer = train_step.Trainer(
            objective,
            s.model,
            s.optimizer,
            s.memory,
            s.strategy,
            dataset,
            options.grad_accumulation_steps,
            options.strategy.seed,
            options.strategy.jit_compile,
            s.loss_scale,
        )
        self.evaluator = None
        if eval_input_fn is not None:
            self.evaluator = EvaluatorRunner(
                s, eval_input_fn, metric_fn, self.say
            )
        self.log = None
        if s.chief:
            self.log = LossLog(options.model_dir, s.start_step)
            config = session.saved_config(objective)
            config.to_json_file(os.path.join(options.model_dir, CONFIG_NAME))
        self.last: dict[str, float] = {}
        self.stop = StopRequest(options.max_hours, s.strategy, self.processes)
        self.estimate, lines = estimate_lines(s, spec)
        if options.progress != "none":
            for line in reporting.start_lines(s, [*notes, *lines]):
                self.say(line)

    def _record(self, must_match: dict, flags: dict) -> None:
        s, options = self.session, self.options
        o = options.strategy
        must = {"seed": o.seed, "head": s.objective.name} | must_match
        should = {
            "replicas": s.strategy.num_replicas_in_sync,
            "processes": self.processes,
            "train_batch_size": options.train_batch_size,
            "grad_accumulation_steps": options.grad_accumulation_steps,
            "precision": o.precision,
            "jit_compile": o.jit_compile,
            "deterministic": o.deterministic,
            "intra_op_threads": o.intra_op_threads or os.cpu_count(),
            "inter_op_threads": o.inter_op_threads or os.cpu_count(),
            "train_steps": options.train_steps,
            "optimizer": dataclasses.asdict(options.optimizer),
            "dropout": [
                s.objective.config.dropout,
                s.objective.config.dropatt,
                s.objective.config.inner_dropout,
            ],
            "versions": run_record.versions(),
        }
        warnings = run_record.update(
            options.model_dir,
            flags,
            must,
            should,
            resuming=s.start_step > 0,
            write=s.chief,
        )
        for line in warnings:
            self.say(f"note: {line}")

    def __call__(self) -> TrainResult:
        s, options = self.session, self.options
        self.progress = reporting.Progress(
            options.progress if s.chief else "none",
            s.start_step,
            options.train_steps,
            self.say,
        )
        controller = self._controller()
        finished, reason = True, None
        self.began = time.monotonic()
        try:
            with self.stop, translate_errors(self.processes, s.checkpoints):
                self._run(controller)
        except _Stop as stop:
            finished, reason = False, str(stop)
        finally:
            self.progress.close()
        step = int(s.optimizer.step.numpy())
        result = TrainResult(
            step,
            finished,
            reason,
            self.last,
            self._evaluations(),
            s.checkpoints.latest(),
            s.model,
            self.trainer.trace_count,
        )
        self._end(result)
        return result

    def _controller(self) -> orbit.Controller:
        s = self.session
        # The lines that orbit prints would double ours.
        orbit.controller._log = _silent
        summaries = None
        if s.chief:
            summaries = os.path.join(self.options.model_dir, "train")
        return orbit.Controller(
            global_step=s.optimizer.step,
            trainer=self.trainer,
            evaluator=self.evaluator,
            strategy=s.strategy,
            steps_per_loop=lambda step: session.steps_to_boundary(
                self.options, int(step)
            ),
            train_actions=[self._after_loop],
            summary_dir=summaries,
            eval_summary_dir=summaries
            and os.path.join(self.options.model_dir, "eval"),
        )

    def _run(self, controller: orbit.Controller) -> None:
        options = self.options
        step = self.session.start_step
        while step < options.train_steps:
            target = options.train_steps
            if self.evaluator and options.eval_every:
                after = (step // options.eval_every + 1) * options.eval_every
                target = min(target, after)
            controller.train(target, checkpoint_at_completion=False)
            step = target
            if self.evaluator:
                controller.evaluate(options.eval_steps)
        if self.evaluator and not self.evaluator.history:
            controller.evaluate(options.eval_steps)

    def _after_loop(self, output: dict) -> None:
        """Check, log, report, save, stop; in this order."""
        s, options = self.session, self.options
        step = int(s.optimizer.step.numpy())
        trainer = self.trainer
        rows, names = trainer.last, trainer.stat_names
        first = step - len(rows) + 1
        check_finite(rows, names, first, s)
        if self.log:
            self.log.append(first, names, rows)
        means = {n: float(v) for n, v in zip(names, rows.mean(0), strict=True)}
        self.last = means
        speed = self.progress.update(
            step,
            reporting.shown_values(means),
            trainer.last_tokens,
            trainer.last_wait_seconds,
        )
        output.update(means | speed)
        output["parameter_norm"] = float(
            tf.linalg.global_norm([v.value() for v in s.optimizer.trained])
        )
        output["peak_memory_gib"] = (
            reporting.device_peak_bytes() or reporting.peak_memory_bytes()
        ) / reporting.GIB
        if "lm_loss" in means:
            output["perplexity"] = session.perplexity(means["lm_loss"])
        due = options.save_steps and step % options.save_steps == 0
        reason = self.stop.reason() if step < options.train_steps else None
        if due or reason or step == options.train_steps:
            self._save(step)
        if reason:
            raise _Stop(reason)

    def _save(self, step: int) -> None:
        s = self.session
        if s.memory:
            s.memory.gather()
        s.checkpoints.save(step)

    def _evaluations(self) -> list[tuple[int, dict[str, float]]]:
        # A tracked module wraps its lists; give back plain ones.
        if self.evaluator is None:
            return []
        return [(step, dict(m)) for step, m in self.evaluator.history]

    def _end(self, result: TrainResult) -> None:
        if self.options.progress == "none":
            return
        took = reporting.clock(time.monotonic() - self.began)
        if not result.finished:
            self.say(
                f"stopped at step {result.step} ({result.reason}), saved "
                f"{result.checkpoint}; the same command goes on from there"
            )
            return
        peak = reporting.device_peak_bytes() or reporting.peak_memory_bytes()
        self.say(
            f"trained to step {result.step} in {took}; checkpoint "
            f"{result.checkpoint}"
        )
        self.say(
            f"memory: estimated {self.estimate / reporting.GIB:.2f} GiB, "
            f"largest use {peak / reporting.GIB:.2f} GiB"
        )


class _Stop(Exception):
    """Ends the outer loop after a save."""


def _silent(*unused) -> None:
    pass


class EvaluatorRunner(orbit.AbstractEvaluator):
    """Evaluates the current weights, or their average, and keeps the best.

    Args:
      run: the session.
      input_fn: finite global batches.
      metric_fn: see `train`.
      say: takes a line.
    """

    def __init__(self, run: session.Session, input_fn, metric_fn, say):
        self._session = run
        self._metric_fn = metric_fn
        self._say = say
        options = run.options
        self._evaluator = Evaluator(
            run.objective,
            run.model,
            run.strategy,
            input_fn,
            options.eval_batch_size,
            memory_dtype=session.memory_dtype(options),
        )
        self._best = None
        if options.best_metric:
            self._best = BestCheckpoint(
                options.model_dir,
                run.model,
                options.best_metric,
                options.best_higher,
                run.chief,
            )
        self.history: list[tuple[int, dict[str, float]]] = []

    def evaluate(self, num_steps: tf.Tensor) -> dict[str, float]:
        """One evaluation; called by the controller."""
        run = self._session
        step = int(run.optimizer.step.numpy())
        with averaged_weights(run):
            result = self._evaluator.run(int(num_steps))
            metrics = _all_metrics(result, self._metric_fn)
            best = self._best and self._best.offer(metrics, step)
        self.history.append((step, metrics))
        shown = " ".join(f"{k} {v:.5g}" for k, v in metrics.items())
        mark = " (best so far)" if best else ""
        if run.options.progress != "none":
            self._say(f"evaluation at step {step}: {shown}{mark}")
        return dict(metrics)


class averaged_weights:
    """Swaps the moving average in for the weights, and back at the end."""

    def __init__(self, run: session.Session):
        self._pairs = []
        if run.optimizer.ema:
            variables = run.objective.named_variables(run.model)
            self._pairs = [
                (variables[n], average)
                for n, average in run.optimizer.ema.items()
            ]
        self._strategy = run.strategy

    def __enter__(self):
        self._kept = [w.numpy() for w, _ in self._pairs]
        for w, average in self._pairs:
            w.assign(average.value())

    def __exit__(self, *unused):
        for (w, _), value in zip(self._pairs, self._kept, strict=True):
            w.assign(value)


def _all_metrics(result: EvalResult, metric_fn: MetricFn | None) -> dict:
    metrics = dict(result.metrics)
    if "lm_loss" in metrics:
        metrics["perplexity"] = session.perplexity(metrics["lm_loss"])
    if metric_fn is not None:
        metrics |= metric_fn(result)
    return metrics


def _restored_model(objective: Objective, options: RunOptions, checkpoint):
    """(strategy, model) with every weight restored."""
    made = strategy.setup(options.strategy)
    session.check_config(options.model_dir, objective)
    path = checkpoint or session.checkpoint_to_read(options)
    with made.scope():
        model = objective.build_model()
    session.warm_start(made, model, path, "all")
    return made, model


def evaluate(
    objective: Objective,
    input_fn: InputFn,
    options: RunOptions,
    metric_fn: MetricFn | None = None,
    checkpoint: str | None = None,
    model=None,
) -> EvalResult:
    """Evaluates a checkpoint on a whole labelled set.

    Args:
      objective: from `heads.build_objective`.
      input_fn: finite global batches with labels.
      options: `eval_batch_size`, `eval_steps`, `model_dir`, `strategy` count.
      metric_fn: more metrics from the predictions and labels.
      checkpoint: default: `best/` of `model_dir`, its newest, then
        `init_checkpoint`.
      model: use this model's weights instead (`TrainResult.model`).

    Returns:
      Metrics, predictions and labels in input order.
    """
    made = strategy.setup(options.strategy)
    if model is None:
        made, model = _restored_model(objective, options, checkpoint)
    evaluator = Evaluator(
        objective,
        model,
        made,
        input_fn,
        options.eval_batch_size,
        memory_dtype=session.memory_dtype(options),
    )
    with translate_errors(strategy.worker_count(made), None):
        result = evaluator.run(options.eval_steps)
    return dataclasses.replace(result, metrics=_all_metrics(result, metric_fn))


def predict(
    objective: Objective,
    input_fn: InputFn,
    options: RunOptions,
    checkpoint: str | None = None,
    model=None,
) -> dict[str, np.ndarray]:
    """Per-example outputs in input order, each once.

    Args:
      objective: from `heads.build_objective`.
      input_fn: finite global batches; labels are not needed.
      options: `eval_batch_size`, `model_dir`, `strategy` count.
      checkpoint: as for `evaluate`.
      model: as for `evaluate`.

    Returns:
      name -> array [E, ...], and `example_index` [E].
    """
    made = strategy.setup(options.strategy)
    if model is None:
        made, model = _restored_model(objective, options, checkpoint)
    evaluator = Evaluator(
        objective,
        model,
        made,
        input_fn,
        options.eval_batch_size,
        with_loss=False,
    )
    with translate_errors(strategy.worker_count(made), None):
        result = evaluator.run()
    return result.predictions | {"example_index": result.indices}


def evaluate_continuously(
    objective: Objective,
    input_fn: InputFn,
    options: RunOptions,
    metric_fn: MetricFn | None = None,
    timeout: float | None = None,
    say: Callable[[str], None] = print,
) -> list[tuple[int, dict[str, float]]]:
    """Evaluates every new checkpoint of another job's `model_dir`.

    Args:
      objective: as for `evaluate`.
      input_fn: as for `evaluate`.
      options: as for `evaluate`; it ends at step `train_steps`.
      metric_fn: as for `evaluate`.
      timeout: seconds without a new checkpoint after which it ends; None =
        wait for ever.
      say: takes a line per evaluation.

    Returns:
      (step, metrics) of every evaluation.
    """
    made = strategy.setup(options.strategy)
    with made.scope():
        model = objective.build_model()
    evaluator = Evaluator(
        objective,
        model,
        made,
        input_fn,
        options.eval_batch_size,
        memory_dtype=session.memory_dtype(options),
    )
    history = []
    for path in tf.train.checkpoints_iterator(
        options.model_dir, timeout=timeout
    ):
        step = int(path.rsplit("-", 1)[1])
        try:
            session.check_config(options.model_dir, objective)
            session.warm_start(made, model, path, "all")
        except (UserError, tf.errors.NotFoundError):
            if tf.io.gfile.exists(path + ".index"):
                raise
            continue  # rotated away while we were busy
        metrics = _all_metrics(evaluator.run(options.eval_steps), metric_fn)
        history.append((step, metrics))
        shown = " ".join(f"{k} {v:.5g}" for k, v in metrics.items())
        say(f"evaluation at step {step}: {shown}")
        if step >= options.train_steps:
            break
    return history
