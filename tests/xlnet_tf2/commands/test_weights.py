"""Every command reads the same weights of a folder, and says the same line.

Commands are called as functions.
"""

import dataclasses
import json
import shutil
import urllib.request

import numpy as np
import pytest
import tensorflow as tf

from modeling.checkpoints import conversion, native, restore
from modeling.checkpoints.names import named_variables
from modeling.command_options import ConvertOptions
from serving.export import __main__ as export_command
from serving.generation.language_model import load_encoder
from serving.generation.options import ModelOptions
from serving.options import ExportOptions
from serving.saved_model import SavedModel
from tests.helpers.model_folders import (
    BEST,
    LAST,
    STATES,
    best_alone,
    copied,
    make_world,
    multi_task_part,
    read_network,
    resumed_without_evaluation,
)
from training.checkpointing import run_state
from training.finetuning import driver, ensemble
from training.finetuning.driver import Driver


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return make_world(tmp_path_factory.mktemp("weights"))


# --- Commands: folder -> the line about the weights -----------------------------


def line_of(said) -> str:
    (found,) = {line for line in said if line.startswith("weights  ")}
    return found


def evaluate(world, model, capsys):
    found = line_of(world.run(model, do_eval=True))
    stored = json.loads((model / "eval_dev.json").read_text())
    assert str(model / stored["checkpoint"]) in found
    return found


def predict(world, model, capsys):
    return line_of(world.run(model, do_predict=True))


def member(world, model, capsys):
    """Of an ensemble: its own folder is not the ensemble's."""
    own = world.options(model, do_predict=True)
    home = model.parent / "together"
    home.mkdir(exist_ok=True)
    together = world.options(home, do_predict=True)
    said = []
    one = ensemble.Member(str(model), world.job(own), own)
    ensemble.run([one], together, said.append)
    record = json.loads((home / "ensemble.json").read_text())
    found = line_of(said)
    assert str(model / record["checkpoints"][0]) in found
    return found


def served(about: dict) -> str:
    """What predict and serve say of an export that describes its weights."""
    model = object.__new__(SavedModel)
    model.version_dir, model.description = "1", {"weights": about}
    return model.weights_line


def export_of_run(world, model, capsys):
    told = []

    def export(folder, network, spec, spiece, weights):
        told.append(weights)
        return folder

    options = world.options(model, do_export=True)
    said = []
    Driver(world.job(options), options, export, say=said.append).run()
    found = line_of(said)
    digest = restore.content_digest(told[0]["checkpoint"])
    assert told[0]["sha256"] == digest and served(told[0]) == found
    return found


def export(world, model, capsys):
    told = []

    def write(output, network, spec, spiece, name, check, weights):
        told.append(weights)
        return output

    options = ExportOptions(str(model), checkpoint_choice=world.choice)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("serving.export.exporter.export_model", write)
        patch.setattr(export_command.flag_values, "build", lambda _: options)
        export_command.main()
    found = line_of(capsys.readouterr().out.splitlines())
    assert served(told[0]) == found
    return found


def convert(world, model, capsys):
    target = model.parent / "converted"
    lines = conversion.convert(
        ConvertOptions(
            "native",
            "hf",
            str(model),
            str(target),
            checkpoint_choice=world.choice,
        )
    )
    shutil.rmtree(target)
    return line_of(lines)


def embed(world, model, capsys):
    options = ModelOptions(
        str(model), world.spiece, checkpoint_choice=world.choice
    )
    load_encoder(options, 0)
    return line_of(capsys.readouterr().err.splitlines())


def warm_start(world, model, capsys):
    options = world.options(
        model.parent / "next",
        run={"init_checkpoint": str(model)},
        do_train=True,
    )
    objective = driver.build_objective(world.job(options), options)
    return run_state.open_run(objective, options.run).weights.line


COMMANDS = (
    evaluate,
    predict,
    member,
    export_of_run,
    export,
    convert,
    embed,
    warm_start,
)


@pytest.mark.long
@pytest.mark.parametrize("state", STATES, ids=lambda f: f.__name__)
def test_all_commands_read_the_same_weights(
    world, state, tmp_path, capsys, monkeypatch
):
    model, wanted = state(world, tmp_path / "m")
    digest = restore.content_digest(str(model / wanted))
    capsys.readouterr()
    read = []
    plain = native.read
    monkeypatch.setattr(native, "read", lambda p: read.append(p) or plain(p))
    lines = set()
    for command in COMMANDS:
        read.clear()
        lines.add(command(world, model, capsys))
        found = {restore.content_digest(path) for path in read}
        assert found == {digest}, command.__name__
    (line,) = lines
    assert line.partition(" (")[0] == f"weights      {model / wanted}"


@pytest.mark.long
@pytest.mark.parametrize(
    "choice, wanted, why",
    [("last", LAST, "the newest"), ("best", BEST, "the best by loss, 0.25")],
)
def test_all_commands_read_what_is_asked_for(
    world, tmp_path, capsys, choice, wanted, why
):
    world = dataclasses.replace(world, choice=choice)
    model = copied(world, tmp_path / "m")
    for command in COMMANDS:
        found = command(world, model, capsys)
        assert found == f"weights      {model / wanted} ({why})"


def test_best_is_a_path_of_its_own(world, tmp_path, capsys):
    """It has the model's settings, whatever was trained since."""
    model, _ = resumed_without_evaluation(world, tmp_path / "m")
    for command in (export, convert, embed, warm_start):
        found = command(world, model / "best", capsys)
        assert found == f"weights      {model / BEST} (the newest)"
    said = world.run(model, do_predict=True, predict_ckpt=str(model / "best"))
    assert line_of(said) == found


