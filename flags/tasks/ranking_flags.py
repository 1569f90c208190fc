"""Flags of run_ranking.py."""

from absl import flags

from common.errors import UserError
from common.settings import settings_of
from data.finetuning.ranking import options as data_lib
from data.finetuning.ranking.options import RankingDataOptions
from flags import flag_values
from flags.tasks import finetune_flags
from training.finetuning.options import FinetuneOptions
from training.finetuning.ranking.options import (
    ENCODER,
    RANDOM,
    RankerOptions,
)
from training.run_options import OptimizerOptions

FLAGS = flags.FLAGS
# Of the fine-tuning commands, without a meaning here.
_UNUSED = (
    "skip_bad_rows",
    "num_proc",
    "output_dir",
    "length_buckets",
    "recipe",
    "eval_all_ckpt",
    "predict_ckpt",
    "predict_dir",
    "predict_batch_size",
)

# Of what finds the candidates.
_OF_BM25 = ("retriever", "bm25_k1", "bm25_b")
# Flags that only some rankers read.
_OF_RANKERS = {
    ("knrm",): (
        *("kernel_bins", "exact_sigma", "with_candidate_score", "control"),
        *("knrm_learning_rate", "knrm_adam_epsilon", "knrm_batch_size"),
        *("epochs", "patience"),
    ),
    ("cosine", "knrm"): (
        *("vectors", "vector_size", "layer", "center", "idf", "unit"),
        *("stopwords", "embed_batch_size", "embedding_dtype"),
        "max_doc_length",
    ),
    ("knrm", "cross_encoder"): ("unjudged", "max_pairs_per_query"),
    ("cosine", "knrm", "cross_encoder"): (
        *("max_query_length", "folds_file"),
        *("init_checkpoint", "model_config_path", "checkpoint_choice", "head"),
        *("clamp_len", "blind_rows", "precision", "use_bfloat16"),
        *("spiece_model_file", "uncased", "keep_accents", "text_rule"),
    ),
    ("cross_encoder",): (
        *("rank_loss", "list_size", "passage_stride", "max_passages"),
        *("segment_recurrence", "max_seq_length"),
        *("summary_type", "use_summ_proj", "pooling"),
        *("train_steps", "train_batch_size", "grad_accumulation_steps"),
        *("eval_every", "eval_batch_size", "iterations", "save_steps"),
        *("max_save", "async_save", "max_hours", "recompute_layers"),
        *("pack", "jit_compile"),
        *("dropout", "dropatt", "activation_dropout"),
        *(s.flag or name for name, s in settings_of(OptimizerOptions).items()),
    ),
}
_TABLE = "FILE.npy"
# Flags that only some vectors follow.
_OF_VECTORS = {
    (ENCODER,): ("layer", "embed_batch_size"),
    (ENCODER, _TABLE): ("control",),  # which is on random ones
    (RANDOM,): ("vector_size",),
}


def define() -> None:
    """Registers the flags."""
    finetune_flags.define(max_seq_length=512)
    flag_values.often |= {"collection", "data_dir"}
    flag_values.often -= {"do_predict", *_UNUSED}
    FLAGS.set_default("do_train", True)
    FLAGS.set_default("do_eval", True)
    flags.DEFINE_enum(
        "collection",
        None,
        list(data_lib.COLLECTIONS),
        "A test set in --data_dir: its files and their forms.",
    )
    flags.DEFINE_string("data_dir", "", "The folder of --collection.")
    flag_values.define(
        RankingDataOptions, topics_file="", documents="", qrels_file=""
    )
    flag_values.define(RankerOptions)


def from_flags() -> tuple[
    RankingDataOptions, RankerOptions, FinetuneOptions, int
]:
    """What is ranked, how, the rest, and the cross-encoder's T."""
    unused = [name for name in _UNUSED if FLAGS[name].present]
    if unused:
        raise UserError(f"--{unused[0]} has no meaning here: leave it out")
    flag_values.check_followed("ranker", FLAGS.ranker, _OF_RANKERS)
    if FLAGS.ranker in ("cosine", "knrm"):
        _check_vectors()
    _check_files()
    named = {}
    if FLAGS.collection and FLAGS.dataset:
        raise UserError("--collection and --dataset: give one of them")
    if FLAGS.collection:
        given = [name for name in FLAGS if FLAGS[name].present]
        named = data_lib.collection_files(
            FLAGS.collection, FLAGS.data_dir, given
        )
    elif FLAGS.data_dir:
        raise UserError("--data_dir is the folder of --collection: give both")
    finetune = finetune_flags.from_flags()
    data = flag_values.build(
        RankingDataOptions, fold_seed=finetune.run.strategy.seed, **named
    )
    ranker = flag_values.build(
        RankerOptions, segment_recurrence=FLAGS.segment_recurrence
    )
    return data, ranker, finetune, FLAGS.max_seq_length


def _check_vectors() -> None:
    """Raises UserError: a flag is given that the vectors ignore."""
    kind = FLAGS.vectors if FLAGS.vectors in (ENCODER, RANDOM) else _TABLE
    followers = dict(_OF_VECTORS)
    if FLAGS.ranker == "knrm" and FLAGS.control:
        del followers[(RANDOM,)]  # the control has random vectors, too
    flag_values.check_followed("vectors", kind, followers)


def _check_files() -> None:
    """Raises UserError: a file that is given says what a flag says, too."""
    bm25 = _OF_BM25 if FLAGS.stopwords else (*_OF_BM25, "stop_words")
    forms = [f"{part}_format" for part in ("topics", "documents", "qrels")]
    for file, what, names in (
        ("folds_file", "the queries of each fold", ["folds"]),
        # The ranker bm25 scores them again.
        ("run_file", "candidates", bm25 if FLAGS.ranker != "bm25" else ()),
        ("dataset", "forms of its own", forms),
    ):
        given = [name for name in names if FLAGS[name].present]
        if FLAGS[file].value and given:
            raise UserError(
                f"--{given[0]} beside --{file}={FLAGS[file].value}, which has "
                f"{what}: leave --{given[0]} out"
            )
