"""Document ranking, stage by stage: what run_ranking.py does.

    MODEL_DIR/candidates.run             candidates
              folds.json                 queries of each fold
              embeddings/                vectors of queries and documents
              features/, rankers/        kernel features, fitted rankers
              runs/*.run                 a run per system, seed and fold
              results.json, per_query.tsv, kernels.png

Each stage reads what the one before it wrote, and keeps its results under a
hash of all that they depend on: the same command started again goes on where it
was stopped and ends with the same files.
"""

import dataclasses
import os
from collections.abc import Callable, Sequence

from common import files
from common.checks import follows
from common.errors import UserError
from data.finetuning.ranking import candidates, metrics
from data.finetuning.ranking import collection as collections
from data.finetuning.ranking.folds import Fold
from data.finetuning.ranking.options import RankingDataOptions
from data.finetuning.ranking.runs import Run
from data.text.opening import AnyTokenizer
from modeling.checkpoints import restore as checkpoints
from modeling.heads.kernel_pooling import Kernels
from modeling.models.half_precision import to_export
from training import strategy
from training.finetuning import sources
from training.finetuning.options import FinetuneOptions
from training.finetuning.ranking import (
    cross_encoder,
    folded,
    knrm,
    results,
    trained_table,
    vectors,
)
from training.finetuning.ranking.cross_encoder import CrossEncoder
from training.finetuning.ranking.folded import System, Task
from training.finetuning.ranking.kernel_features import FeatureMaker, Features
from training.finetuning.ranking.knrm import Learned
from training.finetuning.ranking.options import (
    ENCODER,
    LENGTHS,
    RANDOM,
    WORD,
    RankerOptions,
)
from training.finetuning.ranking.results import Evaluation
from training.finetuning.ranking.shards import Embedder, Shard, Vectors
from training.finetuning.ranking.units import Units

CONTROL = "knrm (random vectors)"
ORACLE = "oracle"


@dataclasses.dataclass(frozen=True)
class RankingOptions:
    """A whole run: what is ranked, how, and what the other commands share."""

    data: RankingDataOptions
    ranker: RankerOptions
    finetune: FinetuneOptions
    max_seq_length: int = 512  # T of the cross-encoder's rows

    def __post_init__(self) -> None:
        if self.finetune.do_predict:
            raise UserError(
                "--do_predict: runs of all rankers are written by --do_eval; "
                "to rank new queries, export a ranker (--do_export)"
            )
        spread = self.finetune.run.strategy.distribution_strategy
        if spread == "multi_worker_mirrored":
            raise UserError(
                f"--distribution_strategy={spread}: run_ranking.py runs in one "
                "process, its stages are files that one process writes; leave "
                "it out"
            )
        able = ("knrm", "cross_encoder")
        exports, ranker = self.finetune.do_export, self.ranker.ranker
        follows(exports, "do_export", "ranker", able, ranker)
        if self.finetune.do_export and (
            self.ranker.unit == WORD or self.ranker.stopwords
        ):
            raise UserError(
                "--do_export is of rankers that read pieces: leave "
                "--unit=word and --stopwords out"
            )


