"""All checkpoints of a folder, evaluated: `--eval_all_ckpt`."""

import dataclasses
import os

from common import files
from common.errors import UserError
from modeling.checkpoints import folder as checkpoint_folder
from modeling.checkpoints import restore as checkpoints
from modeling.checkpoints import weights
from modeling.ops import graph_memory
from training import loop, strategy
from training.finetuning.job import EvalSplit
from training.finetuning.options import LOWER_IS_BETTER
from training.reporting.evaluation import EvalResult


def metric_fn(split: EvalSplit):
    """The split's metrics of an evaluation's result."""

    def of_result(result: EvalResult) -> dict[str, float]:
        return split.metrics(result.predictions, result.labels)

    return of_result


def best_of_all(job, objective, options, say) -> checkpoints.Source:
    """The checkpoint of `model_dir`, `best/` among them, with the best metric."""
    home = options.run.model_dir
    kept = weights.read_best(home)
    paths = [kept.path] if kept else []
    paths += checkpoint_folder.whole(home, loop.checkpoints.PREFIX)
    if not paths:
        raise UserError(f"{home} holds no checkpoint")
    name, split = next(iter(job.evals.items()))
    scores = {}
    for path in paths:
        with graph_memory.released():
            result = loop.evaluate(
                objective,
                split.input_fn,
                options.run,
                metric_fn(split),
                path,
            )
        scores[path] = result.metrics[job.main_metric]
        say(
            f"{weights.name_in(home, path)} {name}: {job.main_metric} "
            f"{scores[path]:.5g}"
        )
    # The first of equals; NaN is worse than any number.
    sign = -1.0 if job.main_metric in LOWER_IS_BETTER else 1.0
    best = max(paths, key=lambda p: (scores[p] == scores[p], sign * scores[p]))
    why = f"the best of {len(paths)} by {job.main_metric}, {scores[best]:.5g}"
    found = {
        "metric": job.main_metric,
        "split": name,
        "scores": {weights.name_in(home, p): s for p, s in scores.items()},
        "best": weights.name_in(home, best),
    }
    if strategy.may_write(options.run.strategy):
        files.write_json(os.path.join(home, "eval_all_ckpt.json"), found)
    return dataclasses.replace(checkpoints.resolve(best), why=why)
