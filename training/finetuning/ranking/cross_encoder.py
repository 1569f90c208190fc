"""A fine-tuned cross-encoder over the folds.

Query and document are read together, `query SEP document SEP CLS`, by the
model of the regression head. Each fold and seed is a run of `training.loop` in
a folder of its own, so it resumes, evaluates and keeps its best checkpoint as
other fine-tunings do; long documents have the best score of their windows, or
are read in segments that carry memory.
"""

import dataclasses
import os
from collections.abc import Callable, Sequence

import numpy as np

from common import files
from common.contract import symbols
from common.contract.task_spec import TaskSpec
from common.errors import UserError
from common.vocabularies import vocabulary
from common.weights.weights_line import AUTO
from data.finetuning.features import batches as finetune_batches
from data.finetuning.features import cache, pair_features
from data.finetuning.features import pipeline as finetune_pipeline
from data.finetuning.features import table as finetune_table
from data.finetuning.ranking import collection as collections
from data.finetuning.ranking import features
from data.finetuning.ranking.documents import select
from data.finetuning.ranking.folds import Fold
from data.text.tokenizer import Tokenizer
from modeling.checkpoints import restore as checkpoints
from modeling.models.half_precision import to_export
from modeling.ops import graph_memory
from training import loop
from training.checkpointing.checkpoints import weights_to_read
from training.finetuning import sources
from training.finetuning.ranking.folded import (
    System,
    Task,
    fold_seed_key,
    split_run,
)
from training.finetuning.ranking.options import RankerOptions
from training.objectives import build as heads
from training.optim import tuning_rates

HEAD = "ranking"
METRIC = "ndcg"
ROW_SYMBOLS = 3  # of a row: query SEP document SEP CLS


@dataclasses.dataclass(frozen=True)
class Texts:
    """Token ids of the queries and of the candidates' documents."""

    queries: dict[str, np.ndarray]
    documents: dict[str, np.ndarray]

    def digest(self) -> str:
        """Hash of all of them."""
        return cache.hash_texts(
            [name, ids.tolist()]
            for part in (self.queries, self.documents)
            for name, ids in part.items()
        )