class RankingRun:
    """One run; the tokenizer is None for rankers that read no pieces."""

    def __init__(
        self,
        options: RankingOptions,
        tokenizer: AnyTokenizer | None = None,
        say: Callable[[str], None] = print,
        export: Callable[..., str] | None = None,
    ):
        self.options, self.tokenizer, self.say = options, tokenizer, say
        self.export = export
        self.folder = options.finetune.run.model_dir
        files.make_directory(self.folder)
        strategy.setup(options.finetune.run.strategy)
        self.collection = collections.load(options.data, say)
        self.candidates = collections.find_candidates(
            self.collection, self._path("candidates.run"), say
        )
        self.units = None
        if tokenizer is not None and options.ranker.ranker != "cross_encoder":
            left_out = (
                options.data.stop_words if options.ranker.stopwords else ""
            )
            self.units = Units(
                tokenizer,
                options.ranker.unit,
                candidates.read_stop_words(left_out),
            )
        ranker = options.ranker
        self.kernels = Kernels.even(ranker.bins, ranker.exact_sigma)
        self.systems: dict[str, System] = {}

    def _path(self, *names: str) -> str:
        return os.path.join(self.folder, *names)

    def __call__(self) -> dict:
        """Ranks, judges and writes; the content of results.json.

        {} when no evaluation was asked for.
        """
        name = "candidates" if self.options.data.run_file else "bm25"
        self.systems[name] = System([self.candidates])
        tested = set(self.candidates)
        ranker = self.options.ranker.ranker
        if ranker == "bm25":
            if self.options.data.run_file:
                index = collections.build_index(self.collection)
                again = index.rescore(self.collection.topics, self.candidates)
                self.systems["bm25"] = System([again])
        else:
            folds = collections.find_folds(
                self.collection, self.candidates, self._path("folds.json")
            )
            tested = {q for fold in folds for q in fold.test}
            self.rank(ranker, folds)
        if not self.options.finetune.do_eval:
            return {}
        return self.evaluate(tested, name)

    def rank(self, ranker: str, folds: Sequence[Fold]) -> None:
        """Fits the rankers that learn and adds their systems."""
        if self.tokenizer is None:
            raise ValueError("`tokenizer` must be given for this ranker")
        self.settle_lengths()
        task = self.task(folds)
        if ranker == "cross_encoder":
            cross = self.cross_encoder(task)
            self.systems[ranker] = cross.fit()
            if self.options.finetune.do_export:
                cross.write_export(self.export)
            return
        maker = self.maker(self.open_vectors())
        features = self.features(maker)
        self.systems["cosine"] = folded.cosine(task, features, self.say)
        if ranker == "cosine":
            return
        mu = self.kernels.mu
        for line in results.kernel_lines(features, mu):
            self.say(line)
        results.draw_kernels(self._path("kernels.png"), features, mu)
        fitted = folded.knrm(task, features, "knrm", self.say)
        self.systems["knrm"] = fitted
        if self.options.finetune.do_export:
            self.write_export(maker, fitted.learned[0])
        options = self.options.ranker
        if options.control and options.vectors != RANDOM:
            control = self.features(self.maker(self.table(RANDOM)))
            system = folded.knrm(task, control, "control", self.say)
            self.systems[CONTROL] = system
        if options.train_embeddings:
            self.train_table(task, maker.vectors)

    def settle_lengths(self) -> None:
        """Without --max_doc_length, --max_query_length: as much as is read.

        Results are found again under the numbers, whoever said them.
        """
        options, lengths = self.options.ranker, {}
        for name, longest in LENGTHS.items():
            if getattr(options, name) is not None:
                continue
            room, why = self._room(name)
            lengths[name] = longest if room is None else min(longest, room)
            if lengths[name] < longest:
                what = "documents" if name == "max_doc_length" else "queries"
                self.say(
                    f"{what:<12} their first {lengths[name]} pieces, for which "
                    f"{why} (--{name})"
                )
        self.options = dataclasses.replace(
            self.options, ranker=dataclasses.replace(options, **lengths)
        )

    def _room(self, name: str) -> tuple[int | None, str]:
        """(pieces that a length of `LENGTHS` may have, what has the room).

        None = any number. Rows of the cross-encoder have a document beside
        the query; it has what they leave.
        """
        options, length = self.options.ranker, self.options.max_seq_length
        if options.ranker == "cross_encoder":
            fits = length > LENGTHS[name] + cross_encoder.ROW_SYMBOLS
            if name == "max_doc_length" or fits:
                return None, ""
            half = max(1, (length - cross_encoder.ROW_SYMBOLS) // 2)
            return half, f"rows of --max_seq_length={length} have room"
        if options.vectors != ENCODER:
            return None, ""
        config = sources.find_config(
            self.options.finetune, self.tokenizer.vocab_size
        )
        return vectors.places(config), "this encoder has positions"

    def train_table(self, task: Task, source: Vectors) -> None:
        """K-NRM whose vectors are trained, from the source's table on."""
        if isinstance(source, vectors.EncoderVectors):
            source = vectors.word_table(source)
        maker = self.maker(source)
        shards, queries = self.embed(source)
        start = maker.make(shards, queries, self.candidates, self.say)
        texts = trained_table.read(maker, shards, queries)
        trainer = trained_table.TableTrainer(
            task, texts, start, self.kernels, self.say
        )
        self.systems[trained_table.NAME] = trainer.fit()

    def cross_encoder(self, task: Task) -> CrossEncoder:
        """The cross-encoder of this run's options."""
        options, length = self.options.ranker, self.options.max_seq_length
        room = options.row_length(length)
        if options.passage_stride:
            room += options.passage_stride * (options.max_passages - 1)
        texts = cross_encoder.read_texts(
            task, self.tokenizer, options.max_query_length, room
        )
        return CrossEncoder(
            task, self.options.finetune, length, self.tokenizer, texts, self.say
        )

    def task(self, folds: Sequence[Fold]) -> Task:
        """What rankers are fitted on."""
        return Task(
            self.collection,
            self.candidates,
            folds,
            self.options.ranker,
            self._path("rankers"),
            self.options.finetune.do_train,
            self.options.finetune.run.strategy.seed,
        )

    def open_vectors(self) -> Vectors:
        """The vectors that --vectors asks for."""
        options, finetune = self.options.ranker, self.options.finetune
        if options.vectors != ENCODER:
            return self.table(options.vectors)
        config = sources.find_config(finetune, self.tokenizer.vocab_size)
        start, checkpoint = finetune.run.init_checkpoint, None
        if start:
            checkpoint = checkpoints.resolve(
                start,
                finetune.run.checkpoint_choice,
                finetune.run.init_part,
            )
            self.say(checkpoint.line)
        self.say(
            f"encoder      {config.model_type}, {config.n_layer} layers, "
            f"{config.d_model} wide, "
            + (f"weights of {start}" if start else "random weights")
        )
        return vectors.open_encoder(
            config,
            checkpoint,
            self.tokenizer.symbols,
            options,
            finetune.run.strategy.seed,
        )

    def table(self, name: str) -> Vectors:
        """Random vectors, or those of a file."""
        return vectors.open_table(
            name,
            self.tokenizer.vocab_size,
            self.options.ranker.vector_size,
            self.options.finetune.run.strategy.seed,
        )

    def maker(self, source: Vectors) -> FeatureMaker:
        """What makes the kernel features of vectors."""
        options = self.options.ranker
        return FeatureMaker(
            source,
            self.kernels,
            options.center,
            options.idf,
            self._path("features"),
            self.units,
        )

    def write_export(self, maker: FeatureMaker, learned: Learned) -> None:
        """A SavedModel of the first fold's K-NRM of the first seed."""
        options = self.options.ranker
        folder = self.options.finetune.export_dir or self._path("export")
        with to_export(
            lambda: knrm.build_model(learned, maker, options),
            lambda model: knrm.fill_model(model, learned, maker, options),
            self.options.finetune.export_precision,
        ) as model:
            model_type = model.config.model_type
            spec = knrm.export_spec(self.tokenizer, options, model_type)
            version = self.export(folder, model, spec, self.tokenizer.path)
        self.say(f"exported {version}, the ranker of fold 0")

    def features(self, maker: FeatureMaker) -> Features:
        """Embeds the candidates' documents and the queries; their features."""
        shards, queries = self.embed(maker.vectors)
        return maker.make(shards, queries, self.candidates, self.say)

    def embed(self, source: Vectors) -> tuple[list[Shard], Shard]:
        """Vectors of the candidates' documents and of the queries."""
        options = self.options.ranker
        embedder = Embedder(
            source,
            self.tokenizer,
            self._path("embeddings"),
            options.embedding_dtype,
        )
        wanted = {d for scores in self.candidates.values() for d in scores}
        shards = embedder.documents(
            self.collection.documents(wanted),
            wanted,
            options.max_doc_length,
            self.say,
        )
        names = list(self.candidates)
        texts = [self.collection.topics[q] for q in names]
        queries = embedder.shard(
            "queries", names, texts, options.max_query_length
        )
        return shards, queries

    def evaluate(self, tested: set[str], base: str) -> dict:
        """Writes every system's runs, prints and writes the table."""
        queries = [
            q
            for q in self.collection.topics
            if q in tested or q not in self.candidates
        ]
        run: Run = {q: r for q, r in self.candidates.items() if q in tested}
        self.systems[base] = System([run])
        self.systems[ORACLE] = System(
            [metrics.oracle(self.collection.qrels, run)]
        )
        seed = self.options.finetune.run.strategy.seed
        evaluation = Evaluation(self.collection, queries, seed)
        for name, system in self.systems.items():
            results.write_runs(self._path("runs"), name, system)
            evaluation.add(name, system)
        bases = [base, *(n for n in ("bm25", CONTROL) if n in self.systems)]
        return evaluation.report(
            self.folder, list(dict.fromkeys(bases)), self.say
        )
