"""run_ranking.py's stages on a toy collection: files, resume, mistakes."""

import dataclasses
import json

import numpy as np
import pytest

from common import files
from common.errors import UserError
from data.finetuning.ranking import collection as collections
from data.finetuning.ranking import metrics, runs
from modeling.encoders.bert.config import BertConfig
from tests.training.finetuning.ranking import toy
from tests.training.finetuning.ranking.ranking_runs import contents, rank
from training.run_options import StrategyOptions

pytestmark = pytest.mark.shared


class Killed(BaseException):
    """Stands for a signal that nothing catches."""


@pytest.mark.slow
def test_control_and_layers_of_an_encoder(tmp_path, spiece_model):
    toy.write(tmp_path)
    said = []
    found = rank(tmp_path, spiece_model, said)
    assert {"knrm", "knrm (random vectors)"} < set(found["systems"])
    assert any(line.startswith("layer  2 cosines") for line in said)
    before = contents(tmp_path / "model")
    rank(tmp_path, spiece_model, said, do_train=False)
    assert contents(tmp_path / "model") == before


@pytest.mark.long
def test_knrm_from_files_to_table(tmp_path, spiece_model):
    toy.write(tmp_path)
    said = []
    ranker = {"vectors": "random"}
    found = rank(tmp_path, spiece_model, said, ranker=ranker)
    model = tmp_path / "model"
    assert set(found["systems"]) == {
        "bm25",
        "cosine",
        "knrm",
        "oracle",
    }
    stored = json.loads((model / "results.json").read_text())
    assert stored["systems"] == found["systems"]
    # The run files say what the table says.
    collection = collections.load(toy.data_options(tmp_path), said.append)
    measure = metrics.ndcg_name(20)
    values = []
    for seed in (0, 1):
        run = runs.read(str(model / f"runs/knrm.seed{seed}.run"))
        parts = [
            runs.read(str(model / f"runs/knrm.seed{seed}.fold{f}.run"))
            for f in range(3)
        ]
        assert run == {q: r for part in parts for q, r in part.items()}
        values.append(metrics.evaluate(collection.qrels, run).mean(measure))
    row = found["systems"]["knrm"][measure]
    assert row["mean"] == pytest.approx(np.mean([v.value for v in values]))
    assert row["seeds"] == 2
    assert row["queries"] == values[0].queries
    best = found["systems"]["oracle"][measure]["mean"]
    assert all(
        system[measure]["max"] <= best + 1e-12
        for system in found["systems"].values()
    )
    table = (model / "per_query.tsv").read_text().splitlines()
    assert len(table) == 1 + len(collection.topics) * len(found["systems"])
    assert (model / "kernels.png").read_bytes()[:4] == b"\x89PNG"
    assert any(line.startswith("layer  0 cosines") for line in said)
    # Again: everything is there, and the results are the same bytes.
    before, again = contents(model), []
    rank(tmp_path, spiece_model, again, ranker=ranker, do_train=False)
    assert contents(model) == before
    assert sum("from an earlier run" in line for line in again) == 8
    # What was not trained is not evaluated.
    with pytest.raises(UserError, match="no cosine ranker .* give --do_train"):
        more = ranker | {"seeds": 1}
        rank(tmp_path, spiece_model, ranker=more, do_train=False)


@pytest.mark.slow
def test_a_run_killed_at_every_stage_ends_with_the_same_files(
    tmp_path, spiece_model, monkeypatch
):
    toy.write(tmp_path)
    ranker = {"layer": "1", "control": False}
    rank(tmp_path, spiece_model, ranker=ranker, model="whole")
    real, left, killed = files.atomic_open, [0], []

    def fragile(path, mode="wb"):
        left[0] -= 1
        if left[0] < 0:
            raise Killed(path)
        return real(path, mode)

    monkeypatch.setattr(files, "atomic_open", fragile)
    for attempt in range(40):
        left[0] = 3 * (attempt + 1)
        try:
            rank(tmp_path, spiece_model, ranker=ranker, model="killed")
            break
        except Killed as e:
            killed.append(str(e))
    stages = {path.split("killed/")[1].split("/")[0] for path in killed}
    assert {"rankers", "runs"} <= stages, stages
    assert {"embeddings", "features"} & stages, stages
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")


def test_another_text_or_option_makes_other_results(tmp_path, spiece_model):
    toy.write(tmp_path)
    ranker = {"ranker": "cosine", "vectors": "random", "seeds": 1}
    first = rank(tmp_path, spiece_model, ranker=ranker)
    centered = rank(tmp_path, spiece_model, ranker=ranker | {"center": True})
    assert first["systems"]["cosine"] != centered["systems"]["cosine"]
    rows = (tmp_path / "documents.jsonl").read_text().splitlines()
    changed = json.loads(rows[0]) | {"text": "red green tower river winter"}
    rows[0] = json.dumps(changed)
    (tmp_path / "documents.jsonl").write_text("\n".join(rows) + "\n")
    said = []
    rank(tmp_path, spiece_model, said, ranker=ranker)
    assert any("0 from an earlier run" in line for line in said)


def test_candidates_of_another_system(tmp_path, spiece_model):
    toy.write(tmp_path)
    rng = np.random.default_rng(0)
    run = {
        str(q): {f"d{i}": float(rng.random()) for i in range(30)}
        for q in range(toy.NUM_QUERIES)
    }
    runs.write(str(tmp_path / "given.run"), run, "x")
    found = rank(
        tmp_path,
        spiece_model,
        data={"run_file": str(tmp_path / "given.run"), "depth": 9},
        ranker={"ranker": "bm25"},
    )
    measure = metrics.ndcg_name(20)
    systems = found["systems"]
    assert (
        systems["bm25"][measure]["mean"]
        > (systems["candidates"][measure]["mean"])
    )
    kept = runs.read(str(tmp_path / "model/candidates.run"))
    assert {q: set(r) for q, r in kept.items()} == {
        q: set(runs.ordered(r)[:9]) for q, r in run.items()
    }


