"""One training run from its first host loop to its last."""

import contextlib
import dataclasses
import functools
import os
import time
from collections.abc import Callable, Iterator, Sequence

import orbit
import tensorflow as tf

from common import locks
from common.errors import Stopped, UserError
from common.process.memory import GIB
from training import strategy
from training.checkpointing.best_checkpoint import begin_anew
from training.checkpointing.checkpoints import write_config
from training.checkpointing.run_state import open_run
from training.objectives.contract import Objective
from training.recurrent.memory_replay import remake
from training.reporting import report, run_record
from training.reporting.eval_runner import EvaluatorRunner, single_evaluator
from training.reporting.evaluation import MetricFn
from training.reporting.loss_log import LossLog
from training.reporting.memory_estimate import estimate_lines
from training.run_options import RunOptions
from training.step import batch_warmup, train_step
from training.step.batch_split import distribute
from training.step.guards import check_finite, translate_errors
from training.stop import StopRequest

InputFn = Callable[[dict], tf.data.Dataset]
# Of an objective: in which parts it computes the same.
_ORDER = ("loss_chunk_size", "pack", "recompute_layers")


@dataclasses.dataclass(frozen=True)
class TrainRequest:
    """What a training is asked for.

    Raises UserError: averaging waits for losses of evaluations, and there are
    none.
    """

    objective: Objective
    input_fn: InputFn  # endless global batches from `params["start_step"]` on
    options: RunOptions
    # finite global batches; evaluated every `options.eval_every` steps and at
    # the end
    eval_input_fn: InputFn | None = None
    # more metrics from an `EvalResult`, official ones for example
    metric_fn: MetricFn | None = None
    # run -> what evaluates it instead of one `Evaluator` of `eval_input_fn`:
    # its `run(steps)` gives an object with `metrics`
    make_evaluator: Callable | None = None
    # see `training.checkpointing.run_state.open_run`
    warm_start: Callable | None = None
    # facts about the data that a resumed run cannot change
    must_match: dict | None = None
    should_match: dict | None = None  # a note says where it changed
    flags: dict | None = None
    notes: Sequence[str] = ()  # more lines for the start-up summary
    say: Callable[[str], None] = print
    begin: Callable[[str], None] | None = None

    def __post_init__(self):
        evaluates = self.eval_input_fn or self.make_evaluator
        if self.options.optimizer.average_trigger and not evaluates:
            raise UserError(
                "--average_trigger counts evaluations, and nothing is "
                "evaluated: wanted --mode=train_and_eval and held-out data"
            )
        # What evaluates in another way says itself what its loss is.
        lossless = not (self.make_evaluator or self.objective.evaluates_loss)
        if self.options.optimizer.average_trigger and lossless:
            raise UserError(
                "--average_trigger counts evaluations by their `loss`, and "
                f"those of {self.objective.name} have none: leave it out, or "
                "give --average_last or --ema_decay"
            )


@dataclasses.dataclass(frozen=True)
class TrainResult:
    """How a training ended."""

    step: int
    finished: bool  # False when it was stopped on request
    reason: str | None  # why it stopped, None when finished
    last: dict[str, float]
    # (step, metrics) of every evaluation of this process
    evaluations: list[tuple[int, dict[str, float]]]
    checkpoint: str | None
    model: object
    trace_count: int  # traces of the host loop (1 unless shapes change)
    writes_files: bool  # this process is the chief

    def or_stop(self) -> "TrainResult":
        """Itself, if it is whole; raises Stopped where a request stopped it."""
        if not self.finished:
            raise Stopped(self.reason)
        return self


def run_training(request: TrainRequest) -> TrainResult:
    """Trains; `model_dir` is this process' own meanwhile.

    Raises UserError: another process trains there, or anything else that the
    user can put right.
    """
    options = request.options
    with contextlib.ExitStack() as stack:
        if strategy.may_write(options.strategy):
            stack.enter_context(locks.held(options.model_dir))
        with translate_errors(1, None):  # data is read before the first step
            run = TrainingRun(request)
        with run.going() as controller:
            for step in run.stretches(controller):
                controller.train(step)
        result = run.end()
    run.stop.pass_on()
    return result


