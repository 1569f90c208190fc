"""What the jobs of all fine-tuning commands share."""

import dataclasses
from collections.abc import Callable

import numpy as np

from common.errors import UserError
from data.finetuning import ensembles, table_files, task_settings, thresholds
from data.finetuning.table import FeatureTable
from data.finetuning.task import TaskBase
from data.task_spec import TaskSpec
from modeling.checkpoints.weights import name_in
from training.finetuning.options import BALANCED
from training.finetuning.sources import read_spec

Outputs = dict[str, np.ndarray]
# Of heads that others trained; ours have them at their defaults.
KEPT_OPTIONS = ("independent", "use_proj")


@dataclasses.dataclass(frozen=True)
class EvalSplit:
    """A labelled split.

    Attributes:
      input_fn: every example once.
      metrics: outputs and labels in input order -> name -> value.
      write: outputs, folder -> paths that were written; or None.
      calibrate: outputs, labels -> `data_options` found, which the folder's
        task.json and the export keep (a threshold); called before `write`.
      collect: outputs -> what members of an ensemble share (answers by text,
        where their rows differ); None = the outputs.
      lengths: int [examples], characters of each one's passage.
      part_metrics: outputs, indices of examples -> `metrics` of these alone.
    """

    input_fn: Callable
    metrics: Callable[[Outputs, Outputs], dict[str, float]]
    write: Callable[[Outputs, str], list[str]] | None = None
    calibrate: Callable[[Outputs, Outputs], dict] | None = None
    collect: Callable[[Outputs], Outputs] | None = None
    lengths: np.ndarray | None = None
    part_metrics: Callable[[Outputs, np.ndarray], dict] | None = None


@dataclasses.dataclass(frozen=True)
class PredictSplit:
    """A split to predict: `write(outputs, folder)` returns the paths."""

    input_fn: Callable
    write: Callable[[Outputs, str], list[str]]
    collect: Callable[[Outputs], Outputs] | None = None


@dataclasses.dataclass(frozen=True)
class Job:
    """A task as `run` needs it.

    Attributes:
      spec: written to `model_dir` as task.json.
      spiece_path: copied beside it.
      vocab_size: of that file.
      main_metric: picks the best checkpoint.
      metric_names: what `evals` give that may pick it.
      train_input_fn: endless batches; None without training data.
      train_rows: examples of an epoch.
      evals, predicts: split name -> split.
      must_match: what a resumed run may not change.
      objective_options: further keywords of `build_objective`.
      export_options: `data_options` of the export that task.json does not get.
      combine: outputs of several models, their weights -> outputs.
      predict_with: takes the threshold that predictions are written with,
        where no flag gives one; None = none is known.
    """

    spec: TaskSpec
    spiece_path: str
    vocab_size: int
    main_metric: str
    metric_names: tuple[str, ...] = ()
    train_input_fn: Callable | None = None
    train_rows: int = 0
    evals: dict[str, EvalSplit] = dataclasses.field(default_factory=dict)
    predicts: dict[str, PredictSplit] = dataclasses.field(default_factory=dict)
    must_match: dict = dataclasses.field(default_factory=dict)
    objective_options: dict = dataclasses.field(default_factory=dict)
    export_options: dict = dataclasses.field(default_factory=dict)
    combine: Callable = ensembles.combine
    predict_with: Callable[[float | None], None] | None = None


def with_data_options(job: Job, found: dict) -> Job:
    """The job with more that its task.json says."""
    data_options = job.spec.data_options | found
    spec = dataclasses.replace(job.spec, data_options=data_options)
    return dataclasses.replace(job, spec=spec)


def with_kept_threshold(job: Job, earlier: TaskSpec | None) -> Job:
    """The job with the threshold that an evaluation found in its folder.

    The dev file that this run names comes before the one of the folder.

    Args:
      job: trains in the folder, or finds that it is trained already.
      earlier: task.json of that folder, of the same task.
    """
    known = earlier.data_options if earlier else {}
    found = thresholds.of(earlier)
    name = known.get(thresholds.WEIGHTS, "") if found else ""
    spec = thresholds.replace(job.spec, found, name)
    dev_data = task_settings.DEV_DATA
    if spec.data_options.get(dev_data) is None and known.get(dev_data):
        options = spec.data_options | {dev_data: known[dev_data]}
        spec = dataclasses.replace(spec, data_options=options)
    return dataclasses.replace(job, spec=spec)


def with_threshold_of(
    job: Job, folder: str, path: str, say: Callable[[str], None]
) -> Job:
    """The job with the threshold of the weights that it reads, if one is known.

    Args:
      job: reads the weights.
      folder: of the model that the weights are of; task.json is there.
      path: prefix of the weights.
      say: takes a line where the folder has one of other weights.
    """
    earlier = read_spec(folder)
    found, lines = thresholds.for_weights(earlier, name_in(folder, path))
    if not job.export_options:  # a flag gives one
        for line in lines:
            say(line)
        if job.predict_with:
            job.predict_with(next(iter(found.values()), None))
    spec = thresholds.replace(job.spec, found)
    return dataclasses.replace(job, spec=spec)


