"""One optimizer step on every replica, and a host loop of many (orbit)."""

import functools
import time

import orbit
import tensorflow as tf

from common import heap
from modeling.ops import fused as fusion
from training import static_lengths
from training.memory_state import RecurrentMemory, reset_rows
from training.objectives.contract import Memory, Objective
from training.optim.optimizer import AdamW

# Columns of the history that every objective has.
BASE_STATS = ("loss", "learning_rate", "gradient_norm", "update_norm")


class Trainer(orbit.AbstractTrainer):
    """Runs `num_steps` steps per call inside one traced loop.

    A step: every replica goes through its rows in `parts`, sums gradients and
    losses; sums and counts are added over the replicas and divided once; the
    gradient is clipped after that; every replica updates its copy.

    Args:
      objective: model, loss, outputs.
      model: made by the objective in the strategy's scope.
      optimizer: of the model's variables.
      memory: recurrent memory or None.
      strategy: of the run.
      dataset: from `rows.distribute`.
      parts: accumulation parts.
      seed: of dropout.
      jit_compile: compile both halves of the step with XLA.
      loss_scale: a `LossScale` for float16, else None.
    """

    def __init__(
        self,
        objective: Objective,
        model,
        optimizer: AdamW,
        memory: RecurrentMemory | None,
        strategy: tf.distribute.Strategy,
        dataset,
        parts: int = 1,
        seed: int = 0,
        jit_compile: bool = False,
        loss_scale=None,
    ):
        self._objective = objective
        self._model = model
        self._optimizer = optimizer
        self._memory = memory
        self._strategy = strategy
        self._dataset = dataset
        self._iterator = None
        self._parts = parts
        self._seed = seed
        self._loss_scale = loss_scale
        self.trace_count = 0
        self.metric_names: list[str] = []
        # Columns per step: BASE_STATS, then the metrics; `last` is its slice
        # for the last host loop, [num_steps, columns].
        self.last = None
        self.last_wait_seconds = 0.0
        self.last_tokens = 0.0
        self._compute_fn, self._update_fn = self._compute, self._update
        if jit_compile:
            compiled = functools.partial(
                tf.function, jit_compile=True, autograph=False
            )
            self._compute_fn = compiled(self._compute)
            self._update_fn = compiled(self._update)
        # Nothing needs AutoGraph, whose conversion of every function of the
        # model is half of the time of tracing.
        self._loop_fn = tf.function(self._host_loop, autograph=False)

    @property
    def stat_names(self) -> list[str]:
        """Names of the columns of `last`."""
        return [*BASE_STATS, *self.metric_names]

    def train(self, num_steps: tf.Tensor) -> dict[str, float]:
        """Runs the steps; their statistics are in `last` afterwards.

        Raises:
          RuntimeError: the step counter did not move by `num_steps`.
        """
        first = self._iterator is None
        if first:
            self._iterator = iter(self._dataset)
        before = int(self._optimizer.step.numpy())
        history, wait, tokens = self._loop_fn(self._iterator, num_steps)
        self.last = history.numpy()
        if first:
            heap.trim()
        self.last_wait_seconds = float(wait)
        self.last_tokens = float(tokens)
        moved = int(self._optimizer.step.numpy()) - before
        if moved != int(num_steps):
            raise RuntimeError(
                f"{int(num_steps)} steps moved the step counter by {moved}"
            )
        return {}

    def _host_loop(self, iterator, num_steps):
        # ([num_steps, columns], seconds waited for input, tokens)
        self.trace_count += 1
        local = self._strategy.experimental_local_results

        def step(i, history, wait, tokens):
            start = self._now()
            with tf.control_dependencies([start]):
                batch = iterator.get_next()
            arrived = [local(x)[0] for x in batch.values()]
            with tf.control_dependencies(arrived):
                wait += self._now() - start
            stats, count = self._strategy.run(self._replica_step, args=(batch,))
            history = history.write(i, local(stats)[0])
            return i + 1, history, wait, tokens + local(count)[0]

        _, history, wait, tokens = tf.while_loop(
            lambda i, *_: i < num_steps,
            step,
            (
                tf.constant(0),
                tf.TensorArray(tf.float32, size=num_steps),
                tf.constant(0.0, tf.float64),
                tf.constant(0.0),
            ),
            # One iteration at a time, or the wait would overlap with a step.
            parallel_iterations=1,
        )
        return history.stack(), wait, tokens

    def _now(self) -> tf.Tensor:
        """Seconds, float64; deterministic mode forbids `tf.timestamp`."""
        if "TPU" in type(self._strategy).__name__:
            return tf.timestamp()
        now = tf.numpy_function(time.perf_counter, [], tf.float64)
        return tf.ensure_shape(now, [])

    # -- One replica --

    def _replica_step(self, batch):
        context = tf.distribute.get_replica_context()
        step = self._optimizer.step.read_value()
        memory = self._memory.read() if self._memory else None
        replica = tf.cast(context.replica_id_in_sync_group, tf.int32)
        gradients, sums, new_memory = self._compute_fn(
            batch, memory_tensors(memory), step, replica
        )
        if self._strategy.num_replicas_in_sync > 1:
            total = context.all_reduce(
                tf.distribute.ReduceOp.SUM, [*gradients, sums]
            )
            gradients, sums = list(total[:-1]), total[-1]
        stats = self._update_fn(list(gradients), sums, step)
        if self._memory:
            self._memory.write(Memory(tuple(new_memory[:-1]), new_memory[-1]))
        return stats, sums[2]

    def _compute(self, batch, memory, step, replica):
        """(gradients of the loss sum, sums, new memory tensors or ()).

        `sums` is float32 [3 + 2 * metrics]: loss, weight, tokens, then sum
        and count of each metric.
        """
        seed = fold_seed(self._seed, step, replica)  # int32 [2]
        if self._parts == 1:
            return self._part(batch, memory, seed)
        parts = self._parts

        def split(x):
            return tf.reshape(x, [parts, -1, *x.shape[1:]])

        batch = {k: split(x) for k, x in batch.items()}
        memory = tuple(split(x) for x in memory)
        first = self._part(*_take(0, batch, memory), fold_part(seed, 0))
        gradients, sums, new = first
        kept = [
            tf.TensorArray(x.dtype, parts, element_shape=x.shape).write(0, x)
            for x in new
        ]

        def add(i, gradients, sums, kept):
            more, more_sums, new = self._part(
                *_take(i, batch, memory), fold_part(seed, i)
            )
            gradients = [a + b for a, b in zip(gradients, more, strict=True)]
            kept = [a.write(i, x) for a, x in zip(kept, new, strict=True)]
            return i + 1, gradients, sums + more_sums, kept

        _, gradients, sums, kept = tf.while_loop(
            lambda i, *_: i < parts,
            add,
            (1, gradients, sums, kept),
            parallel_iterations=1,
        )
        return gradients, sums, tuple(_flatten(a.stack()) for a in kept)

    def _part(self, batch, memory, seed):
        # Of unknown length are only the length buckets.
        with fusion.few_shapes():
            return static_lengths.by_length(
                self._objective, batch, lambda b: self._rows(b, memory, seed)
            )

    def _rows(self, batch, memory, seed):
        state = None
        if memory:
            state = Memory(tuple(memory[:-1]), memory[-1])
            state = reset_rows(state, batch["reset_memory"])
        variables = self._optimizer.trained
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            for variable in variables:
                tape.watch(variable)
            output = self._objective.loss(
                self._model, batch, state, training=True, seed=seed
            )
            loss = output.loss_sum
            if self._loss_scale is not None:
                loss = self._loss_scale.scale_loss(loss)
        gradients = tape.gradient(
            loss,
            variables,
            unconnected_gradients=tf.UnconnectedGradients.ZERO,
        )
        # Embedding rows that are looked up twice must count once in the norm.
        gradients = [
            tf.cast(tf.convert_to_tensor(g), tf.float32) for g in gradients
        ]
        self.metric_names = sorted(output.metrics)
        tokens = tf.cast(tf.size(batch["input_ids"]), tf.float32)
        sums = [output.loss_sum, output.weight_sum, tokens]
        for name in self.metric_names:
            sums.extend(output.metrics[name])
        new = ()
        if output.new_memory is not None and memory:
            new = memory_tensors(output.new_memory)
        return gradients, tf.stack(sums), new

    def _update(self, gradients, sums, step):
        """Divides, clips and applies as one factor; float32 [columns]."""
        weight = tf.maximum(sums[1], 1e-9)
        scale = 1.0 / weight
        optimizer = self._optimizer
        if self._loss_scale is None:
            factor, norm = optimizer.clip(gradients, scale)
            squares = optimizer.apply(gradients, step, factor)
        else:
            scale *= self._loss_scale.inverse()
            factor, norm = optimizer.clip(gradients, scale)
            squares = self._loss_scale.apply(
                optimizer, gradients, norm, step, factor
            )
        optimizer.step.assign_add(1)
        stats = [
            sums[0] / weight,
            optimizer.schedule(step),
            norm,
            tf.sqrt(squares),
        ]
        for i in range(len(self.metric_names)):
            total, count = sums[3 + 2 * i], sums[4 + 2 * i]
            stats.append(total / tf.maximum(count, 1e-9))
        return tf.stack(stats)


def memory_tensors(memory: Memory | None) -> tuple[tf.Tensor, ...]:
    """The layers, then the lengths; () for None."""
    return () if memory is None else (*memory.layers, memory.length)


def fold_seed(seed: int, step: tf.Tensor, replica: tf.Tensor) -> tf.Tensor:
    """int32 [2], another one for every (seed, step, replica)."""
    start = tf.constant([seed, 0x584C], tf.int32)
    folded = tf.random.experimental.stateless_fold_in(
        start, tf.cast(step, tf.int32)
    )
    return tf.random.experimental.stateless_fold_in(folded, replica)


def fold_part(seed: tf.Tensor, part: int | tf.Tensor) -> tf.Tensor:
    """int32 [2] for one accumulation part."""
    return tf.random.experimental.stateless_fold_in(
        seed, tf.cast(part, tf.int32) + 1
    )


def _take(i, batch, memory):
    return {k: x[i] for k, x in batch.items()}, tuple(x[i] for x in memory)


def _flatten(x: tf.Tensor) -> tf.Tensor:
    return tf.reshape(x, [-1, *x.shape[2:]])
