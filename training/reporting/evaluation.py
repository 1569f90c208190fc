"""Whole-set evaluation and prediction on any number of replicas."""

import dataclasses
import time
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from common.errors import UserError
from training.objectives.contract import Objective, check_metrics
from training.recurrent.memory_state import RecurrentMemory, reset_rows
from training.step import guards, static_lengths
from training.step.batch_split import BatchSplit, distribute

INDEX = "example_index"
WEIGHT = "example_weight"


@dataclasses.dataclass(frozen=True)
class EvalResult:
    """What an evaluation saw, whole and in input order."""

    # name -> value: `loss` and the objective's, each one sum over the whole set
    # divided once; then what these and a metric function give
    metrics: dict[str, float]
    # name -> array [E, ...], E examples in input order
    predictions: dict[str, np.ndarray]
    labels: dict[str, np.ndarray]  # label field -> array [E, ...]
    indices: np.ndarray  # int [E], `example_index`, rising
    # metric -> what its sum was divided by, e.g. predicted tokens
    counts: dict[str, float] = dataclasses.field(default_factory=dict)
    # median over the steps, so that traces do not count
    step_seconds: float = 0.0


MetricFn = Callable[[EvalResult], dict[str, float]]


class Evaluator:
    """Traces one step per batch shape and keeps it for later evaluations.

    There are as many shapes as length buckets, and known ones are faster.
    `input_fn` gives global batches; finite, or `steps` must be given.
    `metric_fn` gives more metrics, of the predictions and labels.
    """

    def __init__(
        self,
        objective: Objective,
        model,
        strategy: tf.distribute.Strategy,
        input_fn,
        batch_size: int,
        with_loss: bool = True,
        metric_fn: MetricFn | None = None,
    ):
        self._objective = objective
        self._model = model
        self._strategy = strategy
        self._with_loss = with_loss and objective.evaluates_loss
        self._with_labels = with_loss
        self._metric_fn = metric_fn
        split = BatchSplit(
            batch_size,
            strategy.num_replicas_in_sync,
            groups=objective.row_groups,
            flag="eval_batch_size",
        )
        self._memory = None
        if objective.memory_len:
            self._memory = RecurrentMemory(objective, model, strategy, split)
        self._dataset, _ = distribute(strategy, input_fn, split)
        self._names = []
        if self._with_loss:
            self._names = ["loss", *sorted(objective.metric_names)]
        self._step = tf.function(self._gathered_step, autograph=False)

    def run(self, steps: int = -1) -> EvalResult:
        """Evaluates up to `steps` batches, -1 = until the data end.

        A metric that nothing counted for is left out, such as the loss of tags
        that a tagger does not know. Raises UserError: no example, or one that
        came twice, or none that counts where the loss is all there is; or a
        batch does not fit into memory.
        """
        if self._memory:
            self._memory.clear()
        totals, rows, marks = None, [], [time.perf_counter()]
        for number, batch in enumerate(self._dataset):
            if number == steps:
                break
            with guards.memory_of(guards.EVALUATION):
                sums, outputs = self._step(batch)
            sums = sums.numpy().astype(np.float64)
            totals = sums if totals is None else totals + sums
            rows.append({k: v.numpy() for k, v in outputs.items()})
            marks.append(time.perf_counter())
        if totals is None:
            raise UserError("the evaluation data hold no batch")
        alone = self._names and self._metric_fn is None
        if alone and not totals[0, 1] > 0:
            raise UserError(
                f"an evaluation of {len(rows)} batch(es) has no loss: wanted at "
                "least one target (or example) that counts, found none; give "
                "more --eval_steps, or data with targets"
            )
        metrics = {
            name: float(total / count)
            for name, (total, count) in zip(self._names, totals, strict=True)
            if count > 0
        }
        counts = dict(zip(self._names, totals[:, 1].tolist(), strict=True))
        if metrics:
            metrics |= self._objective.derived_metrics(metrics)
        result = dataclasses.replace(
            _assemble(metrics, rows, self._objective.label_fields),
            step_seconds=float(np.median(np.diff(marks))),
        )
        result.counts.update(counts)
        if self._metric_fn is not None:
            result.metrics.update(self._metric_fn(result))
        return result

    def _gathered_step(self, batch):
        sums, outputs = self._strategy.run(self._replica_step, args=(batch,))
        sums = self._strategy.reduce(tf.distribute.ReduceOp.SUM, sums, None)
        outputs = {
            k: self._strategy.gather(v, axis=0) for k, v in outputs.items()
        }
        return sums, outputs

    @tf.autograph.experimental.do_not_convert
    def _replica_step(self, batch):
        objective, memory = self._objective, None
        if self._memory:
            memory = reset_rows(self._memory.read(), batch["reset_memory"])
        sums = []
        if self._with_loss:
            output = static_lengths.by_length(
                objective,
                batch,
                lambda b: objective.loss(
                    self._model, b, memory, training=False, seed=None
                ),
            )
            check_metrics(objective, output)
            sums = [(output.loss_sum, output.weight_sum)]
            sums += [output.metrics[name] for name in self._names[1:]]
            predictions = dict(output.predictions)
            if self._memory:
                self._memory.write(output.new_memory)
        else:
            predictions = static_lengths.by_length(
                objective, batch, lambda b: objective.predict(self._model, b)
            )
        extra = [INDEX, WEIGHT] if INDEX in batch else []
        if self._with_labels:
            extra += [f for f in objective.label_fields if f in batch]
        for name in extra:
            predictions[f"batch/{name}"] = batch[name]
        pairs = [tf.stack(pair) for pair in sums]
        # [metrics, 2]
        return tf.stack(pairs) if pairs else tf.zeros([0, 2]), predictions


def _assemble(metrics, rows, label_fields) -> EvalResult:
    """Joins the batches, drops padding rows, restores the input order."""
    if not rows or f"batch/{INDEX}" not in rows[0]:
        return EvalResult(metrics, {}, {}, np.zeros([0], np.int64))
    joined = {name: _join([r[name] for r in rows]) for name in rows[0]}
    keep = joined.pop(f"batch/{WEIGHT}") > 0
    joined = {name: x[keep] for name, x in joined.items()}
    indices = joined.pop(f"batch/{INDEX}").astype(np.int64)
    order = np.argsort(indices, kind="stable")
    indices = indices[order]
    if len(np.unique(indices)) != len(indices):
        twice = indices[1:][indices[1:] == indices[:-1]][0]
        raise UserError(f"`example_index` {twice} came twice in the input")
    labels = {
        name: joined.pop(f"batch/{name}")[order]
        for name in label_fields
        if f"batch/{name}" in joined
    }
    return EvalResult(
        metrics, {k: v[order] for k, v in joined.items()}, labels, indices
    )


def _join(arrays: list[np.ndarray]) -> np.ndarray:
    """Concatenates rows; batches of other lengths are padded with zeros."""
    if len({a.shape[1:] for a in arrays}) > 1:
        widest = np.max([a.shape[1:] for a in arrays], axis=0)
        arrays = [
            np.pad(
                a,
                [(0, 0)]
                + [
                    (0, w - s) for w, s in zip(widest, a.shape[1:], strict=True)
                ],
            )
            for a in arrays
        ]
    return np.concatenate(arrays)