@pytest.mark.long
def test_a_line_for_a_worse_number_of_other_weights(world, tmp_path):
    model = copied(world, tmp_path / "m")
    path = model / "eval_dev.json"

    def evaluated(number):
        path.write_text(json.dumps({"accuracy": number, "checkpoint": LAST}))
        said = world.run(model, do_eval=True)
        assert json.loads(path.read_text())["checkpoint"] == BEST
        return [line for line in said if line.startswith("note")]

    (line,) = evaluated(1.01)
    assert f"had accuracy 1.01 of {LAST}, and has now" in line
    assert line.endswith(f" of {BEST}") and evaluated(-0.01) == []


@pytest.mark.long
def test_all_checkpoints_and_the_best_one(world, tmp_path):
    model = copied(world, tmp_path / "m")
    said = world.run(model, do_eval=True, eval_all_ckpt=True)
    found = json.loads((model / "eval_all_ckpt.json").read_text())
    assert list(found["scores"]) == [BEST, "model.ckpt-2", LAST]
    assert found["scores"][BEST] == found["scores"]["model.ckpt-2"]
    assert str(model / found["best"]) in line_of(said)
    assert found["best"] != "model.ckpt-2"  # the first of equals


@pytest.mark.long
def test_all_checkpoints_leave_the_numbers_of_the_best_one(world, tmp_path):
    """Whose step is nowhere else: what is left beside it is worse."""
    model = copied(world, tmp_path / "m")
    loss = {"do_eval": True, "best_metric": "loss"}
    world.run(model, **loss)
    path = model / "eval_dev.json"
    before = path.read_bytes()
    assert json.loads(before)["checkpoint"] == BEST
    network = read_network(model, LAST)
    bias = named_variables(network)["model/classification/logit/bias"]
    bias.assign([40.0, -40.0])  # wrong by 80 of every "yes"
    for old in model.glob("model.ckpt-*"):
        old.unlink()
    tf.train.Checkpoint(model=network).write(str(model / LAST))
    world.run(model, eval_all_ckpt=True, **loss)
    found = json.loads((model / "eval_all_ckpt.json").read_text())
    assert found["best"] == BEST and list(found["scores"]) == [BEST, LAST]
    assert found["scores"][BEST] < 2 < found["scores"][LAST]
    assert path.read_bytes() == before


def test_the_metric_of_the_best_cannot_change_unseen(world, tmp_path):
    """By accuracy, too, the kept one must be the best; else it is refused."""
    from common.errors import UserError
    from training.checkpointing.best_checkpoint import BestCheckpoint

    model = copied(world, tmp_path / "m")
    path = model / "evaluations.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]

    def log(*accuracies):
        text = ""
        for row, value in zip(rows, accuracies, strict=True):
            text += json.dumps(row | {"accuracy": value}) + "\n"
        path.write_text(text)

    def resume(metric, higher):
        return BestCheckpoint(
            str(model), tf.Module(), metric, higher, start_step=4
        )

    log(0.5, 0.75)
    with pytest.raises(
        UserError, match="kept by loss .* best by accuracy is at step 4"
    ):
        resume("accuracy", True)
    log(0.75, 0.75)  # the first of equals
    assert float(resume("accuracy", True).value) == 0.75
    assert float(resume("loss", False).value) == 0.25
    with pytest.raises(UserError, match="best by f2 is in no evaluation"):
        resume("f2", True)


def test_a_model_folder_called_best_has_settings_of_its_own(world, tmp_path):
    from common.contract import task_spec

    model = copied(world, tmp_path / "best")
    for path in (model, model / "best", model / BEST):
        assert task_spec.find_folder(str(path)) == str(model)
    # One level up another model has its own.
    shutil.copy(model / "task.json", tmp_path)
    assert task_spec.find_folder(str(model)) == str(model)
    assert task_spec.find_folder(str(model / LAST)) == str(model)


def test_a_run_cannot_begin_anew_with_its_own_best(world, tmp_path):
    from common.errors import UserError

    model, _ = best_alone(world, tmp_path / "m")
    with pytest.raises(
        UserError, match="starts over: give another --model_dir"
    ):
        world.run(
            model, do_train=True, run={"init_checkpoint": str(model / "best")}
        )
    assert (model / "best").is_dir()


@pytest.mark.slow
@pytest.mark.parametrize(
    "state",
    [state for state in STATES if state is not multi_task_part],
    ids=lambda f: f.__name__,
)
def test_a_started_server_answers_from_these_weights(world, state, tmp_path):
    """Its answers are the predictions of the folder, and its line is theirs."""
    pytest.importorskip("fastapi")
    from serving.export.exporter import export_model
    from serving.options import ServerOptions
    from serving.web.app import build_app
    from tests.serving.web.page_server import serving

    model, wanted = state(world, tmp_path / "m")
    options = world.options(model, do_predict=True, do_export=True)

    def export(*arguments, **more):
        return export_model(*arguments, **more, check=False)

    said = []
    Driver(world.job(options), options, export, say=said.append).run()
    rows = (model / "predictions" / "test_predictions.tsv").read_text()
    rows = [row.split("\t") for row in rows.splitlines()[1:]]
    texts = (world.folder / "test.tsv").read_text().splitlines()[1:]
    served = SavedModel(str(model / "export" / "1"))
    assert str(model / wanted) in line_of(said) == served.weights_line
    with serving(build_app(served, ServerOptions())) as address:
        request = urllib.request.Request(
            f"http://{address}/v1/models/xlnet:predict",
            json.dumps({"instances": texts}).encode(),
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            answers = json.loads(answer.read())["predictions"]
    found = [answer["probabilities"] for answer in answers]
    told = [[float(p) for p in row[2:]] for row in rows]
    np.testing.assert_allclose(found, told, atol=2e-6)
