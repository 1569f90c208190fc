"""Flags of run_multitask.py."""

import os

from absl import flags
from absl.testing import flagsaver

from common.contract import task_spec
from common.contract.task_spec import TaskSpec
from common.errors import UserError
from data.finetuning.options import (
    ALIASES,
    ClassifierDataOptions,
    FeatureOptions,
)
from flags import flag_values
from flags.tasks import finetune_flags, tuning_flags
from flags.training import common_flags
from training.finetuning.options import (
    JOINT,
    OTHERS,
    TASKS,
    FinetuneOptions,
    MultiTaskOptions,
)

FLAGS = flags.FLAGS


def define() -> None:
    """Registers the flags."""
    finetune_flags.define(max_seq_length=128)
    tuning_flags.define_training()
    flags.DEFINE_list(
        "task_name",
        [],
        "Tasks that are trained together, in any case: cola, sst-2, mrpc, "
        "sts-b, qqp, mnli, qnli, rte, wnli, imdb, ...",
    )
    flags.DEFINE_string(
        "data_dir",
        None,
        "GLUE's folder, with one for each task.",
        required=True,
    )
    flag_values.define(MultiTaskOptions, temperature=2.0)
    flags.DEFINE_list(
        "task_lengths",
        [],
        "NAME:TOKENS, where a task's inputs are not of --max_seq_length.",
    )
    flags.DEFINE_list(
        "task_weights", [], "NAME:NUMBER, weights of losses other than 1."
    )
    flags.DEFINE_list(
        "task_steps",
        [],
        "--schedule: NAME:STEPS of a task's own training, where they are not "
        "--train_steps.",
    )


def read(tasks: tuple[str, ...] = (), **changes) -> dict:
    """What the flags say of some tasks.

    Of a schedule without `tasks` those that are trained together; its other
    parts are read, too, so that none is refused after hours.

    Returns `options`, `settings` (`MultiTaskOptions`), `data` and `features` by
    task, `flags` for run.json. Raises UserError: a value is out of range, or a
    name is of no task of these.
    """
    with flagsaver.flagsaver(**changes):
        names, known = tasks or _names(), _all_names()
        joint = JOINT if FLAGS.schedule else known  # those with weights
        steps = _of_tasks("task_steps", FLAGS.task_steps, int, known)
        lengths = _of_tasks("task_lengths", FLAGS.task_lengths, int, known)
        weights = _of_tasks("task_weights", FLAGS.task_weights, float, joint)
        for part in (*OTHERS, *JOINT) if FLAGS.schedule and not tasks else ():
            read((part,))
        if tasks and FLAGS.schedule and names[0] in steps:
            FLAGS.train_steps, FLAGS.train_epochs = steps[names[0]], 0.0
        data, features, found_lengths = {}, {}, []
        for name in names:
            found_lengths.append(lengths.get(name) or _length(name))
            data[name] = ClassifierDataOptions(name, FLAGS.data_dir)
            with flagsaver.flagsaver(max_seq_length=found_lengths[-1]):
                features[name] = finetune_flags.features_from_flags()
            _check(features[name])
        return {
            "options": _options(),
            "settings": flag_values.build(
                MultiTaskOptions,
                tasks=names,
                lengths=tuple(found_lengths),
                weights=tuple(weights.get(name, 1.0) for name in names),
                task_steps=steps,
            ),
            "data": data,
            "features": features,
            "flags": common_flags.all_flags(),
        }


def _length(name: str) -> int:
    """T of a task that --task_lengths does not name: --max_seq_length.

    A trained model's own length counts where neither flag is given, as in the
    other commands.
    """
    if not FLAGS.do_train and not FLAGS["max_seq_length"].present:
        tasks_folder = os.path.join(FLAGS.model_dir, TASKS, name)
        folder = task_spec.find_folder(tasks_folder)
        if folder:
            return TaskSpec.read(folder).max_seq_length
    return FLAGS.max_seq_length


def _names() -> tuple[str, ...]:
    """Of the tasks that are trained together."""
    if FLAGS.schedule and FLAGS.task_name:
        raise UserError("give one of --task_name and --schedule")
    if FLAGS.task_steps and not FLAGS.schedule:
        raise UserError(
            "--task_steps is of the parts of a --schedule; tasks that are "
            "trained together have --train_steps"
        )
    return JOINT if FLAGS.schedule else _all_names()


def _all_names() -> tuple[str, ...]:
    if FLAGS.schedule:
        return (*JOINT, *OTHERS)
    names = tuple(map(str.lower, FLAGS.task_name))
    canonical_names = [_canonical(name) for name in names]
    for name in canonical_names:
        if canonical_names.count(name) > 1:
            raise UserError(f"--task_name names {name} twice")
    return names


def _of_tasks(
    flag: str, parts: list[str], kind: type, names: tuple[str, ...]
) -> dict:
    """`by_name` of a flag, under the names that the tasks are given by."""
    own_names = {_canonical(name): name for name in names}
    values = {}
    for name, value in by_name(flag, parts, kind).items():
        own_name = own_names.get(_canonical(name))
        if own_name is None:
            raise UserError(
                f"--{flag}: {name} is none of the tasks {', '.join(names)}"
            )
        if own_name in values:
            raise UserError(f"--{flag} names {own_name} twice")
        values[own_name] = value
    return values


def _canonical(name: str) -> str:
    return ALIASES.get(name, name)


def _options() -> FinetuneOptions:
    flag_values.check_followed(
        "mixing", FLAGS.mixing, {("temperature",): ("mixing_temperature",)}
    )
    trains = str(FLAGS.do_train).lower()
    # Which weights the tasks' folders have is settled behind a training.
    follows_training = {("true",): ("checkpoint_choice",)}
    flag_values.check_followed("do_train", trains, follows_training)
    if FLAGS.recipe or FLAGS.predict_ckpt or FLAGS.eval_all_ckpt:
        raise UserError(
            "run_multitask.py has no --recipe, --predict_ckpt and "
            "--eval_all_ckpt"
        )
    options = tuning_flags.training_from_flags()
    if FLAGS.schedule and not (options.do_train and options.do_eval):
        raise UserError("--schedule needs --do_train and --do_eval")
    if FLAGS.schedule and options.best_metric:
        raise UserError(
            "--schedule has no --best_metric: no name is one of all its parts; "
            f"found {options.best_metric!r}, leave it out"
        )
    if options.run.optimizer.average_trigger:
        raise UserError(
            "--average_trigger counts evaluations by their `loss`, several "
            "tasks have none in common: leave it out, or give --average_last "
            "or --ema_decay"
        )
    return options


def _check(features: FeatureOptions) -> None:
    if features.length_buckets or features.segment_recurrence:
        raise UserError(
            "run_multitask.py: give lengths by --task_lengths, not "
            "--length_buckets or --segment_recurrence"
        )


def by_name(flag: str, values: list[str], kind: type) -> dict:
    """`name:value` parts of a list flag.

    Raises UserError: another form, or a value that is no number above 0.
    """
    values_by_name = {}
    for part in values:
        name, _, text = part.rpartition(":")
        try:
            value = kind(text)
        except ValueError:
            value = kind(0)
        if not name or not 0 < value < float("inf"):
            raise UserError(
                f"--{flag}: wanted NAME:NUMBER with a number above 0, received "
                f"{part!r}"
            )
        if name.lower() in values_by_name:
            raise UserError(f"--{flag} names {name.lower()} twice")
        values_by_name[name.lower()] = value
    return values_by_name
