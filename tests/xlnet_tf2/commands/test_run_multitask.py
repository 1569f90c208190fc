"""run_multitask.py end to end on made tasks and a toy model."""

import json

import numpy as np
import pytest

from common.errors import Stopped, UserError
from data.finetuning.classifier.task import ClassifierTask
from data.finetuning.options import ClassifierDataOptions, FeatureOptions
from tests.helpers.runs.classifier import make_options
from tests.helpers.runs.multitask import TASKS, run, write_tasks
from tests.helpers.runs.written_files import check_same
from training.finetuning import multitask, multitask_command
from training.finetuning.driver import Driver
from training.finetuning.options import JOINT, OTHERS


@pytest.mark.slow
@pytest.mark.shared
def test_two_kills_change_nothing_and_folders_stand_alone(
    tmp_path, spiece_model
):
    write_tasks(tmp_path)
    both = {"do_train": True, "do_eval": True}
    results, said = run(tmp_path, spiece_model, "whole", **both)
    assert set(results) == set(TASKS)
    assert sum(line.startswith("task ") for line in said) == 3
    for stop_at in (4, 8):
        run(tmp_path, spiece_model, "broken", stop_at, **both)
    again, _ = run(tmp_path, spiece_model, "broken", **both)
    assert again == results
    check_same(tmp_path / "broken", tmp_path / "whole")
    # The log says which task a step was of; several had their turn.
    rows = (tmp_path / "whole" / "losses.tsv").read_text().splitlines()
    assert rows[0].split("\t")[-1] == "task"
    assert len({row.split("\t")[-1] for row in rows[1:]}) > 1
    found = (tmp_path / "whole" / "evaluations.jsonl").read_text().splitlines()
    metrics = json.loads(found[-1])
    main = ("sst-2/accuracy", "sts-b/pearson", "rte/accuracy")
    mean = np.mean([metrics[name] for name in main])
    assert metrics["mean"] == pytest.approx(mean)
    # A task's folder is a fine-tuned model like any other.
    folder = multitask.task_folder(str(tmp_path / "whole"), "rte")
    options = make_options(tmp_path, do_eval=True, run={"model_dir": folder})
    job = ClassifierTask(
        ClassifierDataOptions("rte", str(tmp_path)),
        FeatureOptions(spiece_model, 16),
        options,
    ).load()
    alone = Driver(job, options, say=lambda line: None).run()
    assert alone["dev"] == pytest.approx(results["rte"]["dev"], abs=1e-6)


def test_the_papers_schedule_starts_each_part_where_it_says(
    tmp_path, monkeypatch
):
    calls = []

    def read(tasks=("joint",), model_dir="", init_checkpoint="", **changes):
        assert changes == (
            {"do_predict": False, "do_export": False} if not calls else {}
        )
        calls.append((*tasks, model_dir, init_checkpoint))
        return {}

    def alone(task, *arguments):
        if task == "qnli":
            raise Stopped("SIGTERM")
        return {"dev": {"accuracy": 0.5}}

    monkeypatch.setattr(
        multitask_command, "together", lambda *arguments: {"mnli": {}}
    )
    monkeypatch.setattr(multitask_command, "alone", alone)
    home = str(tmp_path)
    options = make_options(
        tmp_path,
        do_train=True,
        run={"model_dir": home, "init_checkpoint": "start"},
    )
    say = lambda line: None  # noqa: E731
    with pytest.raises(Stopped, match="SIGTERM"):
        multitask_command.run_paper(read, options, None, say)
    joint = f"{home}/joint"
    assert calls[0] == ("joint", joint, "start")
    assert calls[1:6] == [(t, f"{home}/{t}", joint) for t in OTHERS]
    assert [c[0] for c in calls[6:]] == ["mnli", "sst-2", "qnli"]
    assert {c[2] for c in calls[6:]} == {"start"}
    # qnli was stopped: qqp waits for the next call of the command.
    assert JOINT[-1] == "qqp"
    assert multitask_command.write_submission(home, say) is None


def test_pairs_of_names_and_numbers():
    from flags.tasks import multitask_flags

    found = multitask_flags.by_name("task_steps", ["MNLI:9", "sst-2:4"], int)
    assert found == {"mnli": 9, "sst-2": 4}
    for wrong in ("mnli", "mnli:0", ":3", "mnli:x", "mnli:inf"):
        with pytest.raises(UserError, match="--task_weights: wanted NAME:"):
            multitask_flags.by_name("task_weights", [wrong], float)
