"""Folders, lines and files of what evaluations and predictions find."""

import contextlib
import math
import os
from collections.abc import Callable, Mapping

import numpy as np
import tensorflow as tf

from common import files, locks
from common.errors import UserError
from data.finetuning.task import Task
from training import strategy
from training.finetuning.options import LOWER_IS_BETTER, FinetuneOptions


def writes(options: FinetuneOptions) -> bool:
    """Whether this process writes files and lines; one of a run does."""
    return strategy.may_write(options.run.strategy)


def silent(line: str) -> None:
    """`say` of the processes that do not write."""


@contextlib.contextmanager
def held(options: FinetuneOptions):
    """The folders that are written are this process' own.

    An evaluation beside a training is none of its business: it writes its own
    files. Exports hold their folder themselves.
    """
    with contextlib.ExitStack() as stack:
        if writes(options):
            if options.do_train:
                stack.enter_context(locks.held(options.run.model_dir))
            if options.do_eval or options.do_predict:
                stack.enter_context(locks.held(prediction_folder(options)))
        yield


def prediction_folder(options: FinetuneOptions) -> str:
    """Where predictions and reports go."""
    return options.predict_dir or os.path.join(
        options.run.model_dir, "predictions"
    )


def require_finite(name: str, outputs: Mapping[str, np.ndarray]) -> None:
    """Raises UserError: a model says of a split what is no number.

    Classes, tags and answers would be made of it all the same: the first ones.
    """
    for value in outputs.values():
        if not np.isfinite(value).all():
            row = int(np.argwhere(~np.isfinite(value))[0][0])
            raise UserError(
                f"the model's output on {name} is not finite: wanted numbers, "
                f"found {value[row].min()} in row {row}; check the checkpoint, "
                "or give --precision=float32"
            )


def metric_fn(task: Task, name: str):
    """Metrics of an evaluation's result on a split."""

    def of_result(result) -> dict[str, float]:
        require_finite(name, result.predictions)
        split = task.evals[name]
        return task.metrics(split, result.predictions, result.labels)

    return of_result


def report(
    task: Task, options, name: str, metrics, outputs, say, checkpoint: str = ""
) -> dict[str, float]:
    """Says and writes what an evaluation of a split found.

    The checkpoint is the name of the weights in the folder; "" = an ensemble's.
    """
    metrics = {k: float(v) for k, v in metrics.items()}
    if not writes(options):
        return metrics
    say(f"{task.spec().task_name} {name}: {shown(metrics)}")
    folder = prediction_folder(options)
    tf.io.gfile.makedirs(folder)
    path = os.path.join(options.run.model_dir, f"eval_{name}.json")
    about = {"checkpoint": checkpoint} if checkpoint else {}
    for line in _better_before(path, task.best_metric, metrics, checkpoint):
        say(line)
    files.write_json(path, metrics | about)
    split = task.evals[name]
    if options.slice_by_length:
        rows = by_quartile(
            task.lengths(split),
            lambda part: task.part_metrics(split, outputs, part),
        )
        for line in quartile_lines(rows):
            say(line)
        path = os.path.join(
            options.run.model_dir, f"eval_{name}_by_length.json"
        )
        files.write_json(path, {"unit": "characters", "quartiles": rows})
        say(f"wrote {path}")
    for path in task.write_report(split, outputs, folder):
        say(f"wrote {path}")
    return metrics


def _better_before(path: str, metric: str, found: dict, name: str) -> list[str]:
    """A line where the file holds a better number of other weights."""
    if not files.exists(path):
        return []
    earlier = files.read_json_object(path, "move it away")
    old, whose = earlier.get(metric), earlier.get("checkpoint", name)
    new, sign = found.get(metric), -1.0 if metric in LOWER_IS_BETTER else 1.0
    if whose == name or new is None or type(old) not in (int, float):
        return []
    if math.isnan(old) or sign * old <= sign * new:
        return []
    return [
        f"note: {path} had {metric} {old:.5g} of {whose}, and has now "
        f"{new:.5g} of {name or 'an ensemble'}"
    ]


def shown(metrics: dict[str, float]) -> str:
    """Metrics in a line."""
    return "  ".join(f"{k} {v:.5g}" for k, v in sorted(metrics.items()))


def write_predictions(task: Task, options, name: str, outputs, say) -> None:
    """Writes what was predicted of a split, where this process writes."""
    if not writes(options):
        return
    folder = prediction_folder(options)
    tf.io.gfile.makedirs(folder)
    for path in task.write(task.predicts[name], outputs, folder):
        say(f"wrote {path}")


QUARTILES = 4


def by_quartile(
    lengths: np.ndarray, evaluate: Callable[[np.ndarray], dict[str, float]]
) -> list[dict[str, float]]:
    """Metrics of the examples of each quartile, the shortest first.

    Equal lengths are in one quartile, so quartiles need not be of equal size,
    and one may be missing. `evaluate` is given indices of examples; its metrics
    come after `quartile` (from 1), `shortest`, `longest`, `examples`.
    """
    shares = np.arange(1, QUARTILES) / QUARTILES
    # Lengths that occur, so that no quartile is cut between two equal ones.
    edges = np.quantile(lengths, shares, method="lower")
    of = np.searchsorted(edges, lengths, side="left")
    rows = []
    for number in range(QUARTILES):
        inside = np.flatnonzero(of == number)
        if len(inside):
            sizes = lengths[inside]
            rows.append(
                {
                    "quartile": number + 1,
                    "shortest": int(sizes.min()),
                    "longest": int(sizes.max()),
                    "examples": len(inside),
                }
                | {k: float(v) for k, v in evaluate(inside).items()}
            )
    return rows


def quartile_lines(rows: list[dict[str, float]]) -> list[str]:
    """A line per quartile."""
    about = ("quartile", "shortest", "longest", "examples")
    return [
        f"  {row['shortest']}..{row['longest']} characters, {row['examples']} "
        "examples: "
        + "  ".join(f"{k} {v:.5g}" for k, v in row.items() if k not in about)
        for row in rows
    ]
