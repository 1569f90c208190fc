"""Flags of run_ranking.py."""

from absl import flags

from common.errors import UserError
from data.finetuning.ranking import options as data_lib
from data.finetuning.ranking.options import RankingDataOptions
from flags import finetune_flags
from training.finetuning.options import FinetuneOptions
from training.finetuning.ranking import options as ranker_lib
from training.finetuning.ranking.options import RankerOptions

FLAGS = flags.FLAGS
# Of the fine-tuning commands, without a meaning here.
_UNUSED = ("skip_bad_rows", "num_proc", "output_dir", "length_buckets")
_FILES = (
    "topics_file",
    "documents",
    "qrels_file",
    "topics_format",
    "documents_format",
    "qrels_format",
)
_DATA = (
    "dataset",
    "run_file",
    "retriever",
    "depth",
    "bm25_k1",
    "bm25_b",
    "stop_words",
    "folds",
    "folds_file",
    "unjudged",
    "max_pairs_per_query",
    "cutoff",
    "err_max_grade",
)
_RANKER = (
    "ranker",
    "seeds",
    "vectors",
    "vector_size",
    "layer",
    "center",
    "idf",
    "unit",
    "stopwords",
    "train_embeddings",
    "exact_sigma",
    "max_doc_length",
    "max_query_length",
    "embed_batch_size",
    "embedding_dtype",
    "with_candidate_score",
    "control",
    "epochs",
    "patience",
    "rank_loss",
    "list_size",
    "passage_stride",
    "max_passages",
    "segment_recurrence",
)


def define() -> None:
    """Registers the flags."""
    finetune_flags.define(max_seq_length=512)
    FLAGS.set_default("do_train", True)
    FLAGS.set_default("do_eval", True)
    _define_files()
    _define_protocol()
    _define_ranker()
    _define_vectors()
    _define_knrm()
    _define_cross_encoder()


def _define_files() -> None:
    data = RankingDataOptions
    flags.DEFINE_enum(
        "collection",
        None,
        list(data_lib.COLLECTIONS),
        "A test set in --data_dir: its files and their forms.",
    )
    flags.DEFINE_string("data_dir", "", "The folder of --collection.")
    flags.DEFINE_string(
        "dataset",
        data.dataset,
        "Instead of files an id of ir_datasets (requirements-irdatasets.txt), "
        "as clueweb09/en/trec-web-2009.",
    )
    flags.DEFINE_string("topics_file", "", "Queries, one file.")
    flags.DEFINE_string("documents", "", "Documents; patterns with commas.")
    flags.DEFINE_string("qrels_file", "", "Relevance judgements of them.")
    flags.DEFINE_enum(
        "topics_format",
        data.topics_format,
        data_lib.TOPICS_FORMATS,
        "Form of --topics_file; auto: by its first line.",
    )
    flags.DEFINE_enum(
        "documents_format",
        data.documents_format,
        data_lib.DOCUMENTS_FORMATS,
        "Form of --documents; auto: by each file's first line.",
    )
    flags.DEFINE_enum(
        "qrels_format",
        data.qrels_format,
        data_lib.QRELS_FORMATS,
        "Form of --qrels_file; auto: by its columns.",
    )
    flags.DEFINE_list(
        "topic_fields",
        list(data.topic_fields),
        "What makes a TREC query's text: title, desc, narr.",
    )
    flags.DEFINE_string(
        "run_file", data.run_file, "Candidates: a TREC run of another system."
    )
    flags.DEFINE_enum(
        "retriever",
        data.retriever,
        data_lib.RETRIEVERS,
        "What finds the candidates where there is no --run_file.",
    )
    flags.DEFINE_integer("depth", data.depth, "Candidates per query.")
    flags.DEFINE_float("bm25_k1", data.bm25_k1, "k1 of BM25, from 0.")
    flags.DEFINE_float("bm25_b", data.bm25_b, "b of BM25, in 0..1.")
    flags.DEFINE_string(
        "stop_words",
        data.stop_words,
        "That BM25 leaves out: en, a file with a word per line, or nothing.",
    )


def _define_protocol() -> None:
    data = RankingDataOptions
    flags.DEFINE_integer(
        "folds", data.folds, "Of the cross-validation over queries."
    )
    flags.DEFINE_string(
        "folds_file", data.folds_file, "Folds to use, as folds.json has them."
    )
    flags.DEFINE_enum(
        "unjudged",
        data.unjudged,
        data_lib.UNJUDGED,
        "Candidates without judgement: grade 0, or in no training pair.",
    )
    flags.DEFINE_integer(
        "max_pairs_per_query",
        data.max_pairs_per_query,
        "Training pairs per query; 0 = all.",
    )
    flags.DEFINE_integer(
        "cutoff", data.cutoff, "Rank that NDCG and ERR look down to."
    )
    flags.DEFINE_integer(
        "err_max_grade",
        data.err_max_grade,
        "Highest grade (G of ERR); higher ones are refused, as by gdeval.",
    )
    flags.DEFINE_list(
        "trec_measures",
        list(data.trec_measures),
        "Measures of trec_eval, by its names.",
    )