class TrainingRun:
    """What a training holds, from its first host loop to its last."""

    def __init__(self, request: TrainRequest):
        options, objective = request.options, request.objective
        self.options = options
        must = {"seed": options.strategy.seed, "head": objective.name}
        must |= request.must_match or {}
        self.state = s = open_run(objective, options, request.warm_start, must)
        learner = s.learner
        self.processes = strategy.worker_count(learner.strategy)
        self.say = request.say if s.chief else lambda line: None
        record = self._record(request, must)
        for line in record(write=False):
            self.say(f"note: {line}")
        notes = [*begin_anew(s), *s.notes]
        notes += remake(learner, options, request.input_fn, s.start_step)
        dataset, spec = distribute(
            learner.strategy, request.input_fn, learner.split, s.start_step
        )
        self.trainer = train_step.Trainer(
            learner,
            dataset,
            options.strategy.seed,
            options.strategy.jit_compile,
            batch_warmup.of_run(options, objective.memory_len),
        )
        self.evaluator = None
        make = request.make_evaluator
        if make is None and request.eval_input_fn is not None:
            make = single_evaluator(request.eval_input_fn, request.metric_fn)
        if make is not None:
            self.evaluator = EvaluatorRunner(s, make, self.say)
        self.log = None
        if s.chief:
            record()  # what is refused until here leaves no trace
            self.log = LossLog(options.model_dir, s.start_step)
            write_config(options.model_dir, objective)
            if request.begin:
                request.begin(options.model_dir)
        self.last: dict[str, float] = {}
        self.stopped: str | None = None
        self.save_seconds = 0.0
        self.stop = StopRequest(options.max_hours, s.meeting)
        self.estimate, lines = estimate_lines(learner, spec)
        if options.progress != "none":
            notes = report.start_lines(s, [*request.notes, *notes, *lines])
        for line in notes:
            self.say(line)
        self.progress = report.Progress(
            options.progress if s.chief else "none",
            s.start_step,
            options.train_steps,
            self.say,
        )
        self.began = time.monotonic()

    def _record(self, request: TrainRequest, must: dict) -> Callable:
        """`run_record.update` of this start."""
        s, options = self.state, self.options
        o, objective = options.strategy, s.learner.objective
        should = {
            "replicas": s.learner.split.replicas,
            "processes": self.processes,
            "train_batch_size": options.train_batch_size,
            "grad_accumulation_steps": options.grad_accumulation_steps,
            "min_batch_size": options.min_batch_size,
            "batch_size_warmup_tokens": options.batch_size_warmup_tokens,
            "precision": o.precision,
            "jit_compile": o.jit_compile,
            "deterministic": o.deterministic,
            **strategy.threads(o),
            "train_steps": options.train_steps,
            **{name: getattr(objective, name) for name in _ORDER},
            "optimizer": dataclasses.asdict(options.optimizer),
            "dropout": list(objective.config.dropout_rates),
            "variational_dropout": getattr(
                objective.config, "variational_dropout", False
            ),
            "versions": run_record.versions(),
        } | (request.should_match or {})
        return functools.partial(
            run_record.update,
            options.model_dir,
            request.flags or {},
            must,
            should,
            resuming=s.start_step > 0,
            trains=s.start_step < options.train_steps,
        )

    @contextlib.contextmanager
    def going(self) -> Iterator[orbit.Controller]:
        """Host loops; whatever ends them, saves finish, errors are one line."""
        saves = self.state.checkpoints
        try:
            with self.stop, translate_errors(self.processes, saves):
                try:
                    yield self._controller()
                except _Stop as stop:
                    self.stopped = str(stop)
                self._in_saves(saves.finish)
        finally:
            saves.close()
            self.progress.close()

    def _controller(self) -> orbit.Controller:
        s = self.state
        folder = self.options.model_dir
        return _Controller(
            global_step=s.learner.optimizer.step,
            trainer=self.trainer,
            evaluator=self.evaluator,
            strategy=s.learner.strategy,
            steps_per_loop=lambda step: self.options.steps_until_due(int(step)),
            train_actions=[self._after_loop],
            summary_dir=os.path.join(folder, "train") if s.chief else None,
            eval_summary_dir=os.path.join(folder, "eval") if s.chief else None,
        )

    def stretches(self, controller: orbit.Controller) -> Iterator[int]:
        """The steps to train up to, one after the other; evaluates between."""
        options = self.options
        step = self.state.start_step
        evaluate = functools.partial(controller.evaluate, options.eval_steps)
        if self.evaluator and self._evaluates_first(step):
            evaluate()
        elif self.evaluator and self.stop.agree(self.evaluator.missing(step)):
            # Killed between this step's save and its evaluation.
            evaluate()
        while step < options.train_steps and not self._stale(step):
            target = options.train_steps
            if self.evaluator and options.eval_every:
                after = (step // options.eval_every + 1) * options.eval_every
                target = min(target, after)
            yield target
            step = target
            if self.evaluator:
                evaluate()
                self._stop_if_asked(step)
        if self.evaluator and not self.evaluator.history:
            evaluate()

    def _stale(self, step: int) -> bool:
        """`patience` is over: what is trained is saved, and it ends here.

        It looks at the logged evaluations alone, so a run that goes on from a
        checkpoint decides as the one that was never stopped.
        """
        options = self.options
        if not options.patience or self.evaluator is None:
            return False
        late = self.stop.agree(self.evaluator.since_best() >= options.patience)
        if late:
            self._in_saves(self.state.checkpoints.save, step)
            self.say(
                f"stopped early at step {step}: {options.patience} evaluations "
                f"without a better {options.best_metric}"
            )
            averages = self.state.learner.optimizer.averages
            last = options.optimizer.average_last
            if last and step <= averages.first_of_last:
                self.say(
                    f"note: --average_last={last} begins after step "
                    f"{averages.first_of_last}: nothing was averaged"
                )
        return late

    def _evaluates_first(self, step: int) -> bool:
        """Before any update; or what a trigger missed when the run was cut."""
        if step == 0:
            return self.options.eval_at_start
        trigger = self.state.learner.optimizer.averages.trigger
        due = step % (self.options.eval_every or 1) == 0
        return bool(trigger and due and trigger.misses(step))

    def _after_loop(self, output: dict) -> None:
        """Check, log, report, save, stop; in this order."""
        s, options, trainer = self.state, self.options, self.trainer
        s.checkpoints.check()
        optimizer, objective = s.learner.optimizer, s.learner.objective
        step = int(optimizer.step.numpy())
        rows, names = trainer.last, trainer.stat_names
        first = step - len(rows) + 1
        check_finite(rows, names, first, s)
        if self.log:
            self.log.append(first, names, rows)
        self.last = means = trainer.means()
        values = means | objective.derived_metrics(means)
        speed = self.progress.update(
            step,
            report.shown_values(values, objective.shown_metrics),
            trainer.last_tokens,
            trainer.last_wait_seconds,
            trainer.last_seconds,
        )
        output.update(values | speed)
        output["parameter_norm"] = float(
            tf.linalg.global_norm([v.value() for v in optimizer.trained])
        )
        output["peak_memory_gib"] = report.peak_memory_gib()
        due = options.save_steps and step % options.save_steps == 0
        if due or step == options.train_steps:
            self._in_saves(s.checkpoints.save, step)
        self._stop_if_asked(step)

    def _stop_if_asked(self, step: int) -> None:
        """Saves and raises `_Stop` where a signal or the time says so."""
        if step == self.options.train_steps:
            return
        if reason := self.stop.reason():
            self._in_saves(self.state.checkpoints.save, step)
            raise _Stop(reason)

    def _in_saves(self, work: Callable, *how) -> None:
        began = time.monotonic()
        work(*how)
        self.save_seconds += time.monotonic() - began

    def _evaluations(self) -> list[tuple[int, dict[str, float]]]:
        # A tracked module wraps its lists; give back plain ones.
        if self.evaluator is None:
            return []
        return [(step, dict(m)) for step, m in self.evaluator.history]

    def end(self) -> TrainResult:
        """How it ended; says so, of a stop whatever `progress` is."""
        s = self.state
        result = TrainResult(
            int(s.learner.optimizer.step.numpy()),
            self.stopped is None,
            self.stopped,
            self.last,
            self._evaluations(),
            s.checkpoints.latest(),
            s.learner.model,
            self.trainer.trace_count,
            s.chief,
        )
        if self.options.progress != "none" or not result.finished:
            self._report(result)
        return result

    def _report(self, result: TrainResult) -> None:
        seconds = time.monotonic() - self.began
        if not result.finished:
            self.say(
                f"stopped at step {result.step} ({result.reason}), saved "
                f"{result.checkpoint}; the same command resumes from there"
            )
            return
        self.say(
            f"trained to step {result.step} in {report.clock(seconds)}; "
            f"checkpoint {result.checkpoint}"
        )
        if result.step > self.state.start_step:
            self.say(report.cost_line(result.step, self.state, seconds))
        self.say(
            f"saves: training waited {self.save_seconds:.2f} s for them, "
            f"{self.save_seconds / seconds:.2%} of the time"
        )
        self.say(
            f"memory: estimated {self.estimate / GIB:.2f} GiB, "
            f"largest use {report.peak_memory_gib():.2f} GiB"
        )


class _Stop(Exception):
    """Ends the outer loop after a save."""


class _Controller(orbit.Controller):
    """orbit's checks, `steps_per_loop` and summaries.

    Why not its loops: they print every step's line to standard output, whatever
    the level of any logger is, and a wrong step count is a warning there.
    """

    def train(self, steps: int) -> None:
        """Host loops, their actions and summaries, up to global step `steps`."""
        while (step := int(self.global_step.numpy())) < steps:
            count = min(steps - step, self.steps_per_loop)
            output = self.trainer.train(tf.constant(count))
            for action in self.train_actions:
                action(output)
            self.summary_manager.write_summaries(output)
            self.summary_manager.flush()

    def evaluate(self, steps: int) -> None:
        """One evaluation of so many batches (-1 = all) and its summaries."""
        output = self.evaluator.evaluate(tf.constant(steps))
        self.eval_summary_manager.write_summaries(output)
        self.eval_summary_manager.flush()
