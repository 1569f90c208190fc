"""Going on with other options than a checkpoint was made with.

Some options add objects to a run: averages of the weights, a loss scale, slots
of layers that are no longer frozen. What can begin at the step that was
reached begins there, and a note says so; what cannot stops with one line.
"""

from typing import Any

import tensorflow as tf

from common.errors import UserError
from modeling.checkpoints import native
from training.step.learner import Learner

_LATE = ("turns", "trigger", "mean_begin")
_PARTS = ("step", "m", "v", "ema", *_LATE)
_SCALE_PARTS = ("scale", "good_steps")  # of versions that counted no more
_LOSSES = "optimizer/trigger/losses/.ATTRIBUTES/VARIABLE_VALUE"
_MORE = "the run continues, but not bit for bit as before"
_NO_MORE = "no step is left to train"


def saved_items(learner: Learner) -> dict[str, Any]:
    """What a checkpoint of a run holds, by attribute."""
    items = {"model": learner.model, "optimizer": learner.optimizer.state}
    if learner.loss_scale:
        items["loss_scale"] = learner.loss_scale.state
    return items


class Late:
    """What a checkpoint has nothing of, though the run has it now.

    `items`: `saved_items` without it. Raises UserError: it cannot begin late.
    """

    def __init__(self, path: str, learner: Learner, train_steps: int):
        self._learner, self._train_steps = learner, train_steps
        self._path = path
        there = native.names_below(path, "optimizer")
        self._check_slots(native.names_below(path, "optimizer", "m"))
        self._check_trigger()
        optimizer = learner.optimizer
        state = optimizer.state
        late = set()
        if optimizer.averages.by_name and not native.names_below(
            path, *native.AVERAGES
        ):
            late.add("ema")
        for name in _LATE:
            if hasattr(state, name) and name not in there:
                late.add(name)
        self.items = saved_items(learner)
        if late:
            kept = tf.Module(name="adamw")
            for name in _PARTS:
                if hasattr(state, name) and name not in late:
                    setattr(kept, name, getattr(state, name))
            self.items["optimizer"] = kept
        if "loss_scale" in self.items:
            there = native.names_below(path, "loss_scale")
            if not there:
                del self.items["loss_scale"]
                late.add("loss_scale")
            elif "skipped" not in there:
                kept = tf.Module(name="loss_scale")
                for name in _SCALE_PARTS:
                    setattr(kept, name, getattr(learner.loss_scale, name))
                self.items["loss_scale"] = kept
                late.add("skipped")
        self._late = late

    def _check_slots(self, there: set[str]) -> None:
        missing = sorted(set(self._learner.optimizer.m) - there)
        if there and missing:
            raise UserError(
                f"{self._path} holds no slots of the optimizer for "
                f"{len(missing)} variables ({missing[0]}, ...), which were "
                "frozen: wanted the --freeze_layers that it was made with"
            )

    def _check_trigger(self) -> None:
        """Losses of so many evaluations are no losses of more, or of fewer."""
        reader = native.open_reader(self._path)
        losses = reader.get_variable_to_shape_map().get(_LOSSES)
        wanted = self._learner.optimizer.options.average_trigger
        if wanted and losses and losses[0] != wanted + 1:
            found = losses[0] - 1
            raise UserError(
                f"--average_trigger={wanted}: {self._path} has the losses that "
                f"--average_trigger={found} looks at: give {found}"
            )

    def begin(self) -> list[str]:
        """After the restore: what is late begins now; notes.

        Raises UserError: a mean over the last steps would lack some of them, or
        hold others.
        """
        optimizer, late = self._learner.optimizer, self._late
        step = int(optimizer.step.numpy())
        notes = []
        # Versions that did not save where a mean begins are believed.
        if not late & {"ema", "mean_begin"}:
            self._check_mean(step)
        if "ema" in late:
            self._check_last(step)
            self._begin_averages()
            notes.append(f"the averages of the weights begin at step {step}")
        elif "trigger" in late:
            self._begin_averages()  # those there are of another rule
            notes.append(f"the trigger of the averages begins at step {step}")
        if "turns" in late:
            # As before each task had a count of its own.
            optimizer.turns.assign(step + tf.zeros_like(optimizer.turns))
            notes.append(f"updates of each task are counted from step {step}")
        if "skipped" in late:
            notes.append(f"steps with an overflow are counted from step {step}")
        if "loss_scale" in late:
            notes.append(f"the loss scale begins at step {step}")
        more = _MORE if step < self._train_steps else _NO_MORE
        return [f"note: {note}: {more}" for note in notes]

    def _check_mean(self, step: int) -> None:
        """The mean of a checkpoint is over the updates that this run wants."""
        averages = self._learner.optimizer.averages
        last = self._learner.optimizer.options.average_last
        wanted = averages.first_of_last
        there = int(averages.mean_begin.numpy())
        if last and there != wanted < step:
            left, ways = self._train_steps - step, []
            if there < step:
                ways = [f"{self._train_steps - there} to go on with its mean"]
            ways += [f"{left} or less"] * (left > 0)
            more = ", or ".join([*ways, "a larger --train_steps"])
            raise UserError(
                f"--average_last={last}: {self._path} is of step {step}; wanted "
                f"a mean of the weights of the steps after {wanted}, found "
                f"{f'of those after {there}' if there < step else 'none'}: give "
                f"--average_last={more}"
            )
        if last and there != wanted:
            self._begin_averages()  # those there are of another rule
            averages.mean_begin.assign(wanted)

    def _begin_averages(self) -> None:
        """Until a mean begins, and a moving one where it does: the weights."""
        for name, average in self._learner.optimizer.averages.by_name.items():
            average.assign(self._learner.variables[name])

    def _check_last(self, step: int) -> None:
        last = self._learner.optimizer.options.average_last
        left = self._train_steps - step
        if last > left:
            raise UserError(
                f"--average_last={last}: {self._path} is of step {step} and "
                f"holds no averages, and {left} steps are left: give "
                f"--average_last={left} or less, or a larger --train_steps"
            )
