"""A newer version takes over while requests run; a damaged one is skipped."""

import asyncio
import gc
import logging
import os
import threading
import time
import weakref

import pytest
import tensorflow as tf

pytest.importorskip("fastapi")
testclient = pytest.importorskip("fastapi.testclient")

from common.errors import UserError  # noqa: E402
from serving.options import ServerOptions  # noqa: E402
from serving.saved_model import find_version, versions_below  # noqa: E402
from serving.web.app import build_app  # noqa: E402
from serving.web.scheduler import Scheduler  # noqa: E402
from serving.web.versions import Versions  # noqa: E402
from tests.serving.web.counting_model import PREDICT, FakeModel  # noqa: E402


def write_version(folder, number, whole=True):
    path = folder / str(number)
    path.mkdir(exist_ok=True)
    name = "saved_model.pb" if whole else "variables"
    (path / name).write_text("x")
    return str(path)


class Models:
    """Loads what `write_version` wrote; keeps what it made."""

    def __init__(self):
        self.made = {}
        self.tries = []

    def load(self, path):
        version = os.path.basename(path)
        self.tries.append(version)
        if not os.path.exists(os.path.join(path, "saved_model.pb")):
            raise UserError(f"{path} is cut off")
        model = FakeModel()
        model.version, model.version_dir = version, path
        self.made[version] = model
        return model


@pytest.fixture
def models():
    return Models()


def served(client):
    status = client.get("/v1/models/xlnet").json()["model_version_status"]
    return status[0]["version"]


def wait(condition):
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_newer_version_takes_over(tmp_path, models, caplog):
    model = models.load(write_version(tmp_path, 1))
    options = ServerOptions(poll_s=0.01, timeout_s=20)
    app = build_app(model, options, models.load)
    body = {"instances": ["abc"]}
    with (
        caplog.at_level(logging.WARNING, "serving"),
        testclient.TestClient(app) as client,
    ):
        assert client.post(PREDICT, json=body).is_success
        # An incomplete one: one line, one try, and the old one stays.
        write_version(tmp_path, 3, whole=False)
        wait(lambda: "3" in models.tries)
        time.sleep(0.1)
        assert models.tries.count("3") == 1 and served(client) == "1"
        skipped = [r for r in caplog.messages if "version 3 is skipped" in r]
        assert len(skipped) == 1 and "is cut off" in skipped[0]

        # A request that has begun ends on the version that it began with.
        model.gate.clear()
        answers = []
        asking = threading.Thread(
            target=lambda: answers.append(client.post(PREDICT, json=body))
        )
        asking.start()
        lanes = app.state.scheduler._lanes
        wait(lambda: app.state.scheduler.working)
        write_version(tmp_path, 2)
        wait(lambda: served(client) == "2")
        fresh = client.post(PREDICT, json=body)
        assert fresh.is_success and models.made["2"].batches == [1]
        assert not answers and len(lanes) == 2
        model.gate.set()
        asking.join()
        assert answers[0].is_success and model.batches == [1, 1]
        wait(lambda: len(lanes) == 1)

        # The incomplete one is completed.
        write_version(tmp_path, 3)
        wait(lambda: served(client) == "3")
        assert client.get("/about").json()["version"] == "3"
        assert client.get("/readyz").is_success


@pytest.mark.long
def test_a_version_that_ended_is_let_go(tmp_path, models):
    """Also when the collector was told to pass over what was there."""
    model = models.load(write_version(tmp_path, 1))
    model.itself = model
    gone = weakref.ref(model)
    app = build_app(model, ServerOptions(poll_s=0.01), models.load)
    models.made.clear()
    del model
    gc.freeze()
    try:
        with testclient.TestClient(app) as client:
            assert client.post(PREDICT, json={"instances": ["a"]}).is_success
            write_version(tmp_path, 2)
            wait(lambda: gone() is None)
            assert served(client) == "2"
            assert gc.get_freeze_count()
    finally:
        gc.unfreeze()


def test_without_poll_s_nothing_is_looked_for(tmp_path, models):
    model = models.load(write_version(tmp_path, 1))
    app = build_app(model, ServerOptions(), models.load)
    with testclient.TestClient(app) as client:
        write_version(tmp_path, 2)
        time.sleep(0.1)
        assert served(client) == "1" and models.tries == ["1"]


def test_a_start_takes_the_newest_whole_version(tmp_path, capsys):
    write_version(tmp_path, 9)
    write_version(tmp_path, 10, whole=False)
    assert find_version(str(tmp_path)) == str(tmp_path / "9")
    assert "10 is incomplete: skipped" in capsys.readouterr().err
    with pytest.raises(UserError, match="holds no SavedModel"):
        find_version(str(tmp_path / "10"))


def test_what_is_no_number_is_no_version(tmp_path, models):
    """Digits that `int` does not take, and names that are not their number."""
    for name in ("\u00b2", "\u0663", "007", "-4", "5a", "3.tmp"):
        write_version(tmp_path, name)
    write_version(tmp_path, 1)
    assert versions_below(str(tmp_path)) == [1]
    model = models.load(write_version(tmp_path, 2))
    versions = Versions(model, Scheduler(ServerOptions()), models.load)
    write_version(tmp_path, 6)

    async def look():
        async with versions.run():
            found = await versions.look()
            return found and versions.current.model.version

    assert asyncio.run(look()) == "6"


@pytest.mark.parametrize("folder", [".", "ram://polled"])
def test_a_folder_at_hand_and_a_bucket_are_looked_at(
    tmp_path, monkeypatch, folder
):
    """Both had another parent, which holds no version."""
    monkeypatch.chdir(tmp_path)

    def write(number):
        tf.io.gfile.makedirs(f"{folder}/{number}")
        with tf.io.gfile.GFile(f"{folder}/{number}/saved_model.pb", "w") as f:
            f.write("x")

    def load(path):
        model = FakeModel()
        model.version, model.version_dir = os.path.basename(path), path
        return model

    write(1)
    model = load(find_version(folder))
    write(2)
    versions = Versions(model, Scheduler(ServerOptions()), load)

    async def look():
        async with versions.run():
            found = await versions.look()
            return found, versions.current.model.version

    assert asyncio.run(look()) == (True, "2")


def test_the_openapi_description_is_of_the_version_that_is_served(
    tmp_path, models
):
    model = models.load(write_version(tmp_path, 1))
    options = ServerOptions(poll_s=0.01)

    def load(path):
        newer = models.load(path)
        spec = {"dtype": "string", "shape": [None]}
        pair = {"inputs": {"text_a": spec, "text_b": spec}, "outputs": {}}
        newer.description = {
            "head": "regression",
            "signatures": {"serving_default": pair},
        }
        return newer

    with testclient.TestClient(build_app(model, options, load)) as client:

        def described():
            found = client.get("/openapi.json").json()
            (call,) = (
                calls["post"]
                for path, calls in found["paths"].items()
                if path.endswith("{name}:predict")
            )
            content = call["requestBody"]["content"]["application/json"]
            rows = content["schema"]["properties"]["instances"]["items"]
            row = rows["anyOf"][0] if "anyOf" in rows else rows
            ranks = "/rerank" in found["paths"]
            return found["info"]["version"], row["required"], ranks

        assert described() == ("1", ["text"], False)
        write_version(tmp_path, 2)
        wait(lambda: served(client) == "2")
        assert described() == described() == ("2", ["text_a", "text_b"], True)
