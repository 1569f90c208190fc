"""run_multitask.py end to end on made tasks and a toy model."""

import dataclasses
import json
import shutil

import numpy as np
import pytest
import sentencepiece

from common.errors import UserError
from data.finetuning.classifier.task import ClassifierTask
from data.finetuning.options import ClassifierDataOptions, FeatureOptions
from modeling.checkpoints import native
from tests.helpers.model_folders import BEST, end_at, write_joint_run
from tests.helpers.runs import builds
from tests.helpers.runs.classifier import CONFIG, WORDS, make_options
from tests.training.finetuning.written_files import files_of
from training.finetuning import multitask, multitask_command
from training.finetuning.driver import Driver
from training.finetuning.options import JOINT, OTHERS

TASKS = ("sst-2", "sts-b", "rte")
LENGTHS = (12, 20, 16)


def write_tasks(folder):
    """GLUE's layout: a class of a text, a value of two, a class of two."""
    rng = np.random.default_rng(1)
    heads = {
        "SST-2": ("sentence", "label"),
        "STS-B": ("sentence1", "sentence2", "score"),
        "RTE": ("sentence1", "sentence2", "label"),
    }
    for name, columns in heads.items():
        (folder / name).mkdir()
        for split, count in (("train", 24), ("dev", 9)):
            lines = ["\t".join(columns)]
            for _ in range(count):
                texts = [
                    " ".join(rng.choice(WORDS, rng.integers(1, 5)))
                    for _ in columns[1:]
                ]
                red = ["red" in text for text in texts]
                label = str(int(red[0]))
                if name == "STS-B":
                    label = f"{2.5 * sum(red)}"
                if name == "RTE":
                    label = (
                        "entailment" if red[0] == red[1] else "not_entailment"
                    )
                lines.append("\t".join([*texts, label]))
            (folder / name / f"{split}.tsv").write_text("\n".join(lines) + "\n")
    config = dict(CONFIG, n_layer=1, dropout=0.1)
    (folder / "config.json").write_text(json.dumps(config))


def run(folder, spiece, name, stop_at=None, **changes):
    options = make_options(
        folder,
        steps=12,
        run={
            "model_dir": str(folder / name),
            "iterations": 1,
            "save_steps": 3,
            "eval_every": 6,
            "progress": "lines",
        },
        **changes,
    )
    settings = multitask.MultiTaskOptions(
        TASKS, LENGTHS, (1.0, 0.5, 1.0), "sqrt"
    )
    tasks = {}
    for task, length in zip(TASKS, LENGTHS, strict=True):
        tasks[task] = ClassifierTask(
            ClassifierDataOptions(task, str(folder)),
            FeatureOptions(spiece, length),
            options,
        ).load()
    said = []

    class Crash(Exception):
        pass

    def say(line):
        said.append(line)
        if stop_at and line.startswith(f"step {stop_at}/"):
            raise Crash

    if stop_at:
        with pytest.raises(Crash):
            multitask.run(tasks, settings, options, say=say)
        return None, said
    return multitask.run(tasks, settings, options, say=say), said


def test_training_may_be_all_that_is_asked_for(
    tmp_path, spiece_model, monkeypatch
):
    write_tasks(tmp_path)
    for name in ("build_objective", "split_heads"):
        monkeypatch.setattr(multitask, name, lambda *arguments: None)
    trained = []
    monkeypatch.setattr(
        multitask, "_train", lambda *arguments: not trained.append(arguments)
    )
    results, _ = run(tmp_path, spiece_model, "alone", do_train=True)
    assert results == {} and len(trained) == 1


def command_fields(folder, spiece, tasks, options):
    """What `flags.tasks.multitask_flags.read` gives."""
    lengths = dict(zip(TASKS, LENGTHS, strict=True))
    return {
        "options": options,
        "settings": multitask.MultiTaskOptions(
            tasks, tuple(map(lengths.get, tasks)), (1.0,) * len(tasks)
        ),
        "data": {t: ClassifierDataOptions(t, str(folder)) for t in tasks},
        "features": {t: FeatureOptions(spiece, lengths[t]) for t in tasks},
        "flags": {},
    }


