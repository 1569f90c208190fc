"""The cross-encoder: windows, lists, losses, folds, export."""

import dataclasses
import functools
import json
import shutil

import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from tensorflow.python.framework import ops

from common.contract.symbols import SymbolIds
from common.errors import UserError
from data.finetuning.ranking import features, runs
from data.finetuning.ranking.folds import Fold
from data.text.tokenizer import Tokenizer
from modeling import XLNetConfig
from modeling.checkpoints import native
from modeling.encoders.registry import read_config
from tests.training.finetuning.ranking import toy
from training.finetuning.ranking.cross_encoder import CrossEncoder
from training.finetuning.ranking.options import LOSSES
from training.finetuning.ranking.run import RankingRun
from training.objectives.build import build_objective
from training.run_options import OptimizerOptions, StrategyOptions


def test_windows_cover_a_document():
    assert features.windows(7, 3, 0, 4) == [(0, 3)]
    assert features.windows(2, 3, 2, 4) == [(0, 2)]
    assert features.windows(7, 3, 2, 4) == [(0, 3), (2, 5), (4, 7)]
    assert features.windows(7, 3, 5, 4) == [(0, 3), (3, 6), (6, 7)]
    assert features.windows(9, 3, 3, 2) == [(0, 3), (3, 6)]
    assert features.windows(0, 3, 3, 2) == [(0, 0)]
    rows = features.passages([11, 12], range(20, 27), 8, 2, 9, SymbolIds())
    assert [row.ids for row in rows] == [
        [11, 12, 4, 20, 21, 22, 4, 3],
        [11, 12, 4, 22, 23, 24, 4, 3],
        [11, 12, 4, 24, 25, 26, 4, 3],
    ]


def test_lists_hold_a_pair_and_lower_graded_ones():
    grades = np.array([0, 2, -1, 1, 0, 0])
    pairs = np.array([[1, 3], [3, 0]])
    found = features.lists(pairs, grades, 4, 0)
    np.testing.assert_array_equal(found[:, :2], pairs)
    assert set(found[0, 2:]) < {0, 4, 5}
    assert set(found[1, 2:]) == {4, 5}
    assert len(set(found[0])) == 4
    np.testing.assert_array_equal(found, features.lists(pairs, grades, 4, 0))
    assert features.lists(pairs, grades, 7, 0).shape == (2, 7)


@pytest.mark.long
@pytest.mark.parametrize(
    "loss",
    [
        pytest.param(name, marks=() if name == "softmax" else pytest.mark.slow)
        for name in LOSSES
    ],
)
def test_every_loss_falls_and_orders_the_list(loss):
    config = XLNetConfig(
        vocab_size=21,
        d_model=6,
        n_layer=1,
        n_head=2,
        d_head=3,
        d_inner=8,
        dropout=0.0,
        dropatt=0.0,
    )
    objective = build_objective("ranking", config, rank_loss=loss)
    tf.keras.utils.set_random_seed(1)
    model = objective.build_model()
    rng = np.random.default_rng(0)
    batch = {
        "input_ids": rng.integers(9, 21, [2, 3, 5]).astype(np.int32),
        "segment_ids": np.zeros([2, 3, 5], np.int32),
        "input_mask": np.ones([2, 3, 5], np.int32),
        "label_ids": np.array([[0, 1, 0], [2, 0, 1]], np.float32),
        "example_weight": np.ones(2, np.float32),
    }
    batch = {k: tf.constant(v) for k, v in batch.items()}
    before = objective.predict(model, batch)["logits"].numpy()
    assert before.shape == (2, 3)
    optimizer = tf_keras.optimizers.Adam(0.02)

    @tf.function(autograph=False)
    def step():
        with tf.GradientTape() as tape:
            output = objective.loss(model, batch, None, True, None)
        variables = model.trainable_variables
        gradients = tape.gradient(output.loss_sum, variables)
        optimizer.apply_gradients(
            (g, v)
            for g, v in zip(gradients, variables, strict=True)
            if g is not None
        )
        return output.loss_sum

    losses = [float(step()) for _ in range(30)]
    assert losses[-1] < 0.5 * losses[0]
    after = objective.predict(model, batch)["logits"].numpy()
    assert after[0].argmax() == 1
    if loss == "pointwise":  # which knows relevant or not alone
        assert after[1].argmin() == 1
    else:
        assert after[1].argmax() == 0
    # Single rows, as an evaluation reads them.
    rows = {k: v[:, 0] for k, v in batch.items() if v.shape.rank == 3}
    np.testing.assert_allclose(
        objective.predict(model, rows)["logits"], after[:, 0], atol=1e-6
    )


