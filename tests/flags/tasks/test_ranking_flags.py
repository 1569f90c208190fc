"""Flags of run_ranking.py: a named collection, and flags without a meaning."""

import pytest

from common.errors import UserError
from flags import flag_values
from flags.tasks import ranking_flags
from tests.flags.fresh_flags import parsed


@pytest.fixture
def folder(tmp_path):
    for name in ("cran.qry", "cran.all.1400.xz", "cranqrel"):
        (tmp_path / name).touch()
    return tmp_path


def read(*arguments):
    with parsed(ranking_flags.define, "--model_dir=m", *arguments):
        return ranking_flags.from_flags()


def test_a_collection_names_its_files_unless_they_are_given(folder):
    named = ("--collection=cranfield", f"--data_dir={folder}")
    rows = ("--ranker=cross_encoder", "--max_seq_length=64")
    data, _, options, length = read(*named, *rows, "--seed=7")
    assert data.topics_file == str(folder / "cran.qry")
    assert data.documents_format == "cranfield"
    assert (data.fold_seed, length) == (7, 64)
    assert options.do_train and options.do_eval
    data, *_ = read(*named, "--qrels_file=mine", "--qrels_format=trec")
    assert (data.qrels_file, data.qrels_format) == ("mine", "trec")
    assert data.topics_file == str(folder / "cran.qry")


def test_a_file_that_is_given_need_not_be_in_the_collection(folder):
    (folder / "cran.qry").unlink()
    named = ("--collection=cranfield", f"--data_dir={folder}")
    with pytest.raises(UserError, match="no file cran.qry .* give --topics_f"):
        read(*named)
    data, *_ = read(*named, "--topics_file=mine")
    assert (data.topics_file, data.topics_format) == ("mine", "cranfield")


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--skip_bad_rows"], "--skip_bad_rows has no meaning here"),
        (["--recipe=race"], "--recipe has no meaning here"),
        (["--eval_all_ckpt"], "--eval_all_ckpt has no meaning here"),
        (["--predict_ckpt=c"], "--predict_ckpt has no meaning here"),
        (["--predict_dir=d"], "--predict_dir has no meaning here"),
        (["--predict_batch_size=8"], "--predict_batch_size has no meaning"),
        (["--data_dir=d"], "--data_dir is the folder of --collection: give"),
        (["--collection=cisi", "--dataset=x/y"], "give one of them"),
        (["--collection=cisi"], "--collection=cisi needs --data_dir"),
        ([], "--topics_file must be given"),
    ],
)
def test_what_does_not_fit_is_one_line(arguments, message):
    with pytest.raises(UserError, match=message):
        read(*arguments)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--learning_rate=1e-2"], "--learning_rate is of --ranker=cross_enc"),
        (["--weight_decay=0.1"], "--weight_decay is of --ranker=cross_encod"),
        (["--adam_beta1=0.8"], "--adam_beta1 is of --ranker=cross_encoder, "),
        (["--summary_type=mean"], "--summary_type is of --ranker=cross_enc"),
        (["--eval_every=5"], "--eval_every is of --ranker=cross_encoder, fo"),
        (["--max_hours=1"], "--max_hours is of --ranker=cross_encoder, fou"),
        (["--nouse_summ_proj"], "--use_summ_proj is of --ranker=cross_enc"),
        (["--pack"], "--pack is of --ranker=cross_encoder, found knrm: leave"),
        (["--dropout=0.2"], "--dropout is of --ranker=cross_encoder, found"),
        (["--ranker=cosine", "--jit_compile"], "--jit_compile is of --ranker="),
        (["--ranker=bm25", "--init_checkpoint=x"], "--init_checkpoint is of"),
        (["--ranker=bm25", "--precision=float32"], "--precision is of --rank"),
        (["--ranker=bm25", "--uncased"], "--uncased is of --ranker=cosine or"),
        (["--ranker=bm25", "--layer=1"], "--layer is of --ranker=cosine or kn"),
        (["--ranker=cosine", "--nocontrol"], "--control is of --ranker=knrm, "),
        (["--ranker=cross_encoder", "--epochs=2"], "--epochs is of --ranker=k"),
        (
            ["--ranker=cross_encoder", "--max_doc_length=9"],
            "--max_doc_length is of --ranker=cosine or knrm, ",
        ),
        (
            ["--ranker=bm25", "--folds_file=f.json"],
            "--folds_file is of --ranker=cosine or knrm or cross_encoder, ",
        ),
        (
            ["--ranker=cosine", "--unjudged=skip"],
            "--unjudged is of --ranker=knrm or cross_encoder, ",
        ),
        (
            ["--folds=4", "--folds_file=f.json"],
            "--folds beside --folds_file=f.json, which has the queries of",
        ),
        (
            ["--run_file=r", "--bm25_k1=1"],
            "--bm25_k1 beside --run_file=r, which has candidates: leave --bm",
        ),
        (["--run_file=r", "--stop_words="], "--stop_words beside --run_file"),
        (
            ["--vectors=random", "--layer=1"],
            "--layer is of --vectors=encoder, found random: leave it out",
        ),
        (
            ["--vectors=random", "--nocontrol"],
            "--control is of --vectors=encoder or FILE.npy, found random: ",
        ),
        (
            ["--nocontrol", "--vector_size=8"],
            "--vector_size is of --vectors=random, found encoder: leave it ou",
        ),
        (
            ["--ranker=cosine", "--vectors=a.npy", "--vector_size=8"],
            "--vector_size is of --vectors=random, found FILE.npy: leave it o",
        ),
    ],
)
def test_a_flag_of_another_ranker_is_refused(folder, arguments, message):
    with pytest.raises(UserError, match=message):
        read("--collection=cranfield", f"--data_dir={folder}", *arguments)


def test_a_form_of_a_file_beside_a_dataset_is_refused():
    with pytest.raises(UserError, match="--qrels_format beside --dataset=x/y"):
        read("--dataset=x/y", "--qrels_format=beir")


@pytest.mark.parametrize("flag", ["--ranker=bm25", "--stopwords"])
def test_candidates_that_are_read_again_follow_their_flags(folder, flag):
    named = ("--collection=cranfield", f"--data_dir={folder}", "--run_file=r")
    data, *_ = read(*named, flag, "--stop_words=mine")
    assert (data.run_file, data.stop_words) == ("r", "mine")


def test_help_leaves_out_what_the_command_refuses():
    with parsed(ranking_flags.define, "--model_dir=m"):
        shown = set(flag_values.often)
    assert shown >= {"ranker", "do_export"} and "do_predict" not in shown


def test_flags_of_the_ranker_are_read(folder):
    named = ("--collection=cranfield", f"--data_dir={folder}", "--layer=1")
    _, ranker, *_ = read(*named, "--ranker=cosine")
    assert (ranker.ranker, ranker.layer) == ("cosine", "1")
    _, ranker, *_ = read(*named, "--knrm_learning_rate=0.5", "--epochs=7")
    assert (ranker.learning_rate, ranker.epochs) == (0.5, 7)
    _, ranker, *_ = read(*named, "--vector_size=8")  # of the control
    assert (ranker.vector_size, ranker.control) == (8, True)
