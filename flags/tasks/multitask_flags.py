"""Flags of run_multitask.py."""

import os

from absl import flags
from absl.testing import flagsaver

from common.contract import task_spec
from common.contract.task_spec import TaskSpec
from common.errors import UserError
from data.finetuning.options import ClassifierDataOptions, FeatureOptions
from flags import flag_values
from flags.tasks import finetune_flags, tuning_flags
from flags.training import common_flags
from training.finetuning.options import (
    JOINT,
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

    Returns `options`, `settings` (`MultiTaskOptions`), `data` and `features` by
    task, `flags` for run.json. Raises UserError: a value is out of range, or a
    name is of no task of these.
    """
    with flagsaver.flagsaver(**changes):
        names = tasks or _names()
        steps = by_name("task_steps", FLAGS.task_steps, int)
        if len(names) == 1 and names[0] in steps:
            FLAGS.train_steps = steps[names[0]]
        lengths = by_name("task_lengths", FLAGS.task_lengths, int)
        weights = by_name("task_weights", FLAGS.task_weights, float)
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
    if FLAGS.schedule and FLAGS.task_name:
        raise UserError("give one of --task_name and --schedule")
    return JOINT if FLAGS.schedule else tuple(map(str.lower, FLAGS.task_name))


def _options() -> FinetuneOptions:
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
        name, _, value = part.rpartition(":")
        try:
            values_by_name[name.lower()] = kind(value)
        except ValueError:
            values_by_name[name.lower()] = 0
        if not name or not 0 < values_by_name[name.lower()] < float("inf"):
            raise UserError(
                f"--{flag}: wanted NAME:NUMBER with a number above 0, received "
                f"{part!r}"
            )
    return values_by_name
