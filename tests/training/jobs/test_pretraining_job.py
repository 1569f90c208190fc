"""Whose vocabulary a pretraining goes on with, and its last lines."""

import contextlib
import json
import types

import pytest
import tensorflow as tf

from common.errors import Stopped, UserError
from common.vocabularies import vocabulary
from modeling.encoders import registry
from modeling.encoders.bert.config import BertConfig
from modeling.encoders.transformer_xl.config import TransformerXLConfig
from modeling.encoders.xlnet.config import XLNetConfig
from tests.helpers import released
from tests.helpers.runs import builds
from training.jobs import pretraining_job
from training.jobs.pretraining_job import loss_line
from training.run import TrainResult
from training.run_options import RunOptions

CONFIG = TransformerXLConfig(
    **dict(vocab_size=9, d_model=4, n_layer=1, n_head=1, d_head=4, d_inner=4),
    mem_len=8,
)


@pytest.fixture(scope="module")
def spiece(tmp_path_factory):
    """Path of a SentencePiece file."""
    folder = tmp_path_factory.mktemp("spiece")
    return builds.train_spiece(folder, builds.write_corpus(folder / "c.txt"))


def test_rows_that_do_not_fit_the_encoder_are_named():
    sizes = dict(vocab_size=9, d_model=4, n_layer=1, n_head=1, d_inner=6)
    bert = BertConfig(**sizes, max_position_embeddings=12)
    pretraining_job.check_rows(bert, "records", 12)
    pretraining_job.check_rows(CONFIG, "records", 99)
    with pytest.raises(UserError, match="is 12, and rows of records have 13"):
        pretraining_job.check_rows(bert, "records", 13)
    with pytest.raises(UserError, match="`type_vocab_size` is 1, and rows"):
        pretraining_job.check_rows(
            bert.replace(type_vocab_size=1), "records", 12
        )


def test_a_memory_that_is_not_there_is_not_emptied():
    pretraining_job.check_memory(CONFIG, "records", 4, resets=True)
    without = CONFIG.with_memory(0)
    pretraining_job.check_memory(without, "records", 4)
    with pytest.raises(UserError, match="^--reset_memory_at_document empties"):
        pretraining_job.check_memory(without, "records", 4, resets=True)


@pytest.mark.parametrize(
    "attn_type,mem_len,alone",
    [("uni", 0, True), ("uni", 4, False), ("bi", 0, False)],
)
def test_tokens_that_would_see_only_themselves(attn_type, mem_len, alone):
    """The query stream of such a token sees nothing at all."""
    config = XLNetConfig(
        **dict(vocab_size=9, d_model=4, n_layer=1, n_head=1, d_head=4),
        **dict(d_inner=4, attn_type=attn_type, same_length=True),
        mem_len=mem_len,
    )
    expected = contextlib.nullcontext()
    if alone:
        expected = pytest.raises(UserError, match="leaves every token only it")
    with expected:
        pretraining_job.check_memory(config, "records", 4)


@pytest.fixture
def check(tmp_path, spiece, monkeypatch):
    """Looks at a start from weights in `tmp_path`, on records of `spiece`."""
    source = types.SimpleNamespace(folder=str(tmp_path))
    monkeypatch.setattr(
        pretraining_job.checkpoints, "resolve", lambda path: source
    )
    of_data = vocabulary.read(spiece)

    def start(content=of_data.content):
        found = vocabulary.Vocabulary(
            "manifest.json", content, of_data.sha256, None, ""
        )
        options = RunOptions(
            model_dir=str(tmp_path / "out"), init_checkpoint=str(tmp_path)
        )
        pretraining_job.check_vocabulary(found, options, False)

    return start


def test_a_training_that_is_stopped_ends_the_command(monkeypatch):
    """It says nothing of what to run next."""
    stopped = TrainResult(4, False, "SIGTERM", {}, [], "c-4", None, 1, True)
    monkeypatch.setattr(pretraining_job, "run_training", lambda _: stopped)
    with pytest.raises(Stopped) as stop:
        pretraining_job.train(None, {}, True)
    assert stop.value.reason == "SIGTERM"


def test_the_loss_is_of_no_more_steps_than_the_run_has(monkeypatch, tmp_path):
    """`--iterations` may be far above the steps that there are."""
    last = {"loss": 1.5}
    done = TrainResult(4, True, None, last, [], "c-4", None, 1, True)
    monkeypatch.setattr(pretraining_job, "run_training", lambda _: done)
    said = []
    for iterations in (1_000_000, 3):
        options = RunOptions(model_dir=str(tmp_path), iterations=iterations)
        request = types.SimpleNamespace(options=options, say=said.append)
        pretraining_job.train(request, {"ln(vocabulary)": 2.0}, False)
    assert said == [
        f"training loss 1.5000 (last {steps} steps or fewer); "
        "ln(vocabulary) 2.0000"
        for steps in (4, 3)
    ]