@pytest.mark.slow
@pytest.mark.shared
@pytest.mark.parametrize("config", ["xlnet", "bert", "segments"])
def test_folds_resume_and_export(tmp_path, spiece_model, config, monkeypatch):
    from serving.export import export_model

    toy.write(tmp_path)
    if config == "bert":
        (tmp_path / "xlnet.json").write_text(json.dumps(BERT))
    ranker = {
        "ranker": "cross_encoder",
        "seeds": 1,
        "list_size": 3,
        "rank_loss": "softmax",
        "passage_stride": 4,
        "max_passages": 3,
        "max_query_length": 5,
    }
    if config == "segments":
        ranker |= {"passage_stride": 0, "segment_recurrence": 2}
    names = [str(q) for q in range(toy.NUM_QUERIES)]
    fold = {"train": names[:5], "dev": names[5:7], "test": names[7:]}
    path = tmp_path / "one_fold.json"
    path.write_text(json.dumps({"folds": [fold]}))
    options = toy.options(
        tmp_path,
        data={"folds_file": str(path)},
        ranker=ranker,
        do_export=True,
    )
    length = 10 if config == "segments" else 16
    options = dataclasses.replace(options, max_seq_length=length)
    said = []
    tokenizer = Tokenizer(spiece_model)
    kept, trained = [], CrossEncoder._train

    def watched(self, *arguments):
        graphs = set(ops.gradient_registry.list())
        found = trained(self, *arguments)
        kept.append(len(set(ops.gradient_registry.list()) - graphs))
        return found

    monkeypatch.setattr(CrossEncoder, "_train", watched)
    found = RankingRun(options, tokenizer, said.append, export_model)()
    assert "cross_encoder" in found["systems"]
    assert kept == [0]  # no graph of the ranker
    model = tmp_path / "model"
    before = (model / "runs/cross_encoder.seed0.run").read_bytes()
    again = []
    finetune = toy.finetune_options(tmp_path, do_train=False)
    options = dataclasses.replace(options, finetune=finetune)
    RankingRun(options, tokenizer, again.append)()
    assert (model / "runs/cross_encoder.seed0.run").read_bytes() == before
    assert sum(line.endswith(": found") for line in again) == 1
    check_export(tmp_path, "cross_encoder", {})


@pytest.mark.shared
def test_the_precision_of_an_export_is_followed(tmp_path, spiece_model):
    """It was float32, or that of the training."""
    toy.write(tmp_path)
    ranker = {"ranker": "cross_encoder", "max_query_length": 5}
    options = toy.options(
        tmp_path, ranker=ranker, export_precision="mixed_bfloat16"
    )
    options = dataclasses.replace(options, max_seq_length=16)
    run = RankingRun(options, Tokenizer(spiece_model), lambda line: None)
    ranking = run.cross_encoder(run.task([]))
    folder = ranking.folder(0, 0)
    native.write(folder, ranking.objective.build_model(), ranking.config)
    shutil.copy(spiece_model, f"{folder}/spiece.model")
    found = []

    def export(target, model, spec, spiece, weights):
        found.append((model.dtype_policy.name, spec.head))
        return target

    ranking.write_export(export)
    assert found == [("mixed_bfloat16", "ranking")]


def check_export(folder, name, more, version="1", atol=2e-5):
    """The export scores as the run of the fold that it is of."""
    from serving.saved_model import SavedModel

    loaded = SavedModel(str(folder / "model/export" / version))
    run = runs.read(str(folder / f"model/runs/{name}.seed0.fold0.run"))
    rows = (folder / "topics.tsv").read_text().splitlines()
    topics = dict(row.split("\t") for row in rows)
    rows = (folder / "documents.jsonl").read_text().splitlines()
    texts = {r["id"]: r["text"] for r in map(json.loads, rows)}
    query, scores = next(iter(run.items()))
    inputs = {
        "query": [topics[query]],
        "documents": [[texts[name] for name in scores]],
    }
    if more:
        given = [[more[query][name] for name in scores]]
        inputs["candidate_scores"] = np.array(given, np.float32)
    answer = loaded(inputs)
    values = list(scores.values())
    np.testing.assert_allclose(answer["scores"][0], values, atol=atol)
    order = answer["order"][0]
    np.testing.assert_array_equal(order, np.argsort(-answer["scores"][0]))


BERT = {
    "model_type": "bert",
    "vocab_size": 1000,
    "hidden_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 10,
}


