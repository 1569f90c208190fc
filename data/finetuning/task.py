"""A task as one object: what it reads, features, metrics, files, task.json.

Each kind of task is a class in `data/finetuning/NAME/task.py`, which says these
things from top to bottom; what all kinds share is here. Whoever trains and
evaluates (`training.finetuning.driver`) needs nothing else of a task.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np

from common.contract.symbols import CLS_LAST, MANY_UNKNOWN
from common.contract.task_spec import TaskSpec
from common.errors import UserError
from data.finetuning import ensembles, task_settings
from data.finetuning import examples as task_examples
from data.finetuning.examples import BadRows
from data.finetuning.features import batches as finetune_batches
from data.finetuning.features import cache as finetune_cache
from data.finetuning.features import pipeline as finetune_pipeline
from data.finetuning.features import table as finetune_table
from data.finetuning.features import tokens as task_tokens
from data.finetuning.features.table import FeatureTable, balanced_weights
from data.finetuning.options import FeatureOptions
from data.finetuning.tables import table_files
from data.text import opening
from training.finetuning.options import BALANCED, FinetuneOptions

Outputs = dict[str, np.ndarray]
# What a split is read for.
TRAIN, EVAL, PREDICT = "train", "eval", "predict"
# Heads whose rows or tokens have one class each.
BY_CLASS = ("classification", "token_classification")
# Of heads that others trained; ours have them at their defaults.
KEPT_OPTIONS = ("independent", "use_proj")


@dataclasses.dataclass(frozen=True)
class Split:
    """A part of a task's data."""

    name: str
    examples: Any
    table: FeatureTable
    # what the rows of the table are cut from, where texts are long
    windows: Any = None
    # an evaluation of it finds the task's threshold
    finds_threshold: bool = False


