"""Tasks together, a task alone, the paper's schedule and its submission."""

import contextlib
import dataclasses
import functools
import json
import shutil
import zipfile

import pytest
import sentencepiece

from common import files
from data.finetuning.classifier import submission
from modeling.checkpoints import native
from tests.helpers.model_folders import BEST, end_at, write_joint_run
from tests.helpers.runs import builds
from tests.helpers.runs.classifier import CONFIG, make_options
from tests.helpers.runs.multitask import command_fields, write_tasks
from training.finetuning import multitask, multitask_command
from training.finetuning.options import JOINT, OTHERS


@pytest.mark.long
def test_the_papers_second_stage_has_the_weights_of_the_joint_folder(
    tmp_path, monkeypatch
):
    """Its best ones, unless it was trained on: by the rule of all commands."""
    write_tasks(tmp_path)
    spiece = builds.train_spiece(
        tmp_path, builds.write_corpus(tmp_path / "corpus.txt")
    )
    size = sentencepiece.SentencePieceProcessor(spiece).get_piece_size()
    config = CONFIG | {"n_layer": 1, "n_token": size}
    (tmp_path / "config.json").write_text(json.dumps(config))
    monkeypatch.setattr(multitask_command, "JOINT", ())
    monkeypatch.setattr(multitask_command, "OTHERS", ("rte",))
    monkeypatch.setattr(
        multitask_command, "together", lambda *arguments: {"done": {}}
    )
    home = tmp_path / "home"

    def read(tasks=("sst-2", "rte"), model_dir=home, **changes):
        start = changes.get("init_checkpoint")
        run = {"model_dir": str(model_dir), "init_checkpoint": start}
        more = {"progress": "lines", "iterations": 1}
        options = make_options(
            tmp_path, steps=1, do_train=True, do_eval=True, run=run | more
        )
        fields = command_fields(tmp_path, spiece, tasks, options)
        settings = dataclasses.replace(fields["settings"], schedule="paper")
        return fields | {"settings": settings}

    fields = read()
    tasks, options = multitask_command._load(fields)
    joint = home / "joint"
    home.mkdir()
    objective = multitask.build_objective(tasks, fields["settings"], options)
    write_joint_run(joint, objective)

    def second_stage():
        said, loaded, plain = [], [], native.read
        with monkeypatch.context() as patch:
            patch.setattr(
                native, "read", lambda path: loaded.append(path) or plain(path)
            )
            multitask_command.run(read, fields, say=said.append)
        (line,) = (x for x in said if x.startswith(f"weights      {joint}/"))
        shutil.rmtree(home / "rte")
        return line, loaded[0]

    assert second_stage() == (
        f"weights      {joint / BEST} (the best by mean, 0.75)",
        str(joint / BEST),
    )
    end_at(joint, 6, evaluated=False)
    line, loaded = second_stage()
    assert loaded == str(joint / "model.ckpt-6")
    assert line == (
        f"weights      {loaded} (the newest; not best/: it is of step 2, and "
        "step 6 was not evaluated)"
    )


@pytest.mark.parametrize("given", [False, True])
def test_every_part_of_the_schedule_has_folders_of_its_own(
    tmp_path, monkeypatch, given
):
    """With --predict_dir and --export_dir, too: no part writes another's."""
    calls = []

    def read(tasks=("joint",), **changes):
        calls.append((tasks[0], changes))
        return {}

    monkeypatch.setattr(multitask_command, "together", lambda *a: {"x": {}})
    monkeypatch.setattr(multitask_command, "alone", lambda *a: {"dev": {}})
    released = contextlib.nullcontext
    monkeypatch.setattr(multitask_command.graph_memory, "released", released)
    folders = {"predict_dir": "out", "export_dir": "ex"} if given else {}
    options = make_options(
        tmp_path, do_train=True, do_export=True, do_predict=True, **folders
    )
    found = multitask_command.run_paper(read, options, None, str)
    assert list(found) == [*OTHERS, *JOINT]
    for part, changes in calls:
        assert changes["model_dir"] == str(tmp_path / "model" / part)
        own = {k: v for k, v in changes.items() if k in folders}
        assert own == {flag: f"{at}/{part}" for flag, at in folders.items()}