@pytest.mark.slow
@pytest.mark.shared
@pytest.mark.parametrize("config", [toy.CONFIG, BERT], ids=["xlnet", "bert"])
def test_knrm_is_exported_with_its_encoder(tmp_path, spiece_model, config):
    from serving.export import export_model

    toy.write(tmp_path)
    (tmp_path / "xlnet.json").write_text(json.dumps(config))
    ranker = {"layer": "1", "center": True, "idf": True, "control": False}
    options = toy.options(tmp_path, ranker=ranker, do_export=True)
    tokenizer = Tokenizer(spiece_model)
    export = functools.partial(export_model, check=False)
    RankingRun(options, tokenizer, lambda line: None, export)()
    candidates = runs.read(str(tmp_path / "model/candidates.run"))
    check_export(tmp_path, "knrm", candidates)
    finetune = dataclasses.replace(
        options.finetune, export_precision="mixed_bfloat16"
    )
    options = dataclasses.replace(options, finetune=finetune)
    RankingRun(options, tokenizer, lambda line: None, export)()
    about = (tmp_path / "model/export/2/signature.json").read_text()
    assert json.loads(about)["precision"] == "mixed_bfloat16"
    check_export(tmp_path, "knrm", candidates, "2", 5e-2)


@pytest.mark.shared
def test_long_documents_are_read_in_segments(tmp_path, spiece_model):
    toy.write(tmp_path)
    ranker = {"ranker": "cross_encoder", "segment_recurrence": 3}
    ranker |= {"max_query_length": 5}

    def made(config):
        (tmp_path / "xlnet.json").write_text(json.dumps(config))
        options = toy.options(tmp_path, ranker=ranker)
        options = dataclasses.replace(options, max_seq_length=9)
        run = RankingRun(options, Tokenizer(spiece_model), lambda line: None)
        return run.cross_encoder(run.task([]))

    ranking = made(toy.CONFIG)
    query = next(iter(ranking.texts.queries))
    rows = [
        ranking._passages(query, name, False)
        for name in ranking.texts.documents
    ]
    assert {len(row) for row in rows} == {1}
    lengths = [len(row[0].ids) for row in rows]
    assert 9 < max(lengths) <= 27
    # Short rows give what one segment gives; long ones depend on their start.
    model = ranking.objective.build_model()
    rng = np.random.default_rng(0)
    mask = (np.arange(27) >= 27 - np.array([[7], [20]])).astype(np.int32)
    batch = {
        "input_ids": rng.integers(9, 99, (2, 27)).astype(np.int32) * mask,
        "segment_ids": np.where(mask, 0, 4).astype(np.int32),
        "input_mask": mask,
    }
    batch = {k: tf.constant(v) for k, v in batch.items()}
    found = ranking.objective.predict(model, batch)["logits"].numpy()
    plain = build_objective(
        "ranking", read_config(str(tmp_path / "xlnet.json"))
    )
    last = {k: v[:, -9:] for k, v in batch.items()}
    short = plain.predict(model, last)["logits"].numpy()
    np.testing.assert_allclose(found[0], short[0], atol=1e-6)
    assert abs(found[1] - short[1]) > 1e-7
    lists = {k: tf.stack([v, v], 1) for k, v in batch.items()}
    twice = ranking.objective.predict(model, lists)["logits"].numpy()
    np.testing.assert_allclose(twice, np.stack([found] * 2, 1), atol=1e-6)
    with pytest.raises(UserError, match="--segment_recurrence needs .*memory"):
        made(BERT)


@pytest.mark.shared
def test_results_are_named_by_the_weights_not_by_their_place(
    tmp_path, spiece_model
):
    toy.write(tmp_path)
    for name, value in (("a", 1.0), ("b", 1.0), ("c", 2.0)):
        (tmp_path / name).mkdir()
        tf.train.Checkpoint(v=tf.Variable(value)).write(
            str(tmp_path / name / "x")
        )
    options = toy.options(tmp_path, ranker={"ranker": "cross_encoder"})
    run = RankingRun(options, Tokenizer(spiece_model), lambda line: None)
    task, keys = run.task([]), {}
    for name in "abc":
        finetune = dataclasses.replace(
            options.finetune,
            run=options.finetune.run.replace(
                init_checkpoint=str(tmp_path / name / "x")
            ),
        )
        run.options = dataclasses.replace(
            options, finetune=finetune, max_seq_length=32
        )
        keys[name] = run.cross_encoder(task)._key(Fold((), (), ()), 0)
    assert keys["a"] == keys["b"] != keys["c"]


