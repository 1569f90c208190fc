"""`--ensemble`: trained models that answer together.

Members are evaluated one after the other, each with its own vocabulary,
lengths and architecture; their answers are joined by the task
(`Task.combine`), and metrics and files are made of them as of one model's.
"""

import dataclasses
import os

from common import files
from common.contract.task_spec import TaskSpec
from common.errors import UserError
from data.finetuning import ensembles, thresholds
from data.finetuning.task import EVAL, PREDICT, Task
from modeling.checkpoints.restore import Source
from modeling.checkpoints.weights import name_in
from modeling.ops import graph_memory
from training import loop, strategy
from training.finetuning import driver, outputs
from training.finetuning.options import LOWER_IS_BETTER, FinetuneOptions
from training.finetuning.sources import weights_of

FILE_NAME = "ensemble.json"


@dataclasses.dataclass(frozen=True)
class Member:
    """A trained model."""

    folder: str
    task: Task  # as the flags and the folder have it, loaded
    options: FinetuneOptions
    # those of the folder, once they are looked for
    weights: Source | None = None
    # task.json with the threshold of these weights, likewise
    spec: TaskSpec | None = None


@dataclasses.dataclass(frozen=True)
class _Answers:
    """What a member says: split -> outputs; labels of the evaluated splits."""

    evals: dict[str, dict]
    labels: dict[str, dict]
    predicts: dict[str, dict]


def run(
    members: list[Member], options: FinetuneOptions, say
) -> dict[str, dict[str, float]]:
    """Evaluates and predicts with all members, or with those that help.

    `run.model_dir` gets the files, as of one model. Split -> metrics of the
    ensemble. Raises UserError: members of different tasks, or what a member's
    run raises.
    """
    if not outputs.writes(options):
        say = outputs.silent
    check_alike(members)
    check_rows(members)
    with outputs.held(options):
        _earlier(options)  # a damaged one is refused before hours of answers
        answers: list[_Answers] = []
        members = [_with_weights(member, say) for member in members]
        for member in members:
            with graph_memory.released():  # before the next has its own
                answers.append(_ask(member, say))
        weights = list(options.ensemble_weights) or [1.0] * len(members)
        chosen, scores = list(range(len(members))), []
        if options.greedy:
            chosen, scores = _choose(members, answers, say)
        results = _answer_together(
            [members[i] for i in chosen],
            [answers[i] for i in chosen],
            [weights[i] for i in chosen],
            scores,
            options,
            say,
        )
    strategy.wait_for_all(options.run.strategy)
    return results


def check_alike(members: list[Member]) -> None:
    """Members answer one question with the same labels, row by row.

    Raises UserError with the first that does not.
    """
    first = members[0]
    for member in members[1:]:
        theirs = _identity(first.task)
        for name, value in _identity(member.task).items():
            if theirs[name] != value:
                raise UserError(
                    f"--ensemble: {member.folder}: {name}: wanted "
                    f"{theirs[name]} as of {first.folder}, found {value}"
                )


def check_rows(members: list[Member]) -> None:
    """Members read as many rows of each split: answers are joined by row.

    One may take empty texts, or a header, for rows. Raises UserError with the
    first member that reads others.
    """
    first = members[0]
    for member in members[1:]:
        for kind in ("evals", "predicts"):
            theirs = getattr(first.task, kind)
            for name, split in getattr(member.task, kind).items():
                if name not in theirs:
                    continue
                wanted = len(first.task.lengths(theirs[name]))
                found = len(member.task.lengths(split))
                if wanted != found:
                    raise UserError(
                        f"--ensemble: {member.folder}: wanted the {wanted} "
                        f"rows of {name} that {first.folder} reads, found "
                        f"{found}: correct the bad rows, or leave a member out"
                    )


def _identity(task: Task) -> dict:
    """What members must have in common, by name."""
    spec = task.spec()
    identity = {n: getattr(spec, n) for n in ("task_name", "head", "labels")}
    # Answers are joined by row: rows that are held out must be the same ones.
    # Another split has no such rows, and a seed of no share says nothing.
    held_out = "dev" in {*task.evals, *task.predicts}
    share = spec.data_options.get("dev_fraction", 0.0) if held_out else 0.0
    seed = spec.data_options.get("dev_seed", 0) if share else 0
    return identity | {"dev_fraction": share, "dev_seed": seed}


def _with_weights(member: Member, say) -> Member:
    """The member with its folder's weights, said, and their threshold."""
    source = weights_of(member.options)
    say(source.line)
    spec = driver.with_threshold_of(
        member.task, member.task.spec(), member.folder, source.path, say
    )
    return dataclasses.replace(member, weights=source, spec=spec)


