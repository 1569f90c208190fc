"""AdamW with explicit groups, and the original's Adam.

Why not a ready optimizer: the original's AdamW corrects no bias and its Adam
adds epsilon to the uncorrected root, rates are per variable, decay is
decoupled and scaled with them, and the slots must be saved under names that do
not depend on the order of variables. Each replica updates its own copy of a
variable with the same aggregated gradient, so no replica waits for another.
"""

import functools
import math

import tensorflow as tf

from common.references import resolve
from modeling.ops import fused as fusion
from training.optim.averages import WeightAverages, local_copy
from training.optim.schedules import Schedule
from training.optim.variable_groups import Group
from training.run_options import OPTIMIZERS, OptimizerOptions

# Elements of a variable whose update may need no arrays of its size.
LARGE = 2**23


class AdamW:
    """Adam with decoupled decay; with `weight_decay=0` bias-corrected Adam.

    decay:     m, v as usual;  w -= lr * mult * (m / (sqrt(v) + eps) + wd * w)
    no decay:  w -= lr * mult * sqrt(1 - b2^t) / (1 - b1^t) * m / (sqrt(v) + eps)

    Variables of one of several tasks (`Group.task`) rest while it is the turn of
    another one: weights, slots, decay and t, which counts their own updates.
    Averages of the weights go on: they are over the steps of the run.

    Create it inside the strategy's scope: it makes two slots per variable,
    float32, and the step. `state` is what a `tf.train.Checkpoint` saves.
    `variables` and `groups` are by canonical name, frozen ones included.
    """

    def __init__(
        self,
        options: OptimizerOptions,
        schedule: Schedule,
        variables: dict[str, tf.Variable],
        groups: dict[str, Group],
    ):
        self.options = options
        self.schedule = schedule
        self._names = [n for n in variables if not groups[n].frozen]
        self._groups = [groups[n] for n in self._names]
        self._variables = {n: variables[n] for n in self._names}
        self.step = tf.Variable(
            0,
            dtype=tf.int64,
            trainable=False,
            name="global_step",
        )
        self.m = {n: _slot(v) for n, v in self._variables.items()}
        self.v = {n: _slot(v) for n, v in self._variables.items()}
        self.averages = WeightAverages(options, schedule, self._variables)
        self.state = tf.Module(name="adamw")
        self.state.step = self.step
        self.state.m = dict(self.m)
        self.state.v = dict(self.v)
        self.state.ema = dict(self.averages.by_name)
        if self.averages.by_name:
            self.state.mean_begin = self.averages.mean_begin
        # Updates made so far for each task; None = there is one.
        self.turns = None
        tasks = {g.task for g in self._groups} - {None}
        if tasks:
            self.turns = tf.Variable(
                tf.zeros([max(tasks) + 1], tf.int64),
                trainable=False,
                name="turns",
            )
            self.state.turns = self.turns
        if self.averages.trigger:
            self.state.trigger = self.averages.trigger.state

    @property
    def trained(self) -> list[tf.Variable]:
        """The variables that get a gradient, in the order of `apply`."""
        return list(self._variables.values())

    def apply(
        self,
        gradients: list[tf.Tensor],
        step: tf.Tensor,
        factor: tf.Tensor | float = 1.0,
        task: tf.Tensor | None = None,
        updates: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """Updates weights and slots, not the step; the update's sum of squares.

        Args:
          gradients: dense, in the order of `trained`.
          step: int64 scalar, steps of the run so far: it gives the rate.
          factor: of `clipping`; the gradients are multiplied by it.
          task: int32 scalar, whose turn it is; None with one task only.
          updates: int64 scalar, updates made so far, which bias corrections
            count; None = `step`, no step was left out.
        """
        rate = self.schedule(step)
        factor = tf.convert_to_tensor(factor, tf.float32)
        rows: dict[int | None, list] = {}
        for g, name, group in zip(
            gradients, self._names, self._groups, strict=True
        ):
            rows.setdefault(group.task, []).append((g, name, group))

        def update(number: int | None, count: tf.Tensor) -> list[tf.Tensor]:
            bias = self.bias_terms(count)
            return [
                self.update(*row, factor, rate, bias)
                for row in rows.get(number, ())
            ]

        squares = update(None, step if updates is None else updates)
        if self.turns is not None:
            squares.append(self._take_turn(update, task))
        self.averages.move(step)
        return tf.add_n(squares)

    def _take_turn(self, update, task):
        """Updates what belongs to `task`; the squares of the difference."""
        counts = self.turns.read_value()
        size = counts.shape[0]

        def turn(number: int) -> tf.Tensor:
            return tf.add_n(update(number, counts[number]))

        squares = tf.switch_case(
            task, [functools.partial(turn, i) for i in range(size)]
        )
        self.turns.assign(counts + tf.one_hot(task, size, dtype=tf.int64))
        return squares

    def bias_terms(self, step: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """What corrects the bias of the averages, for all variables at once.

        `step` counts their updates so far. One float32 scalar here.
        """
        o = self.options
        correction = tf.constant(1.0)
        if not o.weight_decay:
            t = tf.cast(step + 1, tf.float32)
            correction = tf.sqrt(1.0 - o.beta2**t) / (1.0 - o.beta1**t)
        return (correction,)

    def update(
        self,
        g: tf.Tensor,
        name: str,
        group: Group,
        factor: tf.Tensor,
        rate: tf.Tensor,
        bias: tuple[tf.Tensor, ...],
    ) -> tf.Tensor:
        """Updates one variable and its slots; the squares of the difference.

        `factor` and `rate` are before the group's; `bias` is of `bias_terms`.
        """
        o = self.options
        slots = (self._variables[name], self.m[name], self.v[name])
        return _adamw(
            *map(local_copy, slots),
            g,
            # The compatibility style scales after clipping, as the
            # original.
            times(factor, group.gradient_multiplier),
            times(rate, group.lr_multiplier),
            *bias,
            beta1=o.beta1,
            beta2=o.beta2,
            epsilon=o.adam_epsilon,
            decay=o.weight_decay if group.decayed else 0.0,
        )


def times(x: tf.Tensor, multiplier: float) -> tf.Tensor:
    """`x * multiplier`; a multiplier of 1 is no operation of the graph."""
    return x if multiplier == 1.0 else x * multiplier


def build_optimizer(options: OptimizerOptions, *parts) -> AdamW:
    """The optimizer of `options.optimizer`; arguments as `AdamW`'s.

    Another kind is its class and a row of `training.run_options.OPTIMIZERS`.
    """
    return resolve(OPTIMIZERS[options.optimizer])(options, *parts)


def _adamw(w, m, v, g, factor, rate, correction, beta1, beta2, epsilon, decay):
    """Updates three variables where they lie; the squares of the difference.

    New tensors in their place would be as many as weights and slots, at other
    addresses after every step: the allocator's memory grew by a tenth. One
    program for all three makes two arrays of their size, as the old weights
    must outlive the new ones: a large variable has three programs, which need
    none, and the same bits.
    """
    betas = {"beta1": beta1, "beta2": beta2}
    rest = {"epsilon": epsilon, "decay": decay}
    if math.prod(w.shape) < LARGE:
        return _at_once(w, m, v, g, factor, rate, correction, **betas, **rest)
    _moments(m, v, g, factor, **betas)
    squares = _squares(w, m, v, rate, correction, **rest)
    _move(w, m, v, rate, correction, **rest)
    return squares


def _new_moments(m, v, g, factor, beta1, beta2):
    g *= factor
    new_m = beta1 * m + (1.0 - beta1) * g
    new_v = beta2 * v + (1.0 - beta2) * tf.square(g)
    return new_m, new_v


def _difference(w, new_m, new_v, rate, correction, epsilon, decay):
    update = correction * new_m / (tf.sqrt(new_v) + epsilon)
    if decay:
        update += decay * w
    update *= rate
    return update


@fusion.compiled
def _at_once(
    w, m, v, g, factor, rate, correction, beta1, beta2, epsilon, decay
):
    new_m, new_v = _new_moments(m, v, g, factor, beta1, beta2)
    update = _difference(w, new_m, new_v, rate, correction, epsilon, decay)
    m.assign(new_m)
    v.assign(new_v)
    w.assign(w - update)
    return tf.reduce_sum(tf.square(update))


@fusion.compiled
def _moments(m, v, g, factor, beta1, beta2):
    new_m, new_v = _new_moments(m, v, g, factor, beta1, beta2)
    m.assign(new_m)
    v.assign(new_v)


@fusion.compiled
def _squares(w, m, v, rate, correction, epsilon, decay):
    update = _difference(w, m, v, rate, correction, epsilon, decay)
    return tf.reduce_sum(tf.square(update))


@fusion.compiled
def _move(w, m, v, rate, correction, epsilon, decay):
    w.assign(w - _difference(w, m, v, rate, correction, epsilon, decay))


def _slot(variable: tf.Variable) -> tf.Variable:
    return tf.Variable(
        tf.zeros(variable.shape, tf.float32), trainable=False, name="slot"
    )
