"""Several processes of one fine-tuning: one writes, all read what it wrote."""

import dataclasses
import json
from pathlib import Path

import pytest
import sentencepiece

from data.finetuning.classifier.task import ClassifierTask
from data.finetuning.options import ClassifierDataOptions, FeatureOptions
from tests.helpers import commands
from tests.helpers.runs import builds
from tests.helpers.runs.classifier import (
    CONFIG,
    make_job,
    make_options,
    write_task,
)
from tools.soak import killing, starting
from training import strategy
from training.finetuning import command, ensemble
from training.finetuning.driver import Driver
from training.run_options import StrategyOptions

SECOND = StrategyOptions(
    distribution_strategy="multi_worker_mirrored",
    worker_hosts="localhost:1,localhost:2",
    task_index=1,
)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The folder of a task, its vocabulary and a model of one step."""
    folder = tmp_path_factory.mktemp("processes")
    spiece = builds.train_spiece(folder, builds.write_corpus(folder / "c.txt"))
    write_task(folder, rows=12)
    size = sentencepiece.SentencePieceProcessor(spiece).get_piece_size()
    config = CONFIG | {"n_token": size, "n_layer": 1}
    (folder / "config.json").write_text(json.dumps(config))
    options = make_options(folder, steps=1, do_train=True)
    Driver(make_job(folder, spiece, options), options, say=str).run()
    return folder, spiece


def as_second(options, monkeypatch):
    """Options of the second process, whose collectives are this one's own."""
    made = strategy.setup(options.run.strategy)
    monkeypatch.setattr(strategy, "setup", lambda options: made)
    run = options.run.replace(strategy=SECOND)
    return dataclasses.replace(options, run=run)


def contents(folder):
    return {p: p.stat().st_mtime_ns for p in folder.rglob("*") if p.is_file()}


@pytest.mark.long
def test_the_second_process_writes_and_says_nothing(trained, monkeypatch):
    folder, spiece = trained
    before, said = contents(folder), []
    options = make_options(
        folder,
        do_eval=True,
        do_predict=True,
        do_export=True,
        eval_all_ckpt=True,
        slice_by_length=True,
    )
    options = as_second(options, monkeypatch)
    job = make_job(folder, spiece, options)
    found = Driver(job, options, lambda *a, **k: 1 / 0, say=said.append).run()
    member = ensemble.Member(
        options.run.model_dir,
        job,
        dataclasses.replace(options, eval_all_ckpt=False),
    )
    together = ensemble.run([member], member.options, said.append)
    assert together["dev"].items() < found["dev"].items()  # no loss
    assert contents(folder) == before and said == []
    # It knows the numbers, as all processes do.
    assert 0.0 <= found["dev"]["accuracy"] <= 1.0


@pytest.mark.long
def test_processes_meet_when_the_folder_is_whole(trained, monkeypatch):
    """What follows reads it: another process would find other weights."""
    folder, spiece = trained
    model = folder / "whole"
    found = []

    class Meeting:
        def total(self, value):
            log = model / "evaluations.jsonl"
            steps = log.read_text().count("\n") if log.exists() else 0
            pointer = (model / "checkpoint").exists()
            found.append((steps, pointer))
            return value

    monkeypatch.setattr(strategy, "meeting_of", lambda strategy: Meeting())
    options = make_options(
        folder,
        steps=2,
        do_train=True,
        run={"model_dir": str(model), "eval_every": 1, "iterations": 1},
    )
    Driver(make_job(folder, spiece, options), options, say=str).run()
    assert found[-1] == (2, True) and (model / "best").is_dir()


@pytest.mark.long
def test_processes_leave_together(trained, monkeypatch):
    """Who has written nothing is done first, or the other way round."""
    folder, spiece = trained
    places = []

    class Meeting:
        def total(self, value):
            places.append((folder / "out" / "test_predictions.tsv").exists())
            return value

    monkeypatch.setattr(strategy, "meeting_of", lambda strategy: Meeting())
    options = make_options(
        folder, do_eval=True, do_predict=True, predict_dir=str(folder / "out")
    )
    task = make_job(folder, spiece, options)
    Driver(task, options, say=str).run()
    assert places[-1]
    places.clear()
    (folder / "out" / "test_predictions.tsv").unlink()
    member = ensemble.Member(options.run.model_dir, task, options)
    ensemble.run([member], options, str)
    assert places[-1]


@pytest.mark.long
def test_a_run_per_seed_of_the_second_process(trained, monkeypatch, capsys):
    """Its summary is the first one's: no file, no line of its own."""
    folder, spiece = trained
    home = folder / "seeds"
    said = []

    def read(model_dir=str(home), seed=0, **changes):
        options = make_options(
            folder,
            steps=1,
            do_train=True,
            do_eval=True,
            num_seeds=2,
            run={"model_dir": model_dir},
        )
        chosen = dataclasses.replace(SECOND if second else one, seed=seed)
        run = options.run.replace(strategy=chosen)
        return {
            "options": dataclasses.replace(options, run=run),
            "data": ClassifierDataOptions("tsv", str(folder)),
            "features": FeatureOptions(spiece, 16),
        }

    one = make_options(folder, do_eval=True).run.strategy
    second = False
    first = command.run(ClassifierTask, read, read(), say=said.append)
    assert (home / "seeds.json").exists() and "2 seeds" in said[-1]
    (home / "seeds.json").unlink()
    second = True
    said.clear()
    setup = strategy.setup
    local = {s: setup(dataclasses.replace(one, seed=s)) for s in (0, 1)}
    monkeypatch.setattr(strategy, "setup", lambda options: local[options.seed])
    assert command.run(ClassifierTask, read, read(), say=said.append) == first
    assert not (home / "seeds.json").exists() and said == []


@pytest.mark.slow
def test_seeds_in_two_real_processes(trained):
    """Both end, one writes, and the numbers are those of one process."""
    folder, spiece = trained
    common = [
        *("run_classifier.py", "--task_name=tsv", f"--data_dir={folder}"),
        *(f"--spiece_model_file={spiece}", "--max_seq_length=16"),
        f"--model_config_path={folder}/config.json",
        *("--train_batch_size=4", "--eval_batch_size=4", "--train_steps=2"),
        *("--do_train", "--do_eval", "--num_seeds=2"),
    ]
    alone = commands.run(*common, f"--model_dir={folder}/alone")
    assert alone.returncode == 0, alone.stderr[-3000:]
    hosts = ",".join(f"localhost:{port}" for port in killing.free_ports(2))
    with starting.Group() as group:
        for index in (0, 1):
            arguments = [
                *(*common, f"--model_dir={folder}/both"),
                "--distribution_strategy=multi_worker_mirrored",
                *(f"--worker_hosts={hosts}", f"--task_index={index}"),
            ]
            group.start(arguments, f"{folder}/both.{index}.log")
        group.finish(300)
    first, second = (Path(log).read_text() for log in group.logs)
    assert "strategy     CollectiveAllReduceStrategy, 2 replica(s)" in first
    for text in (first, second):
        assert "may cause error" not in text  # a library's line
    assert "2 seeds" in first and "step 2/2" not in second
    found, wanted = (
        json.loads((folder / name / "seeds.json").read_text())["seeds"]
        for name in ("both", "alone")
    )
    assert found.keys() == wanted.keys() == {"0", "1"}
    for seed, splits in wanted.items():
        assert found[seed]["dev"] == pytest.approx(splits["dev"], abs=1e-5)
        assert (folder / "both" / f"seed_{seed}" / "eval_dev.json").exists()