class CrossEncoder:
    """Trains and scores one model per fold and seed."""

    def __init__(
        self,
        task: Task,
        finetune,
        max_seq_length: int,
        tokenizer: Tokenizer,
        texts: Texts,
        say: Callable[[str], None] = print,
    ):
        self.task, self.say = task, say
        self.finetune, self.layout = sources.settle(finetune, tokenizer.path)
        self.options: RankerOptions = task.options
        self.length, self.tokenizer = max_seq_length, tokenizer
        self.width = self.options.row_length(max_seq_length)
        self.texts = texts
        marks = symbols.row_symbols(self.layout)
        if self.length <= self.options.max_query_length + marks:
            raise UserError(
                f"--max_seq_length={self.length} leaves no room for a document "
                f"beside --max_query_length={self.options.max_query_length} "
                f"and {marks} special tokens"
            )
        self.config = sources.find_config(
            finetune, tokenizer.vocab_size, tokenizer.path
        )
        if self.layout not in symbols.LAYOUTS:
            raise UserError(
                f"--ranker=cross_encoder: {self.config.model_type} reads "
                "streams, not pairs; give an encoder with CLS (xlnet, bert, "
                "...)"
            )
        self.objective = heads.build_objective(
            HEAD,
            self.config,
            segments=self.options.segment_recurrence,
            segment_len=max_seq_length,
            recompute_layers=finetune.recompute_layers,
            pack=finetune.pack,
            rank_loss=self.options.rank_loss,
            **self.head_options(),
        )
        # What counts is what the weights are, not where they lie.
        self._start, run = None, finetune.run
        if finetune.do_train:
            rate, width = run.optimizer.learning_rate, self.config.d_model
            tuning_rates.say_if_low(rate, width, self.say)
        if run.init_checkpoint:
            start = checkpoints.resolve(
                run.init_checkpoint, run.checkpoint_choice
            )
            self._start = checkpoints.content_digest(start)

    def head_options(self) -> dict:
        """Keywords of the model's head."""
        return {
            "summary_type": self.finetune.summary_type,
            "use_proj": self.finetune.use_summ_proj,
            "pooling": self.finetune.pooling,
        }

    def spec(self) -> TaskSpec:
        """task.json of each fold's folder."""
        return TaskSpec(
            task_name="ranking",
            head=HEAD,
            labels=(),
            max_seq_length=self.length,
            text=self.tokenizer.settings,
            spiece_sha256=self.tokenizer.sha256,
            head_options=self.head_options(),
            data_options={
                "max_query_length": self.options.max_query_length,
                "passage_stride": self.options.passage_stride,
                "max_passages": self.options.max_passages,
                "segment_recurrence": self.options.segment_recurrence,
                "layout": self.layout,
            },
        )

    def fit(self) -> System:
        """Every fold and seed, trained or found; their test runs."""
        return self.task.system(self._scores)

    def folder(self, number: int, seed: int) -> str:
        """Where a fold's model of a seed lies."""
        return os.path.join(
            self.finetune.run.model_dir,
            "cross_encoder",
            f"fold{number}-seed{seed}",
        )

    def _scores(self, number: int, fold: Fold, seed: int) -> np.ndarray:
        """Scores of a fold's test queries, kept once they are made."""
        key = self._key(fold, seed)
        arrays, hit = cache.cached(
            self.folder(number, seed),
            "test",
            key,
            lambda: {"scores": self._train(number, fold, seed)},
        )
        if hit:
            self.say(f"cross-encoder fold {number} seed {seed}: found")
        return arrays["scores"]

    def _key(self, fold: Fold, seed: int) -> dict:
        run = self.finetune.run
        names = (
            "rank_loss",
            "list_size",
            "passage_stride",
            "max_passages",
            "segment_recurrence",
        )
        data, strategy = self.task.collection.options, run.strategy
        key = {
            "fold": dataclasses.asdict(fold),
            "seed": seed,
            "texts": self.texts.digest(),
            "judgements": cache.hash_texts(self.task.collection.qrels.items()),
            "candidates": cache.hash_texts(self.task.run.items()),
            "config": self.config.to_dict(),
            "head": self.head_options(),
            "init_checkpoint": self._start,
            "optimizer": dataclasses.asdict(run.optimizer),
            "steps": [run.train_steps, run.train_batch_size, self._every()],
            "options": [getattr(self.options, n) for n in names],
            "length": self.length,
            "pairs": [data.unjudged, data.max_pairs_per_query, data.cutoff],
        }
        # Only where they are no defaults, so that earlier results are found.
        if strategy.seed:
            key["first_seed"] = strategy.seed + seed
        if strategy.precision != "float32":
            key["precision"] = strategy.precision
        if run.init_part:
            key["init_part"] = run.init_part
        if run.checkpoint_choice != AUTO:
            key["checkpoint_choice"] = run.checkpoint_choice
        return key | fold_seed_key(data)

    def _every(self) -> int:
        run = self.finetune.run
        return run.eval_every or max(1, run.train_steps // 4)

    @graph_memory.released()  # 25 rankers are many
    def _train(self, number: int, fold: Fold, seed: int) -> np.ndarray:
        """Scores of all test candidates, float32, in order."""
        folder = self.folder(number, seed)
        self.task.check_may_train(folder, "scores")
        files.make_directory(folder)
        spec = self.spec()
        vocabulary.copy(
            self.tokenizer.vocabulary, self.tokenizer.settings, folder
        )
        spec.write(folder)
        strategy = dataclasses.replace(
            self.finetune.run.strategy,
            seed=self.finetune.run.strategy.seed + seed,
        )
        run = self.finetune.run.replace(
            model_dir=folder,
            strategy=strategy,
            eval_every=self._every(),
            best_metric=METRIC,
        )
        dev_input, dev_rows = self._candidates(fold.dev)

        def metric(result) -> dict[str, float]:
            scores = _best_of(result.predictions["logits"], dev_rows)
            outputs = split_run(self.task.run, fold.dev, scores)
            return {METRIC: self.task.run_ndcg(outputs)}

        loop.train(
            self.objective,
            self._training_input(fold, strategy.seed),
            run,
            eval_input_fn=dev_input,
            metric_fn=metric,
            must_match={"ranking": cache.key_text(self._key(fold, seed))},
            say=self.say,
        ).or_stop()
        test_input, rows = self._candidates(fold.test)
        source = weights_to_read(run)
        self.say(source.line)
        outputs = loop.predict(self.objective, test_input, run, source)
        return _best_of(outputs["logits"], rows)

    def write_export(self, export: Callable[..., str]) -> None:
        """A SavedModel of the first fold's best weights of the first seed."""
        folder = self.folder(0, 0)
        run = self.finetune.run.replace(model_dir=folder)
        source = weights_to_read(run)
        self.say(source.line)
        target = self.finetune.export_dir or os.path.join(
            self.finetune.run.model_dir, "export"
        )
        spiece = vocabulary.find_or_refuse(folder)
        about = checkpoints.description(source)
        with to_export(
            self.objective.build_model,
            lambda model: checkpoints.restore(model, source, require="all"),
            self.finetune.export_precision,
        ) as model:
            version = export(target, model, self.spec(), spiece, weights=about)
        self.say(f"exported {version}, the ranker of fold 0")

    def _passages(self, query: str, name: str, first_only: bool):
        return features.passages(
            self.texts.queries[query],
            self.texts.documents[name],
            self.width,
            0 if first_only else self.options.passage_stride,
            self.options.max_passages,
            self.tokenizer.symbols,
            self.layout,
        )

    def _training_input(self, fold: Fold, seed: int):
        """Lists of the training queries; a document's first window."""
        examples, labels = [], []
        data = self.task.collection.options
        pairs = self.task.pairs(fold, self.task.run)
        for query in fold.train:
            names = list(self.task.run[query])
            grades = collections.grades_of(self.task.collection, query, names)
            rows = {}
            for chosen in features.lists(
                pairs[query], grades, self.options.list_size, data.fold_seed
            ):
                for i in chosen.tolist():
                    if i not in rows:
                        rows[i] = self._passages(query, names[i], True)[0]
                examples.append([rows[i] for i in chosen.tolist()])
                labels.append(grades[chosen])
        table = features.training_table(examples, labels, self.layout)
        return finetune_pipeline.make_input_fn(table, self.width, True, seed)

    def _candidates(self, queries: Sequence[str]):
        """(every window of the queries' candidates, windows of each)."""
        sequences, counts = [], []
        for query in queries:
            for name in self.task.run[query]:
                rows = self._passages(query, name, False)
                sequences += rows
                counts.append(len(rows))
        table = finetune_table.from_sequences(
            sequences, **pair_features.padding(self.layout)
        )
        buckets = ()
        # Shorter rows for shorter texts, where only time depends on it.
        if (
            self.width == self.length
            and self.finetune.pooling == "masked"
            and self.finetune.run.strategy.distribution_strategy != "tpu"
        ):
            buckets = finetune_batches.bucket_lengths("auto", self.length)
        return (
            finetune_pipeline.make_input_fn(
                table, self.width, False, buckets=buckets
            ),
            np.array(counts),
        )


def _best_of(scores: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The best window of each document, float32 [documents]."""
    starts = np.cumsum([0, *counts[:-1]])
    return np.maximum.reduceat(scores.reshape(-1), starts).astype(np.float32)


def read_texts(
    task: Task, tokenizer: Tokenizer, max_query_length: int, room: int
) -> Texts:
    """Token ids of queries and of the candidates' documents.

    A window can see at most `room` pieces of a document. Raises UserError: a
    candidate is not among the documents, or twice.
    """
    topics = task.collection.topics
    names = list(task.run)
    queries = tokenizer.encode_batch([topics[q] for q in names])
    wanted = {d for scores in task.run.values() for d in scores}
    documents = {
        document.id: np.asarray(
            tokenizer.encode(document.text)[:room], np.int32
        )
        for document in select(task.collection.documents(wanted), wanted)
    }
    cut = [np.asarray(q[:max_query_length], np.int32) for q in queries]
    return Texts(dict(zip(names, cut, strict=True)), documents)
