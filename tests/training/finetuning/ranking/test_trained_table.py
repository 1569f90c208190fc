"""K-NRM with trained vectors: begins as the frozen one, learns, resumes."""

import numpy as np
import pytest

from data.finetuning.ranking import metrics
from data.text.tokenizer import Tokenizer
from modeling.heads import kernel_pooling
from tests.training.finetuning.ranking import toy
from tests.training.finetuning.ranking.ranking_runs import contents, rank
from training.finetuning.ranking import folded, trained_table
from training.finetuning.ranking.run import RankingRun

pytestmark = pytest.mark.shared
RANKER = {
    "vectors": "random",
    "train_embeddings": True,
    "idf": True,
    "epochs": 2,
    "batch_size": 4,
    "learning_rate": 0.02,
}


def trainer_of(folder, spiece, **changes):
    options = toy.options(folder, ranker=RANKER | changes)
    run = RankingRun(options, Tokenizer(spiece), lambda line: None)
    names = sorted(run.candidates)
    folds = [folded.Fold(tuple(names[:5]), tuple(names[5:7]), ())]
    task = run.task(folds)
    source = run.table("random")
    maker = run.maker(source)
    shards, queries = run.embed(source)
    start = maker.make(shards, queries, run.candidates, lambda line: None)
    texts = trained_table.read(maker, shards, queries)
    made = trained_table.TableTrainer(task, texts, start, run.kernels)
    return made, task, start, source


@pytest.mark.long
def test_it_begins_as_the_frozen_ranker_and_learns(tmp_path, spiece_model):
    toy.write(tmp_path)
    made, task, start, source = trainer_of(tmp_path, spiece_model)
    fold, seed = task.folds[0], 1
    made._reset(fold, seed)
    x = folded.inputs(task, start)
    rows = np.concatenate([x[q][:, 0] for q in fold.train])
    mean, deviation = rows.mean(0), np.maximum(rows.std(0), 1e-6)
    wanted = [
        kernel_pooling.score(
            (x[q][:, 0] - mean) / deviation,
            made._w.numpy(),
            made._b.numpy(),
        ).numpy()
        for q in fold.dev
    ]
    found = made._score(fold.dev)
    np.testing.assert_allclose(found, np.concatenate(wanted), atol=2e-4)
    # The pieces' own rows of the table, and no others.
    assert len(made.texts.table) < len(source.table)
    names, texts = start.names, made.texts
    pairs = [
        (q, *pair)
        for q, own in task.pairs(fold, names).items()
        for pair in own.tolist()
    ]
    batch = made._batch(pairs)

    def loss():
        values = made._scores(*batch).numpy().reshape(-1, 2)
        return np.maximum(0, 1 - values[:, 0] + values[:, 1]).mean()

    start_ndcg = task.run_ndcg(
        folded.split_run(task.run, fold.train, made._score(fold.train))
    )

    before = loss()
    for _ in range(30):
        made._step(*batch)
    assert loss() < 0.7 * before
    after = task.run_ndcg(
        folded.split_run(task.run, fold.train, made._score(fold.train))
    )
    assert after > start_ndcg
    used = np.unique(
        np.concatenate(
            [texts.queries[q][0] for q in fold.train]
            + [texts.documents[names[q][i]] for q, *p in pairs for i in p]
        )
    )
    moved = np.flatnonzero(
        np.abs(made._table.numpy() - texts.table).max(1) > 1e-4
    )
    assert len(moved) and set(moved) <= set(used)


@pytest.mark.slow
def test_a_row_of_the_table_that_resumes(tmp_path, spiece_model):
    toy.write(tmp_path)
    said = []
    found = rank(tmp_path, spiece_model, said, ranker=RANKER)
    measure = metrics.ndcg_name(20)
    assert found["systems"][trained_table.NAME][measure]["seeds"] == 2
    before, again = contents(tmp_path / "model"), []
    rank(tmp_path, spiece_model, again, ranker=RANKER, do_train=False)
    assert contents(tmp_path / "model") == before
    rows = [
        line for line in again if line.startswith(f"{trained_table.NAME} fold")
    ]
    assert len(rows) == 6
    assert all(line.endswith("from an earlier run") for line in rows)
    # An encoder's own table of pieces is where training begins.
    ranker = RANKER | {"vectors": "encoder", "layer": "1", "seeds": 1}
    ranker |= {"control": False, "epochs": 1}
    found = rank(tmp_path, spiece_model, ranker=ranker, model="encoder")
    assert trained_table.NAME in found["systems"]