@pytest.mark.shared
def test_results_of_another_seed_or_precision_are_not_taken(
    tmp_path, spiece_model
):
    toy.write(tmp_path)
    tokenizer = Tokenizer(spiece_model)

    def key(strategy, fold_seed=0, seed=0):
        options = toy.options(
            tmp_path,
            data={"fold_seed": fold_seed},
            ranker={"ranker": "cross_encoder"},
        )
        finetune = dataclasses.replace(
            options.finetune,
            run=options.finetune.run.replace(
                strategy=StrategyOptions(**strategy)
            ),
        )
        options = dataclasses.replace(
            options, finetune=finetune, max_seq_length=32
        )
        run = RankingRun(options, tokenizer, lambda line: None)
        task, fold = run.task([]), Fold((), (), ())
        return run.cross_encoder(task)._key(fold, seed), task.key("f", fold)

    plain, features = key({})
    # What was kept before these were part of the key is still found.
    assert not {"first_seed", "precision", "fold_seed"} & set(plain)
    assert "fold_seed" not in features
    assert key({"seed": 5}, seed=1)[0]["first_seed"] == 6
    assert key({"seed": 1})[0] != plain != key({}, seed=1)[0]
    assert key({"seed": 1})[0] != key({}, seed=1)[0]
    assert key({"precision": "mixed_bfloat16"})[0] != plain
    drawn, other = key({}, fold_seed=1)
    assert drawn != plain and other != features
    assert (drawn["fold_seed"], other["fold_seed"]) == (1, 1)


@pytest.mark.shared
@pytest.mark.parametrize(("length", "query"), [(67, 32), (68, 64), (512, 64)])
def test_a_query_leaves_room_for_the_document(
    tmp_path, spiece_model, length, query
):
    """Without --max_query_length, in rows too short for the usual one."""
    toy.write(tmp_path)
    ranker = {"ranker": "cross_encoder", "max_query_length": None}
    options = toy.options(tmp_path, ranker=ranker)
    options = dataclasses.replace(options, max_seq_length=length)
    said = []
    run = RankingRun(options, Tokenizer(spiece_model), said.append)
    run.settle_lengths()
    assert run.options.ranker.max_query_length == query
    lines = [line for line in said if "(--max_query_length)" in line]
    assert len(lines) == (query < 64)
    made = run.cross_encoder(run.task([]))
    assert made.spec().data_options["max_query_length"] == query
    assert not [line for line in said if "is low for a model" in line]


@pytest.mark.shared
@pytest.mark.parametrize("name", [None, "local"])
def test_rows_have_one_length_on_a_tpu(tmp_path, spiece_model, name):
    """Whether --tpu names it or --use_tpu means that of this machine."""
    toy.write(tmp_path)
    options = toy.options(tmp_path, ranker={"ranker": "cross_encoder"})
    options = dataclasses.replace(options, max_seq_length=32)
    run = RankingRun(options, Tokenizer(spiece_model), lambda line: None)
    ranking = run.cross_encoder(run.task([]))
    queries = list(ranking.texts.queries)[:2]

    def width():
        make, _ = ranking._candidates(queries)
        return make({"batch_size": 3}).element_spec["input_ids"].shape[-1]

    assert width() is None
    strategy = StrategyOptions(distribution_strategy="tpu", tpu=name)
    ranking.finetune = dataclasses.replace(
        options.finetune, run=options.finetune.run.replace(strategy=strategy)
    )
    assert width() == 32


def test_a_rate_that_is_too_low_for_the_width_is_said(tmp_path, spiece_model):
    toy.write(tmp_path)
    options = toy.options(tmp_path, ranker={"ranker": "cross_encoder"})
    low = OptimizerOptions(learning_rate=1e-5)
    for trains in (True, False):
        finetune = dataclasses.replace(
            options.finetune,
            run=options.finetune.run.replace(optimizer=low),
            do_train=trains,
        )
        options = dataclasses.replace(options, finetune=finetune)
        said = []
        run = RankingRun(options, Tokenizer(spiece_model), said.append)
        run.settle_lengths()
        run.cross_encoder(run.task([]))
        low_lines = [x for x in said if "=1e-05 is low for a model" in x]
        assert len(low_lines) == trains


@pytest.mark.shared
def test_a_row_without_room_for_a_document_is_refused(tmp_path, spiece_model):
    toy.write(tmp_path)
    ranker = {"ranker": "cross_encoder", "max_query_length": 13}
    options = toy.options(tmp_path, ranker=ranker)
    options = dataclasses.replace(options, max_seq_length=16)
    with pytest.raises(UserError, match="--max_seq_length=16 leaves no room"):
        RankingRun(options, Tokenizer(spiece_model), lambda line: None)()
