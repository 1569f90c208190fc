"""What the jobs of all fine-tuning commands share on the data's side (L2).

A task's own class (`training.finetuning.classifier.ClassifierJob`, ...) reads
its files, makes features, and names its metrics and writers; tokenizer,
buckets, feature cache and batches are here, the rest is in
`training.finetuning.job`.
"""

from collections.abc import Callable, Sequence

import numpy as np

from common.errors import UserError
from data.finetuning import batches as finetune_batches
from data.finetuning import cache as finetune_cache
from data.finetuning import examples as task_examples
from data.finetuning import pipeline as finetune_pipeline
from data.finetuning import table as finetune_table
from data.finetuning import tokens as task_tokens
from data.finetuning.examples import BadRows
from data.finetuning.options import FeatureOptions
from data.finetuning.table import FeatureTable
from data.symbols import CLS_LAST
from data.text import opening


class TaskBase:
    """Base of a task's job.

    Args:
      features: how text becomes features.
      options: what will be done; only those splits are read.
    """

    # Turns a numpy batch into the task's own arrays, where it has any.
    expand: Callable[[dict], dict] | None = None

    def __init__(self, features: FeatureOptions, options):
        if options.pooling == "original" and features.length_buckets:
            raise UserError(
                "--pooling=original counts padding, which --length_buckets "
                "leaves out: give one of them"
            )
        if getattr(options, "pack", False) and features.length_buckets:
            raise UserError(
                "--pack leaves padding out, of which --length_buckets leaves "
                "less: give one of them"
            )
        self.features = features
        self.options = options
        self.tokenizer = task_tokens.open_tokenizer(
            features.spiece_model_file, features.text
        )
        if options.do_export:
            opening.check_graph(self.tokenizer)
        self.buckets = finetune_batches.bucket_lengths(
            features.length_buckets, features.row_length
        )
        self.loaded: dict[str, tuple] = {}

    def cached_table(
        self,
        name: str,
        key: dict,
        texts: Sequence[tuple[str, ...]],
        build: Callable[[list], FeatureTable],
    ) -> tuple[FeatureTable, bool]:
        """Features of texts, and whether they came from the cache.

        Args:
          name: of the cache's file.
          key: what the features depend on besides tokenizer and length.
          texts: of every row.
          build: tokenized texts -> features.
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

    def training_part(self, examples: Sequence) -> list:
        """What `--train_examples` leaves of the training examples."""
        return task_examples.some_of(
            examples,
            self.options.train_examples,
            self.options.run.strategy.seed,
        )

    def report(
        self, what: str, table: FeatureTable, hit: bool, bad: BadRows
    ) -> None:
        """Says what a split holds."""
        length = self.features.row_length
        cut = int((table.lengths() >= length).sum())
        print(
            f"{what}; {cut} fill {length} tokens"
            + ("; features from the cache" if hit else "")
        )
        if summary := bad.summary():
            print(summary)

    def input_fn(
        self,
        table: FeatureTable,
        training: bool,
        names: Sequence[str] | None = None,
        mixture: finetune_batches.Mixture | None = None,
    ):
        """Batches of a split; `names`: columns to include, None = all."""
        return finetune_pipeline.make_input_fn(
            table,
            self.features.row_length,
            training,
            self.options.run.strategy.seed,
            self.buckets,
            names,
            self.expand,
            self.features.static_shapes,
            mixture,
        )