def test_a_dry_run_of_the_joint_tasks_ends_the_schedule(tmp_path, monkeypatch):
    monkeypatch.setattr(multitask_command, "together", lambda *a: {})
    options = make_options(tmp_path, do_train=True)
    said = []
    found = multitask_command.run_paper(
        lambda **changes: {}, options, None, said.append
    )
    assert found == {} and len(said) == 1
    assert said[0].startswith("--- mnli, sst-2, qnli, qqp together in ")


@pytest.mark.parametrize("given", [False, True])
def test_the_parts_predictions_are_one_zip(tmp_path, monkeypatch, given):
    rows = {"RTE.tsv": 2, "AX.tsv": 1, "QQP.tsv": 1}
    monkeypatch.setattr(submission, "ROWS", rows)
    checked = []
    monkeypatch.setattr(
        submission, "validate", lambda path: checked.append(path) or []
    )
    home, out = tmp_path / "home", str(tmp_path / "out") if given else ""

    def put(task, name, text):
        folder = tmp_path / "out" / task
        if not given:
            folder = home / task / "predictions"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)

    home.mkdir()
    put("rte", "RTE.tsv", "rte\n")
    put("mnli", "AX.tsv", "ax\n")
    put("other", "QQP.tsv", "of no part\n")
    said = []
    run = multitask_command.write_submission
    assert run(str(home), said.append, out) is None
    assert said == [
        "no submission: QQP.tsv missing, their test sets are not in --data_dir"
    ]
    put("qqp", "QQP.tsv", "qqp\n")
    path = run(str(home), said.append, out)
    assert path == str(home / multitask_command.ZIP) and checked == [path]
    assert said[-1] == f"wrote {path}, as GLUE's server expects it"
    with zipfile.ZipFile(path) as zipped:
        found = {name: zipped.read(name) for name in zipped.namelist()}
    assert found == {
        "AX.tsv": b"ax\n",
        "QQP.tsv": b"qqp\n",
        "RTE.tsv": b"rte\n",
    }
    monkeypatch.setattr(submission, "validate", lambda path: ["a", "b"])
    run(str(home), said.append, out)
    assert said[-1] == f"wrote {path}"
    assert said[-2].endswith(f"would refuse {path}: b")


def test_the_submission_of_a_bucket_is_written(monkeypatch):
    monkeypatch.setattr(multitask_command, "JOINT", ())
    monkeypatch.setattr(multitask_command, "OTHERS", ("rte",))
    monkeypatch.setattr(submission, "ROWS", {"RTE.tsv": 1})
    home = "ram://submitted"
    files.make_directory(f"{home}/rte/predictions")
    text = "index\tprediction\n0\tentailment\n"
    files.write_text(f"{home}/rte/predictions/RTE.tsv", text)
    monkeypatch.setattr(
        submission,
        "validate",
        functools.partial(submission.validate, rows=submission.ROWS),
    )
    said = []
    path = multitask_command.write_submission(home, said.append)
    assert said == [f"wrote {path}, as GLUE's server expects it"]
    assert files.exists(path)


def test_without_a_schedule_all_tasks_are_together(tmp_path, monkeypatch):
    options = make_options(tmp_path, do_train=True, do_predict=True)
    settings = multitask.MultiTaskOptions(("rte",), (8,), (1.0,))
    fields = {"options": options, "settings": settings}
    asked = []
    monkeypatch.setattr(
        multitask_command,
        "together",
        lambda *how: asked.append(how) or {"rte": {}},
    )
    exporter = type("Exporter", (), {"export_model": "made"})
    assert multitask_command.run(None, fields, exporter, str) == {"rte": {}}
    assert asked == [(fields, "made", str)]
    assert not (tmp_path / "model").exists()  # no submission