def test_a_configuration_without_checkpoints_binds_nobody(tmp_path):
    """That of a run that died early; one that is followed has none yet."""
    options = RunOptions(model_dir=str(tmp_path))

    def known():
        config = pretraining_job.known_config(options)
        own = pretraining_job.has_own_config(options)
        assert own == (config is not None)
        return config

    assert known() is None
    registry.write_config(str(tmp_path), CONFIG)
    assert known() is None
    assert pretraining_job.known_config(options, wait=True) == CONFIG
    assert pretraining_job.has_own_config(options, wait=True)
    weights = tf.train.Checkpoint(step=tf.Variable(1))
    for name in ("model.ckpt-1", "best/model.ckpt-1", "averaged"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        weights.write(str(path))
        assert known() == CONFIG
        for file in path.parent.glob(f"{path.name}.*"):
            file.unlink()
        assert known() is None


@pytest.mark.parametrize("follow", [False, True])
def test_an_evaluation_of_another_objective_says_so(
    tmp_path, monkeypatch, follow
):
    """XLNet's default is permutation LM, whatever the weights were trained for."""
    record = {"must_match": {"objective": "mlm", "next_sentence": False}}
    (tmp_path / "run.json").write_text(json.dumps(record))
    source = types.SimpleNamespace(folder=str(tmp_path), line="weights")
    monkeypatch.setattr(pretraining_job, "weights_to_read", lambda _: source)
    result = types.SimpleNamespace(metrics={"loss": 2.0})
    for name in ("evaluate", "evaluate_continuously"):
        monkeypatch.setattr(
            pretraining_job.loop, name, lambda *_, **how: result
        )

    def lines(objective):
        said = []
        request = types.SimpleNamespace(
            objective=None,
            eval_input_fn=None,
            options=RunOptions(model_dir=str(tmp_path)),
            must_match={"objective": objective, "next_sentence": False},
            say=said.append,
        )
        pretraining_job.evaluate(request, follow)
        return [line for line in said if line.startswith("note: ")]

    assert lines("mlm") == []
    (line,) = lines("permutation_lm")
    assert "`objective` wanted permutation_lm, found mlm" in line


@pytest.mark.parametrize("width, rate", [(192, "0.001"), (768, "3e-05")])
def test_what_to_run_next_has_a_rate_for_the_width(width, rate):
    lines = []
    request = types.SimpleNamespace(
        options=RunOptions(model_dir="out/"),
        must_match={"seq_len": 512},
        objective=types.SimpleNamespace(
            config=types.SimpleNamespace(d_model=width)
        ),
        say=lines.append,
    )
    pretraining_job._say_next(request)
    command = lines[0].splitlines()[1].split()
    assert f"--learning_rate={rate}" in command
    assert "--max_seq_length=128" in command
    assert "--model_dir=out-classifier" in command


def test_a_folder_with_another_file_names_the_build(tmp_path, check):
    corpus = builds.write_corpus(tmp_path / "c.txt", seed=5)
    path = builds.train_spiece(tmp_path, corpus, 110)
    with pytest.raises(
        UserError, match=f"create_pretraining_data --spiece_model_file={path}`"
    ):
        check()


def test_an_xlnet_tokenizer_json_of_the_same_pieces_will_do(
    tmp_path, spiece, check
):
    released.unigram_json(tmp_path, spiece)
    check()
    with pytest.raises(UserError, match="found no copy of their vocabulary"):
        check(content=b"")

    def swap(value):
        rows = value["model"]["vocab"]
        rows[40], rows[41] = rows[41], rows[40]

    released.unigram_json(tmp_path, spiece, swap)
    with pytest.raises(UserError, match="found others; take the spiece.model"):
        check()


def test_other_released_tokenizers_make_no_records(tmp_path, check):
    released.wordpiece_folder(tmp_path)
    with pytest.raises(UserError, match="no records can be built: fine-tune"):
        check()


def test_the_uniform_loss_stands_beside_the_loss_of_tokens():
    known = {"ln(vocabulary)": 6.9, "unigram entropy": 6.25}
    means = {"loss": 6.5, "lm_loss": 6.5, "accuracy": 0.1, "learning_rate": 1.0}
    assert loss_line(means, 50, known) == (
        "training loss 6.5000 (last 50 steps or fewer); "
        "ln(vocabulary) 6.9000, unigram entropy 6.2500"
    )
    means |= {"loss": 7.25, "next_sentence_accuracy": 0.5}
    assert loss_line(means, 50, known) == (
        "training loss 7.2500 (last 50 steps or fewer) = lm_loss 6.5000 + "
        "pair 0.7500; of lm_loss: ln(vocabulary) 6.9000, "
        "unigram entropy 6.2500"
    )