class TaskJob(TaskBase):
    """Base of `ClassifierJob`, `SquadJob`, `RaceJob`: a task's data as a job.

    A subclass has `spec()`, what `task.json` says, and `build()`, which reads
    the splits that are needed and gives them to `make_job`.

    Attributes:
      dev_data: hash of the dev file of the training, where a threshold is
        found on one and the training named one.
      threshold: of the null odds, or of several labels; None = not known.
    """

    dev_data: str | None = None
    threshold: float | None = None

    def find_dev_data(self, path: str | None, trained: TaskSpec | None) -> None:
        """Settles `dev_data`.

        Args:
          path: the dev file that this run names, or None.
          trained: task.json of the trained model, where this run trains none.

        Raises:
          UserError: the file cannot be read.
        """
        if self.options.do_train:
            self.dev_data = table_files.hash_content(path) if path else None
        elif trained is not None:
            known = trained.data_options
            self.dev_data = known.get(task_settings.DEV_DATA)

    def finds_threshold(self, path: str) -> bool:
        """Whether a file is the dev file of the training, by its content.

        A threshold that is found on another file is chosen by the labels that
        it is judged with, and would be taken for the model's own.
        """
        if self.dev_data is None:
            return False
        return table_files.hash_content(path) == self.dev_data

    def say_judged(self, path: str, without: str) -> None:
        """Says that a file finds no threshold, and which one it has.

        Args:
          path: the file.
          without: what is done where none is known.
        """
        kept = "kept" if self.threshold is not None else "not known"
        used = without if self.threshold is None else f"{self.threshold:.5g}"
        print(
            f"note: {path} is not the dev file of the training: the threshold "
            f"is {kept} ({used}); a run with --do_train and the dev file finds "
            "one"
        )

    def make_job(
        self,
        main_metric: str,
        train_input_fn,
        evals: dict[str, EvalSplit],
        predicts: dict[str, PredictSplit],
        must_match: dict,
        export_options: dict | None = None,
        train_table: FeatureTable | None = None,
        metric_names: tuple[str, ...] = (),
    ) -> Job:
        """The job of this task.

        Args:
          main_metric: chooses the best checkpoint.
          train_input_fn: of the training split, or None.
          evals: the labelled splits.
          predicts: the splits to predict.
          must_match: what a resumed run cannot change besides the vocabulary
            and the lengths.
          export_options, metric_names: see `Job`.
          train_table: of the training split.
        """
        spec, features = self.spec(), self.features
        loss = self.loss_options(spec, train_table)
        return Job(
            spec=spec,
            spiece_path=features.spiece_model_file,
            vocab_size=self.tokenizer.vocab_size,
            main_metric=self.options.best_metric or main_metric,
            metric_names=metric_names or (main_metric,),
            train_input_fn=train_input_fn,
            train_rows=train_table.num_examples if train_table else 0,
            combine=self.combine,
            predict_with=self.predict_with,
            evals=evals,
            predicts=predicts,
            export_options=export_options or {},
            objective_options={
                "static_lengths": self.buckets
                if features.static_shapes
                else (),
                "segments": features.segment_recurrence,
                "segment_len": features.max_seq_length,
            }
            | loss,
            must_match={
                "spiece_sha256": spec.spiece_sha256,
                "text_settings": spec.text.as_dict(),
                "max_seq_length": spec.max_seq_length,
                "length_buckets": list(self.buckets),
                "segment_recurrence": features.segment_recurrence,
            }
            | {"class_weights": [], "label_smoothing": 0.0}
            | loss
            | must_match,
        )

    def kept_head_options(self, trained: TaskSpec | None) -> dict:
        """Options of a trained head that no flag gives."""
        if trained is None or self.options.do_train:
            return {}
        known = trained.head_options
        return {name: known[name] for name in KEPT_OPTIONS if name in known}

    def predict_with(self, threshold: float | None) -> None:
        """Writes predictions with what an evaluation found."""
        self.threshold = threshold

    def combine(self, members: list[Outputs], weights: list[float]) -> Outputs:
        """Outputs of several models as one model's."""
        return ensembles.combine(self.spec().head, members, weights)

    def loss_options(
        self, spec: TaskSpec, train_table: FeatureTable | None
    ) -> dict:
        """What the options change of the loss; {} for nothing.

        Raises:
          UserError: the head's loss has no such thing, or another number of
            classes.
        """
        options, found = self.options, {}
        if train_table is None:
            return found
        if options.label_smoothing:
            if spec.head not in (*BY_CLASS, "multiple_choice"):
                raise UserError(
                    f"--label_smoothing is for classes, not for {spec.head}"
                )
            found["label_smoothing"] = options.label_smoothing
        if options.class_weights:
            if spec.head not in BY_CLASS:
                raise UserError(
                    "--class_weights is for classes and tags, not for "
                    f"{spec.head}"
                )
            weights = options.class_weights
            if weights == (BALANCED,):
                weights = balanced_weights(train_table, len(spec.labels))
            if len(weights) != len(spec.labels):
                raise UserError(
                    f"--class_weights: wanted {len(spec.labels)}, one for each "
                    f"of {', '.join(spec.labels)}, received {len(weights)}"
                )
            found["class_weights"] = list(weights)
        return found


# Heads whose rows or tokens have one class each.
BY_CLASS = ("classification", "token_classification")


def balanced_weights(table: FeatureTable, count: int) -> tuple[float, ...]:
    """n / (Y n_y) of each of the Y classes, so that all weigh alike.

    A class without an example has 1.
    """
    arrays = table.columns | table.token_columns
    labels = arrays["label_ids"]
    seen = np.bincount(labels[labels >= 0], minlength=count)
    weights = seen.sum() / (count * np.maximum(seen, 1))
    return tuple(np.where(seen > 0, weights, 1.0).tolist())