def _define_ranker() -> None:
    default = RankerOptions
    flags.DEFINE_enum(
        "ranker",
        default.ranker,
        ranker_lib.RANKERS,
        "How candidates are ranked.",
    )
    flags.DEFINE_integer(
        "seeds", default.seeds, "Rankers with other initial weights and orders."
    )
    flags.DEFINE_bool(
        "with_candidate_score",
        default.with_candidate_score,
        "The candidates' score is one more feature of K-NRM.",
    )
    flags.DEFINE_bool(
        "control", default.control, "K-NRM on random vectors beside it."
    )


def _define_vectors() -> None:
    default = RankerOptions
    flags.DEFINE_string(
        "vectors",
        default.vectors,
        "encoder (frozen hidden states; random weights without "
        "--init_checkpoint), random (one per piece) or an .npy table [V, D].",
    )
    flags.DEFINE_integer(
        "vector_size", default.vector_size, "D of random vectors."
    )
    flags.DEFINE_string(
        "layer",
        default.layer,
        "0 = embeddings, ... L; auto: each fold's validation queries choose.",
    )
    flags.DEFINE_bool(
        "center", default.center, "Subtract the mean vector of all pieces."
    )
    flags.DEFINE_bool("idf", default.idf, "Weigh query pieces by idf.")
    flags.DEFINE_enum(
        "unit",
        default.unit,
        ranker_lib.UNITS,
        "What has a vector: a piece, or a word, the mean of its pieces.",
    )
    flags.DEFINE_bool(
        "stopwords",
        default.stopwords,
        "Leave --stop_words out of K-NRM's queries and documents, too.",
    )
    flags.DEFINE_bool(
        "train_embeddings",
        default.train_embeddings,
        "K-NRM whose piece vectors are trained, too, beside the frozen one.",
    )
    flags.DEFINE_integer(
        "max_doc_length", default.max_doc_length, "First pieces of a document."
    )
    flags.DEFINE_integer(
        "max_query_length", default.max_query_length, "First pieces of a query."
    )
    flags.DEFINE_integer(
        "embed_batch_size", default.embed_batch_size, "Texts per encoder step."
    )
    flags.DEFINE_enum(
        "embedding_dtype",
        default.embedding_dtype,
        ranker_lib.EMBEDDING_DTYPES,
        "Of stored vectors; cosines are float32 always.",
    )


def _define_knrm() -> None:
    default = RankerOptions
    flags.DEFINE_integer(
        "kernel_bins", default.bins, "Kernels besides the exact-match one."
    )
    flags.DEFINE_float(
        "exact_sigma", default.exact_sigma, "Width of the exact-match kernel."
    )
    flags.DEFINE_float(
        "knrm_learning_rate", default.learning_rate, "Rate of its Adam."
    )
    flags.DEFINE_float(
        "knrm_adam_epsilon", default.adam_epsilon, "Epsilon of it."
    )
    flags.DEFINE_integer(
        "knrm_batch_size", default.batch_size, "Pairs per step of K-NRM."
    )
    flags.DEFINE_integer(
        "epochs", default.epochs, "Most passes over the pairs."
    )
    flags.DEFINE_integer(
        "patience",
        default.patience,
        "Stop after so many passes without a better validation NDCG.",
    )


def _define_cross_encoder() -> None:
    default = RankerOptions
    flags.DEFINE_enum(
        "rank_loss",
        default.rank_loss,
        ranker_lib.LOSSES,
        "Loss of the cross-encoder.",
    )
    flags.DEFINE_integer(
        "list_size", default.list_size, "Documents per query in its batches."
    )
    flags.DEFINE_integer(
        "passage_stride",
        default.passage_stride,
        "Pieces between the windows of a long document, whose best score "
        "counts; 0 = the first window alone.",
    )
    flags.DEFINE_integer(
        "max_passages", default.max_passages, "Most windows of a document."
    )


def from_flags() -> tuple[
    RankingDataOptions, RankerOptions, FinetuneOptions, int
]:
    """What is ranked, how, the rest, and the cross-encoder's T.

    Raises:
      UserError: values that do not go together.
    """
    given = [name for name in _UNUSED if FLAGS[name].present]
    if given:
        raise UserError(f"--{given[0]} has no meaning here: leave it out")
    named = {}
    if FLAGS.collection and FLAGS.dataset:
        raise UserError("--collection and --dataset: give one of them")
    if FLAGS.collection:
        named = data_lib.collection_files(FLAGS.collection, FLAGS.data_dir)
    elif FLAGS.data_dir:
        raise UserError("--data_dir is the folder of --collection: give both")
    for name in _FILES:
        if name not in named or FLAGS[name].present:
            named[name] = FLAGS[name].value
    finetune = finetune_flags.from_flags()
    data = RankingDataOptions(
        **named,
        **{name: FLAGS[name].value for name in _DATA},
        topic_fields=tuple(FLAGS.topic_fields),
        trec_measures=tuple(FLAGS.trec_measures),
        fold_seed=finetune.run.strategy.seed,
    )
    ranker = RankerOptions(
        **{name: FLAGS[name].value for name in _RANKER},
        bins=FLAGS.kernel_bins,
        learning_rate=FLAGS.knrm_learning_rate,
        adam_epsilon=FLAGS.knrm_adam_epsilon,
        batch_size=FLAGS.knrm_batch_size,
    )
    return data, ranker, finetune, FLAGS.max_seq_length