class Task:
    """Base of the kinds of tasks.

    A subclass has `read`, `metrics`, `write`, `write_report`, `lengths` and
    `spec`, and overrides what else is its own.
    """

    main_metric = "accuracy"  # picks the best checkpoint
    # Turns a numpy batch into the task's own arrays, where it has any.
    expand: Callable[[dict], dict] | None = None
    # Columns of the table that the model is given; None = all.
    eval_columns: Sequence[str] | None = None
    predict_columns: Sequence[str] = ()

    def __init__(
        self,
        data,
        features: FeatureOptions,
        options: FinetuneOptions,
        trained: TaskSpec | None = None,
    ):
        if options.pooling == "original" and features.length_buckets:
            raise UserError(
                "--pooling=original counts padding, which --length_buckets "
                "leaves out: give one of them"
            )
        if options.pack and features.length_buckets:
            raise UserError(
                "--pack leaves padding out, of which --length_buckets leaves "
                "less: give one of them"
            )
        self.data, self.features, self.options = data, features, options
        self.trained = trained
        self.tokenizer = task_tokens.open_tokenizer(
            features.spiece_model_file, features.text
        )
        if options.do_export:
            opening.check_graph(self.tokenizer)
        self.buckets = finetune_batches.bucket_lengths(
            features.length_buckets, features.row_length
        )
        # splits by what is done with them; see `load`
        self.train: Split | None = None
        self.evals: dict[str, Split] = {}
        self.predicts: dict[str, Split] = {}
        # hash of the dev file of the training, where a threshold is found on
        # one and the training named one
        self.dev_data: str | None = None
        # of the null odds, or of several labels; None = not known
        self.threshold: float | None = None
        self._loaded: dict[Any, Split] = {}

    # -- Read --

    def load(self) -> Self:
        """Reads and tokenizes the splits that are needed."""
        options = self.options
        if options.do_train:
            self.train = self.read(TRAIN, TRAIN)
        evaluates = options.do_eval or options.run.eval_every
        for name in self.eval_names() if evaluates else ():
            self.evals[name] = self.read(name, EVAL)
        for name in self.predict_names() if options.do_predict else ():
            self.predicts[name] = self.read(name, PREDICT)
        return self

    def read(self, name: str, use: str) -> Split:
        """A split, for one of `TRAIN`, `EVAL`, `PREDICT`; says what it holds."""
        raise NotImplementedError

    def eval_names(self) -> Sequence[str]:
        """Labelled splits."""
        return ("dev",)

    def predict_names(self) -> Sequence[str]:
        """Splits to predict."""
        return ("test",)

    def training_part(self, examples: Sequence) -> list:
        """What `--train_examples` leaves of the training examples."""
        seed = self.options.run.strategy.seed
        return task_examples.some_of(
            examples, self.options.train_examples, seed
        )

    def loaded_key(self, name: str, use: str) -> tuple[str, int]:
        """What `_loaded` knows a split by: training may use a part of it."""
        return name, self.options.train_examples if use == TRAIN else 0

    def say_read(
        self, what: str, table: FeatureTable, hit: bool, bad: BadRows
    ) -> None:
        """Says what a split holds."""
        length = self.features.row_length
        cut = int((table.lengths() >= length).sum())
        print(
            f"{what}; {cut} fill {length} tokens"
            + ("; features from the cache" if hit else "")
        )
        self.say_unknown(what, table)
        if summary := bad.summary():
            print(summary)

    def say_unknown(self, what: str, table: FeatureTable) -> None:
        """Warns of texts that the vocabulary does not have."""
        count = np.count_nonzero(table.token_ids == self.tokenizer.symbols.unk)
        unknown = count / max(1, len(table.token_ids))
        if unknown > MANY_UNKNOWN:
            print(
                f"warning: {what}: {unknown:.1%} of the tokens are <unk>: the "
                "vocabulary lacks characters of these texts; begin with a model "
                "of their language"
            )

    # -- Features and batches --

    def cached_table(
        self,
        name: str,
        key: dict,
        texts: Sequence[tuple[str, ...]],
        build: Callable[[list], FeatureTable],
    ) -> tuple[FeatureTable, bool]:
        """Features of texts, and whether they came from the cache.

        The key is what the features depend on besides tokenizer and length;
        `build` makes them of tokenized texts.
        """
        key = key | {
            "spiece": self.tokenizer.sha256,
            "text": self.tokenizer.settings.as_dict(),
            "max_seq_length": self.features.row_length,
        }
        if self.features.layout != CLS_LAST:  # older files are of this one
            key["layout"] = self.features.layout

        def make() -> dict[str, np.ndarray]:
            tokenized = task_tokens.encode_groups(
                texts,
                self.features.spiece_model_file,
                self.tokenizer.settings,
                self.features.num_workers,
            )
            return finetune_table.to_arrays(build(tokenized))

        arrays, hit = finetune_cache.cached(
            self.features.cache_dir, name, key, make
        )
        return finetune_table.from_arrays(arrays), hit

    def batches(
        self,
        split: Split,
        use: str,
        mixture: finetune_batches.Mixture | None = None,
    ):
        """`input_fn(params)` of a split: endless in training, else once."""
        columns = {EVAL: self.eval_columns, PREDICT: self.predict_columns}
        return finetune_pipeline.make_input_fn(
            split.table,
            self.features.row_length,
            use == TRAIN,
            self.options.run.strategy.seed,
            self.buckets,
            columns.get(use),
            self.expand,
            self.features.static_shapes,
            mixture,
        )

    # -- Metrics --

    @property
    def metric_names(self) -> Sequence[str]:
        """What `metrics` gives that may pick the best checkpoint."""
        return (self.main_metric,)

    @property
    def best_metric(self) -> str:
        """What picks the best checkpoint in this run."""
        return self.options.best_metric or self.main_metric

    def metrics(
        self, split: Split, outputs: Outputs, labels: Outputs
    ) -> dict[str, float]:
        """Name -> value of a model's outputs and labels, in input order."""
        raise NotImplementedError

    def part_metrics(
        self, split: Split, outputs: Outputs, part: np.ndarray
    ) -> dict[str, float]:
        """`metrics` of the examples with these indices."""
        raise NotImplementedError

    def lengths(self, split: Split) -> np.ndarray:
        """Characters of each example's passage, int [examples]."""
        raise NotImplementedError

    def collect(self, split: Split, outputs: Outputs) -> dict:
        """What members of an ensemble share, where their rows may differ."""
        return outputs

    def combine(self, members: list[dict], weights: list[float]) -> dict:
        """What several models `collect` as one model's outputs."""
        return ensembles.combine(self.spec().head, members, weights)

    def outputs_of_first(self, split: Split, outputs: Outputs) -> Outputs:
        """Stands for the outputs of a split: the first rows' again and again."""
        count = split.table.num_examples
        return {k: v[np.arange(count) % len(v)] for k, v in outputs.items()}

    # -- Thresholds --

    def find_dev_data(self, path: str | None) -> None:
        """Settles `dev_data`; `path`: the dev file that this run names."""
        if self.options.do_train:
            self.dev_data = table_files.hash_content(path) if path else None
        elif self.trained is not None:
            known = self.trained.data_options
            self.dev_data = known.get(task_settings.DEV_DATA)

    def finds_threshold_on(self, path: str) -> bool:
        """Whether a file is the dev file of the training, by its content.

        A threshold that is found on another file is chosen by the labels that
        it is judged with, and would be taken for the model's own.
        """
        if self.dev_data is None:
            return False
        return table_files.hash_content(path) == self.dev_data

    def say_judged(self, path: str, without: str) -> None:
        """Says that a file finds no threshold, and which one it has."""
        kept = "kept" if self.threshold is not None else "not known"
        used = without if self.threshold is None else f"{self.threshold:.5g}"
        print(
            f"note: {path} is not the dev file of the training: the threshold "
            f"is {kept} ({used}); a run with --do_train and the dev file finds "
            "one"
        )

    def calibrate(
        self, split: Split, outputs: Outputs, labels: Outputs
    ) -> dict:
        """Finds the threshold on a split that `finds_threshold`: data options.

        task.json and the export keep it.
        """
        return {}

    # -- Write --

    def write(self, split: Split, outputs: Outputs, folder: str) -> list[str]:
        """Writes predictions; the paths."""
        raise NotImplementedError

    def write_report(
        self, split: Split, outputs: Outputs, folder: str
    ) -> list[str]:
        """Writes what an evaluation found; the paths."""
        raise NotImplementedError

    # -- What the model is and what its run may not change --

    def spec(self) -> TaskSpec:
        """task.json of this task."""
        raise NotImplementedError

    def make_spec(self, kind: str, **values) -> TaskSpec:
        """`task_settings.make_spec` of this task's options and vocabulary."""
        return task_settings.make_spec(
            kind,
            (self.features, self.options, self.data),
            text=self.tokenizer.settings,
            spiece_sha256=self.tokenizer.sha256,
            **values,
        )

    def kept_head_options(self) -> dict:
        """Options of a trained head that no flag gives."""
        if self.trained is None or self.options.do_train:
            return {}
        known = self.trained.head_options
        return {name: known[name] for name in KEPT_OPTIONS if name in known}

    def export_options(self) -> dict:
        """`data_options` of the export that task.json does not get."""
        return {}

    def objective_options(self) -> dict:
        """Keywords of the objective besides the head's options."""
        features = self.features
        return {
            "static_lengths": self.buckets if features.static_shapes else (),
            "segments": features.segment_recurrence,
            "segment_len": features.max_seq_length,
        } | self.loss_options()

    def loss_options(self) -> dict:
        """What the options change of the loss; {} for nothing.

        Raises UserError: the head's loss has no such thing, or another number
        of classes.
        """
        options, spec, changes = self.options, self.spec(), {}
        if self.train is None:
            return changes
        if options.label_smoothing:
            if spec.head not in (*BY_CLASS, "multiple_choice"):
                raise UserError(
                    f"--label_smoothing is for classes, not for {spec.head}"
                )
            changes["label_smoothing"] = options.label_smoothing
        if options.class_weights:
            if spec.head not in BY_CLASS:
                raise UserError(
                    "--class_weights is for classes and tags, not for "
                    f"{spec.head}"
                )
            weights = options.class_weights
            if weights == (BALANCED,):
                table = self.train.table
                weights = balanced_weights(table, len(spec.labels))
            if len(weights) != len(spec.labels):
                raise UserError(
                    f"--class_weights: wanted {len(spec.labels)}, one for each "
                    f"of {', '.join(spec.labels)}, received {len(weights)}"
                )
            changes["class_weights"] = list(weights)
        return changes

    def digest(self, split: Split) -> str:
        """Hash of a split's examples, labels among them."""
        raise NotImplementedError

    def must_match(self) -> dict:
        """What a resumed run may not change; a subclass adds its own."""
        spec, features = self.spec(), self.features
        return {
            "train_data": self.digest(self.train) if self.train else "",
            "spiece_sha256": spec.spiece_sha256,
            "text_settings": spec.text.as_dict(),
            "max_seq_length": spec.max_seq_length,
            "length_buckets": list(self.buckets),
            "segment_recurrence": features.segment_recurrence,
            "class_weights": [],
            "label_smoothing": 0.0,
        } | self.loss_options()

    def should_match(self) -> dict:
        """The same of evaluations: `best/` is kept by the first split's."""
        first = next(iter(self.evals.values()), None)
        return {"dev_data": self.digest(first)} if first else {}
