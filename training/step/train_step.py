"""One optimizer step on every replica, and a host loop of many (orbit)."""

import functools
import time
from typing import NamedTuple

import orbit
import tensorflow as tf

from common.process import heap
from modeling.ops.shapes import sizes
from training.objectives.contract import check_metrics
from training.optim.clipping import clip_factor
from training.recurrent.memory_state import reset_rows
from training.step import static_lengths
from training.step.batch_warmup import BatchWarmup
from training.step.learner import Learner

# Columns of the history that every objective has.
BASE_STATS = ("loss", "learning_rate", "gradient_norm", "update_norm")


class Sums(NamedTuple):
    """What adds up over micro-batches and replicas, float32 scalars."""

    loss: tf.Tensor  # of `LossOutput`
    weight: tf.Tensor  # of `LossOutput`
    tokens: tf.Tensor  # positions
    metrics: dict[str, tuple[tf.Tensor, tf.Tensor]]  # name -> (sum, count)

    def pack(self) -> tf.Tensor:
        """One tensor [3 + 2 * metrics], so that replicas exchange one."""
        return tf.stack(tf.nest.flatten(self))

    @classmethod
    def unpack(cls, packed: tf.Tensor, metric_names: list[str]) -> "Sums":
        """The inverse of `pack`."""
        like = cls(0, 0, 0, {name: (0, 0) for name in metric_names})
        return tf.nest.pack_sequence_as(like, tf.unstack(packed))