def spoil(folder, name, old, new):
    path = folder / name
    path.write_text(path.read_text().replace(old, new, 1))


@pytest.mark.long
def test_texts_are_as_long_as_the_encoder_reads(tmp_path, spiece_model):
    """Where no length is given; a given one that is too long is refused."""
    toy.write(tmp_path)
    path = tmp_path / "bert.json"
    config = BertConfig(
        vocab_size=1000,
        d_model=12,
        n_layer=1,
        n_head=2,
        d_inner=10,
        max_position_embeddings=14,
    )
    path.write_text(json.dumps(config.to_dict()))
    ranker = {"ranker": "cosine", "seeds": 1}
    made = {"model_config_path": str(path)}
    for flag in ("max_doc_length", "max_query_length"):
        with pytest.raises(UserError, match=f"--{flag}=13: .* 14 positions"):
            rank(tmp_path, spiece_model, ranker=ranker | {flag: 13}, **made)
    ranker |= {"max_doc_length": None, "max_query_length": None}
    said = []
    found = rank(tmp_path, spiece_model, said, ranker=ranker, **made)
    assert "cosine" in found["systems"]
    cut = [line for line in said if "their first 12 pieces" in line]
    assert [line.split()[0] for line in cut] == ["documents", "queries"]
    again = []  # what is said changes no result
    ranker |= {"max_doc_length": 12, "max_query_length": 12}
    assert found == rank(tmp_path, spiece_model, again, ranker=ranker, **made)
    assert not any("their first" in line for line in again)
    said = []
    ranker |= {"max_doc_length": None, "max_query_length": None}
    rank(tmp_path, spiece_model, said, ranker={**ranker, "vectors": "random"})
    assert not any("their first" in line for line in said)


MISTAKES = [
    (
        lambda f: spoil(f, "qrels", "0 0 ", "0 0 0 0 "),
        {},
        "qrels:1: wanted 4 columns",
    ),
    (
        lambda f: spoil(f, "topics.tsv", "\t", " "),
        {},
        "topics.tsv:1: wanted <top>",
    ),
    (
        lambda f: spoil(f, "documents.jsonl", "{", ""),
        {"data": {"documents_format": "jsonl"}},
        "documents.jsonl:1: wanted a JSON object",
    ),
    (
        lambda f: spoil(f, "documents.jsonl", "d1", "d0"),
        {},
        "documents.jsonl:2: the document 'd0' comes a second time",
    ),
    (
        lambda f: (f / "qrels").write_text("99 0 d0 1\n"),
        {},
        "no query of .*topics.tsv .* is judged",
    ),
    (
        lambda f: (f / "qrels").write_text("1 0 d0 5\n"),
        {},
        "grade 5: gdeval takes at most 4",
    ),
    (
        lambda f: (f / "r").write_text(
            "".join(f"{q} Q0 d1 1 2.5 x\n{q} Q0 no 2 1 x\n" for q in range(9))
        ),
        {"data": {"run_file": "r"}},
        "--documents lacks 1 of 2 candidates, the first is 'no'",
    ),
    (
        lambda f: (f / "r").write_text("77 Q0 d1 1 2.5 x\n"),
        {"data": {"run_file": "r"}},
        "--run_file=.* has no judged query",
    ),
    (lambda f: None, {"data": {"folds": 10}}, "--folds must be 3 to"),
    (lambda f: None, {"ranker": {"layer": "3"}}, "--layer must be 0"),
    (
        lambda f: np.save(f / "v.npy", np.zeros((3, 4), np.float32)),
        {"ranker": {"vectors": "v.npy"}},
        r"wanted floats \[1000, D\].*found float32 \[3, 4\]",
    ),
    (
        lambda f: None,
        {"data": {"trec_measures": ("bogus",)}, "ranker": {"ranker": "bm25"}},
        "wanted measures that trec_eval averages over queries, found 'bogus'",
    ),
]


@pytest.mark.parametrize(("spoil_it", "changes", "message"), MISTAKES)
def test_a_mistake_is_one_line(
    tmp_path, spiece_model, spoil_it, changes, message
):
    toy.write(tmp_path)
    spoil_it(tmp_path)
    changes = {k: dict(v) for k, v in changes.items()}
    for part, name in (("data", "run_file"), ("ranker", "vectors")):
        if name in changes.get(part, {}):
            path = tmp_path / changes[part][name]
            changes[part][name] = str(path)
    with pytest.raises(UserError, match=message) as caught:
        rank(tmp_path, spiece_model, **changes)
    assert "\n" not in str(caught.value)


def test_several_processes_are_refused(tmp_path):
    """Each would write the files of all, and wait for the other's lock."""
    made = toy.options(tmp_path)
    strategy = StrategyOptions(
        distribution_strategy="multi_worker_mirrored",
        worker_hosts="localhost:1,localhost:2",
        task_index=1,
    )
    run = made.finetune.run.replace(strategy=strategy)
    finetune = dataclasses.replace(made.finetune, run=run)
    with pytest.raises(UserError, match="run_ranking.py runs in one process"):
        dataclasses.replace(made, finetune=finetune)
