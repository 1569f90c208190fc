"""What the jobs of all fine-tuning commands share."""

import dataclasses
from collections.abc import Callable

import numpy as np

from data.finetuning.task import TaskBase
from data.task_spec import TaskSpec

Outputs = dict[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class EvalSplit:
    """A labelled split.

    Attributes:
      input_fn: every example once.
      metrics: outputs and labels in input order -> name -> value.
      write: outputs, folder -> paths that were written; or None.
      calibrate: outputs -> `data_options` found on them, which the folder's
        task.json and the export keep (a threshold); called before `write`.
    """

    input_fn: Callable
    metrics: Callable[[Outputs, Outputs], dict[str, float]]
    write: Callable[[Outputs, str], list[str]] | None = None
    calibrate: Callable[[Outputs], dict] | None = None


@dataclasses.dataclass(frozen=True)
class PredictSplit:
    """A split to predict: `write(outputs, folder)` returns the paths."""

    input_fn: Callable
    write: Callable[[Outputs, str], list[str]]


@dataclasses.dataclass(frozen=True)
class Job:
    """A task as `run` needs it.

    Attributes:
      spec: written to `model_dir` as task.json.
      spiece_path: copied beside it.
      vocab_size: of that file.
      main_metric: picks the best checkpoint; larger is better.
      train_input_fn: endless batches; None without training data.
      evals, predicts: split name -> split.
      must_match: what a resumed run may not change.
      objective_options: further keywords of `build_objective`.
      export_options: `data_options` of the export that task.json does not get.
    """

    spec: TaskSpec
    spiece_path: str
    vocab_size: int
    main_metric: str
    train_input_fn: Callable | None = None
    evals: dict[str, EvalSplit] = dataclasses.field(default_factory=dict)
    predicts: dict[str, PredictSplit] = dataclasses.field(default_factory=dict)
    must_match: dict = dataclasses.field(default_factory=dict)
    objective_options: dict = dataclasses.field(default_factory=dict)
    export_options: dict = dataclasses.field(default_factory=dict)


class TaskJob(TaskBase):
    """Base of `ClassifierJob`, `SquadJob`, `RaceJob`: a task's data as a job.

    A subclass has `spec()`, what `task.json` says, and `build()`, which reads
    the splits that are needed and gives them to `make_job`.
    """

    def make_job(
        self,
        main_metric: str,
        train_input_fn,
        evals: dict[str, EvalSplit],
        predicts: dict[str, PredictSplit],
        must_match: dict,
        export_options: dict | None = None,
    ) -> Job:
        """The job of this task.

        Args:
          main_metric: chooses the best checkpoint.
          train_input_fn: of the training split, or None.
          evals: the labelled splits.
          predicts: the splits to predict.
          must_match: what a resumed run cannot change besides the vocabulary
            and the lengths.
          export_options: see `Job`.
        """
        spec, features = self.spec(), self.features
        return Job(
            spec=spec,
            spiece_path=features.spiece_model_file,
            vocab_size=self.tokenizer.vocab_size,
            main_metric=main_metric,
            train_input_fn=train_input_fn,
            evals=evals,
            predicts=predicts,
            export_options=export_options or {},
            objective_options={
                "static_lengths": self.buckets
                if features.static_shapes
                else (),
                "segments": features.segment_recurrence,
                "segment_len": features.max_seq_length,
            },
            must_match={
                "spiece_sha256": spec.spiece_sha256,
                "text_settings": spec.text.as_dict(),
                "max_seq_length": spec.max_seq_length,
                "length_buckets": list(self.buckets),
                "segment_recurrence": features.segment_recurrence,
            }
            | must_match,
        )