def test_a_tasks_metric_keeps_its_best(tmp_path, spiece_model, monkeypatch):
    """The least of errors and losses, the most of all others."""
    write_tasks(tmp_path)
    seen = []

    def train(objective, input_fn, options, **more):
        seen.append((options.best_metric, options.best_higher))
        raise KeyboardInterrupt  # what follows is none of this test's

    monkeypatch.setattr(multitask.loop, "train", train)

    def start(name, tasks=TASKS):
        options = make_options(
            tmp_path, do_train=True, best_metric=name, run={"eval_every": 2}
        )
        fields = command_fields(tmp_path, spiece_model, tasks, options)
        multitask_command.together(fields, say=lambda line: None)

    for name, higher in (
        ("", True),
        ("mean", True),
        ("rte/accuracy", True),
        ("sts-b/mse", False),
        ("rte/loss", False),
    ):
        with pytest.raises(KeyboardInterrupt):
            start(name)
        assert seen[-1] == (name or "mean", higher)
    with pytest.raises(KeyboardInterrupt):
        start("rte/accuracy", ("rte",))
    seen.clear()
    for wrong in ("accuracy", "rte/pearson", "mnli/accuracy"):
        with pytest.raises(
            UserError, match="--best_metric must be one of"
        ) as e:
            start(wrong)
        assert "mean, sst-2/accuracy, sst-2/loss, sts-b/pearson" in str(e.value)
    assert not seen


def test_another_length_than_the_trained_one_is_said(
    tmp_path, spiece_model, monkeypatch
):
    write_tasks(tmp_path)
    monkeypatch.setattr(Driver, "run", lambda self: {})
    monkeypatch.setattr(Driver, "__init__", lambda self, *arguments: None)
    owner = ClassifierTask(
        ClassifierDataOptions("rte", str(tmp_path)),
        FeatureOptions(spiece_model, 24),
        make_options(tmp_path, do_eval=True),
    )
    folder = tmp_path / "joint" / "tasks" / "rte"
    folder.mkdir(parents=True)
    owner.load().spec().write(str(folder))
    _, said = run(tmp_path, spiece_model, "joint", do_eval=True)
    assert said == [
        f"note: --max_seq_length=16, {folder}/task.json says 24",
    ]


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
    assert files_of(tmp_path / "broken") == files_of(tmp_path / "whole")
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
        return {"dev": {"accuracy": 0.5}} if task != "qnli" else {}

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
    assert multitask_command.run_paper(read, options, None, say) == {}
    joint = f"{home}/joint"
    assert calls[0] == ("joint", joint, "start")
    assert calls[1:6] == [(t, f"{home}/{t}", joint) for t in OTHERS]
    assert [c[0] for c in calls[6:]] == ["mnli", "sst-2", "qnli"]
    assert {c[2] for c in calls[6:]} == {"start"}
    # qnli was stopped: qqp waits for the next call of the command.
    assert JOINT[-1] == "qqp"
    assert multitask_command.write_submission(home, say) is None


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


def test_pairs_of_names_and_numbers():
    from flags.tasks import multitask_flags

    found = multitask_flags.by_name("task_steps", ["MNLI:9", "sst-2:4"], int)
    assert found == {"mnli": 9, "sst-2": 4}
    for wrong in ("mnli", "mnli:0", ":3", "mnli:x", "mnli:inf"):
        with pytest.raises(UserError, match="--task_weights: wanted NAME:"):
            multitask_flags.by_name("task_weights", [wrong], float)


@pytest.mark.shared
def test_a_head_begins_as_another_tasks(tmp_path, spiece_model):
    from modeling.checkpoints.names import named_variables
    from training.finetuning.head_start import head_start
    from training.finetuning.sources import find_config
    from training.objectives.build import build_objective

    write_tasks(tmp_path)
    options = make_options(tmp_path, do_train=True)
    job = ClassifierTask(
        ClassifierDataOptions("rte", str(tmp_path)),
        FeatureOptions(spiece_model, 16),
        options,
    ).load()
    config = find_config(options, job.tokenizer.vocab_size)
    head = {
        k: v for k, v in job.spec().head_options.items() if k != "num_labels"
    }

    def build(count):
        objective = build_objective(
            "classification", config, num_labels=count, **head
        )
        return objective.build_model()

    spec = dataclasses.replace(
        job.spec(),
        task_name="mnli",
        labels=("contradiction", "entailment", "neutral"),
        head_options=job.spec().head_options | {"num_labels": 3},
    )
    source, target = build(3), build(2)
    folder = multitask.task_folder(str(tmp_path / "joint"), "mnli")
    native.write(folder, source, config, spec.write)
    head_start("mnli", job.spec(), str(tmp_path / "joint"))(target)
    theirs, ours = (
        {n: v.numpy() for n, v in named_variables(m).items()}
        for m in (source, target)
    )
    kernel = theirs["model/classification/logit/kernel"]
    np.testing.assert_allclose(
        ours["model/classification/logit/kernel"],
        np.stack([kernel[:, 1], (kernel[:, 0] + kernel[:, 2]) / 2], 1),
        rtol=1e-6,
    )
    name = "model/sequnece_summary/summary/kernel"
    np.testing.assert_array_equal(ours[name], theirs[name])
    with pytest.raises(UserError, match="must be the --model_dir of a model"):
        head_start("qnli", job.spec(), str(tmp_path / "joint"))