class Trainer(orbit.AbstractTrainer):
    """Runs `num_steps` steps per call inside one traced loop.

    Not `orbit.StandardTrainer`: its loop keeps no statistics of single steps.

    A step: every replica goes through its rows in `accumulation_steps`
    micro-batches, sums gradients and losses; sums and counts are added over the
    replicas and divided once; the gradient is clipped after that; every replica
    updates its copy. The dataset is from `batch_split.distribute`; without a
    warm-up of the batch size every step is whole.
    """

    def __init__(
        self,
        learner: Learner,
        dataset,
        seed: int = 0,
        jit_compile=False,
        warmup: BatchWarmup | None = None,
    ):
        self._warmup = warmup
        self._learner = learner
        self._dataset = dataset
        self._iterator = None
        self._seed = seed
        self.trace_count = 0
        self.metric_names = sorted(learner.objective.metric_names)
        # Columns per step: BASE_STATS, then the metrics; `last` is its slice
        # for the last host loop, [num_steps, columns].
        self.last = None
        self._counted = None  # bool [num_steps]: a target or example counts
        self.last_seconds = 0.0
        self.last_wait_seconds = 0.0
        self.last_tokens = 0.0
        self._jit_compile = jit_compile
        self._micro_batch = self._differentiate
        if static_lengths.shapes_differ(learner.objective):
            self._micro_batch = self._differentiate_by_length
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

    def means(self) -> dict[str, float]:
        """Of the columns over the last host loop's steps.

        Those in which nothing counts, whose losses are 0, are left out.
        """
        rows = self.last[self._counted] if self._counted.any() else self.last
        return dict(zip(self.stat_names, rows.mean(0).tolist(), strict=True))

    def train(self, num_steps: tf.Tensor) -> dict[str, float]:
        """Runs the steps; their statistics are in `last` afterwards.

        Raises RuntimeError: the step counter did not move by `num_steps`.
        """
        first = self._iterator is None
        if first:
            self._iterator = iter(self._dataset)
        step = self._learner.optimizer.step
        before = int(step.numpy())
        began = time.monotonic()
        history, wait, tokens = self._loop_fn(self._iterator, num_steps)
        history = history.numpy()
        self.last, self._counted = history[:, :-1], history[:, -1] > 0
        self.last_seconds = time.monotonic() - began
        if first:
            heap.trim()
        self.last_wait_seconds = float(wait)
        self.last_tokens = float(tokens)
        moved = int(step.numpy()) - before
        if moved != int(num_steps):
            raise RuntimeError(
                f"{int(num_steps)} steps moved the step counter by {moved}"
            )
        return {}

    def _host_loop(self, iterator, num_steps):
        # ([num_steps, columns and weight], seconds waited for input, tokens)
        self.trace_count += 1
        strategy = self._learner.strategy
        local = strategy.experimental_local_results

        def step(i, history, wait, tokens):
            start = self._now()
            with tf.control_dependencies([start]):
                batch = iterator.get_next()
            arrived = [local(x)[0] for x in batch.values()]
            with tf.control_dependencies(arrived):
                wait += self._now() - start
            # First the clock, then the step: a machine with one thread would
            # look at it when the step is done.
            with tf.control_dependencies([wait]):
                stats, count = strategy.run(self._replica_step, args=(batch,))
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
        if "TPU" in type(self._learner.strategy).__name__:
            return tf.timestamp()
        now = tf.numpy_function(time.perf_counter, [], tf.float64)
        return tf.ensure_shape(now, [])

    # -- One replica --

    def _replica_step(self, batch):
        learner = self._learner
        context = tf.distribute.get_replica_context()
        step = learner.optimizer.step.read_value()
        # () stands for no memory: unlike None, `tf.nest` can map it.
        memory = learner.memory.read() if learner.memory else ()
        replica = tf.cast(context.replica_id_in_sync_group, tf.int32)
        gradients, sums, new_memory = self._compute_fn(
            batch, memory, step, replica
        )
        if learner.strategy.num_replicas_in_sync > 1:
            gradients, sums = context.all_reduce(
                tf.distribute.ReduceOp.SUM, (gradients, sums)
            )
        sums = Sums.unpack(sums, self.metric_names)
        task = batch["task"][0] if learner.objective.task_lengths else None
        stats = self._update_fn(gradients, sums, step, task)
        if learner.memory:
            learner.memory.write(new_memory)
        return stats, sums.tokens

    def _compute(self, batch, memory, step, replica):
        """(gradients of the loss sum, packed `Sums`, new memory or ())."""
        steps = self._learner.split.accumulation_steps
        seed = fold_seed(self._seed, step, replica)  # int32 [2]
        if steps == 1:
            return self._micro_batch(batch, memory, seed)
        whole = tf.nest.map_structure(
            lambda x: tf.reshape(
                x, [steps, sizes(x)[0] // steps, *sizes(x)[1:]]
            ),
            (batch, memory),
        )  # [steps, b / steps, ...]

        def run(i):
            rows = tf.nest.map_structure(lambda x: x[i], whole)
            return self._micro_batch(*rows, fold_micro_batch(seed, i))

        gradients, sums, new = run(0)
        kept = tf.nest.map_structure(
            lambda x: tf.TensorArray(
                x.dtype, steps, element_shape=x.shape
            ).write(0, x),
            new,
        )

        def add(i, total, kept):
            *more, new = run(i)
            total = tf.nest.map_structure(_plus, total, tuple(more))
            kept = tf.nest.map_structure(
                lambda array, x: array.write(i, x), kept, new
            )
            return i + 1, total, kept

        active = steps
        if self._warmup:
            length = batch["input_ids"].shape[-1]
            active = self._warmup.micro_batches(step, length)
        _, (gradients, sums), kept = tf.while_loop(
            lambda i, *_: i < active,
            add,
            (1, (gradients, sums), kept),
            parallel_iterations=1,
        )
        new_memory = tf.nest.map_structure(lambda a: _join(a.stack()), kept)
        return gradients, sums, new_memory

    def _differentiate_by_length(self, batch, memory, seed):
        return static_lengths.by_length(
            self._learner.objective,
            batch,
            lambda b: self._differentiate(b, memory, seed),
            self._jit_compile,
        )

    def _differentiate(self, batch, memory, seed):
        learner = self._learner
        if memory:
            memory = reset_rows(memory, batch["reset_memory"])
        variables = learner.optimizer.trained
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            for variable in variables:
                tape.watch(variable)
            output = learner.objective.loss(
                learner.model, batch, memory or None, training=True, seed=seed
            )
            loss = output.loss_sum
            if learner.loss_scale is not None:
                loss = learner.loss_scale.scale_loss(loss)
        gradients = tape.gradient(
            loss,
            variables,
            unconnected_gradients=tf.UnconnectedGradients.ZERO,
        )
        # Embedding rows that are looked up twice must count once in the norm.
        gradients = [
            tf.cast(tf.convert_to_tensor(g), tf.float32) for g in gradients
        ]
        check_metrics(learner.objective, output)
        tokens = tf.cast(tf.size(batch["input_ids"]), tf.float32)
        sums = Sums(output.loss_sum, output.weight_sum, tokens, output.metrics)
        return gradients, sums.pack(), output.new_memory if memory else ()

    def _update(self, gradients, sums, step, task):
        """Divides, clips and applies as one factor; float32 [columns + 1].

        Behind the columns is the weight of the step.
        """
        weight = tf.maximum(sums.weight, 1e-9)
        scale = 1.0 / weight
        optimizer = self._learner.optimizer
        loss_scale = self._learner.loss_scale
        limit = optimizer.options.clip
        if loss_scale is None:
            factor, norm = clip_factor(gradients, limit, scale)
            squares = optimizer.apply(gradients, step, factor, task)
        else:
            scale *= loss_scale.inverse()
            factor, norm = clip_factor(gradients, limit, scale)
            squares = loss_scale.apply(
                optimizer, gradients, norm, step, factor, task
            )
        optimizer.step.assign_add(1)
        stats = [
            sums.loss / weight,
            optimizer.schedule(step),
            norm,
            tf.sqrt(squares),
        ]
        for name in self.metric_names:
            total, count = sums.metrics[name]
            stats.append(total / tf.maximum(count, 1e-9))
        return tf.stack([*stats, sums.weight])  # [columns + 1]


def fold_seed(seed: int, step: tf.Tensor, replica: tf.Tensor) -> tf.Tensor:
    """int32 [2], another one for every (seed, step, replica)."""
    start = tf.constant([seed, 0x584C], tf.int32)
    folded = tf.random.experimental.stateless_fold_in(
        start, tf.cast(step, tf.int32)
    )
    return tf.random.experimental.stateless_fold_in(folded, replica)


def fold_micro_batch(seed: tf.Tensor, number: int | tf.Tensor) -> tf.Tensor:
    """int32 [2] for one accumulation step."""
    return tf.random.experimental.stateless_fold_in(
        seed, tf.cast(number, tf.int32) + 1
    )


def _join(x: tf.Tensor) -> tf.Tensor:
    """[steps, rows, ...] -> [steps * rows, ...]."""
    return tf.reshape(x, [-1, *x.shape[2:]])


def _plus(total: tf.Tensor, more: tf.Tensor) -> tf.Tensor:
    """Their sum, apart from the sums that `more` itself is made of.

    TensorFlow's graph optimizer joins sums of several gradients with this one
    and then holds the result in a temporary variable whose name is not its own
    in nested loops: "AlreadyExistsError" at run time.
    """
    return total + tf.ensure_shape(more, more.shape)