def _ask(member: Member, say) -> _Answers:
    task, options = member.task, member.options
    objective = driver.build_objective(task, options)
    evals, labels, predicts = {}, {}, {}
    for name, split in task.evals.items() if options.do_eval else ():
        result = loop.evaluate(
            objective,
            task.batches(split, EVAL),
            options.run,
            checkpoint=member.weights,
        )
        outputs.require_finite(name, result.predictions)
        evals[name] = task.collect(split, result.predictions)
        labels[name] = result.labels
        found = _metrics(task, name, evals[name], labels[name])
        say(f"member {member.folder} {name}: {outputs.shown(found)}")
    for name, split in task.predicts.items() if options.do_predict else ():
        found = loop.predict(
            objective,
            task.batches(split, PREDICT),
            options.predict_run,
            member.weights,
        )
        outputs.require_finite(name, found)
        predicts[name] = task.collect(split, found)
    return _Answers(evals, labels, predicts)


def _metrics(task: Task, name: str, said: dict, labels: dict) -> dict:
    metrics = task.metrics(task.evals[name], said, labels)
    return {k: float(v) for k, v in metrics.items()}


def _choose(members, answers, say) -> tuple[list[int], list[float]]:
    """Members that help on the first evaluated split, and the scores."""
    task = members[0].task
    name, metric = next(iter(task.evals)), task.best_metric
    sign = -1.0 if metric in LOWER_IS_BETTER else 1.0

    def score(chosen: list[int]) -> float:
        together = task.combine(
            [answers[i].evals[name] for i in chosen], [1.0] * len(chosen)
        )
        metrics = _metrics(task, name, together, answers[0].labels[name])
        if metric not in metrics:
            raise UserError(
                f"--greedy: an ensemble has no {metric!r}: give --best_metric"
            )
        return sign * metrics[metric]

    chosen, scores = ensembles.forward_selection(len(members), score)
    for i, value in zip(chosen, scores, strict=True):
        say(f"took {members[i].folder}: {name} {metric} {sign * value:.5g}")
    return chosen, [sign * v for v in scores]


def _earlier(options: FinetuneOptions) -> dict:
    """The record of an earlier ensemble in this folder; {}: there is none.

    Raises UserError: it is no such record.
    """
    path = os.path.join(options.run.model_dir, FILE_NAME)
    if not files.exists(path):
        return {}
    record = files.read_json_object(path, "remove it")
    for name, kind in (("members", list), ("weights", list), ("found", dict)):
        if not isinstance(record.get(name), kind):
            raise UserError(
                f"{path} is damaged: `{name}` wanted a {kind.__name__}, found "
                f"{str(record.get(name))[:60]}; remove the file"
            )
    for name, value in record["found"].items():
        if not isinstance(value, int | float):
            raise UserError(
                f"{path} is damaged: `found` wanted numbers, found {name} = "
                f"{str(value)[:60]}; remove the file"
            )
    return record


def _found_before(members, weights, options, say) -> dict:
    """Thresholds that an evaluation of the same ensemble found, taken again.

    A member's was found on its own answers, so it is said where it is all that
    predictions have.
    """
    task, by_task = members[0].task, {}
    if earlier := _earlier(options):
        same = (earlier["members"], earlier["weights"]) == (
            [m.folder for m in members],
            weights,
        )
        if same and earlier.get("checkpoints") == _names(members):
            by_task = earlier["found"]
    # One that is given is for this run, and leaves what was found.
    for name in () if task.export_options() else thresholds.NAMES:
        kept = members[0].spec.data_options.get(name)
        if name in by_task:
            task.threshold = by_task[name]
        elif kept is not None and len(members) > 1 and not options.do_eval:
            say(
                f"note: {name}={kept:.5g} is of {members[0].folder} alone: "
                "--do_eval finds the ensemble's"
            )
    return by_task


def _names(members: list[Member]) -> list[str]:
    """The members' checkpoints, each as its folder calls it."""
    return [name_in(m.folder, m.weights.path) for m in members]


def _answer_together(members, answers, weights, scores, options, say):
    """Metrics and files of the members that are left."""
    task, results = members[0].task, {}
    calibrated = _found_before(members, weights, options, say)
    for name, split in task.evals.items() if options.do_eval else ():
        together = task.combine([a.evals[name] for a in answers], weights)
        labels = answers[0].labels[name]
        if split.finds_threshold:
            calibrated |= task.calibrate(split, together, labels)
        metrics = _metrics(task, name, together, labels)
        results[name] = outputs.report(
            task, options, name, metrics, together, say
        )
    for name in task.predicts if options.do_predict else ():
        together = task.combine([a.predicts[name] for a in answers], weights)
        outputs.write_predictions(task, options, name, together, say)
    if not outputs.writes(options):
        return results
    files.write_json(
        os.path.join(options.run.model_dir, FILE_NAME),
        {
            "members": [m.folder for m in members],
            "checkpoints": _names(members),
            "weights": weights,
            "scores": scores,
            "metrics": results,
            "found": calibrated,
        },
    )
    return results
