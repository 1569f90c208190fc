"""Wrong environments for a TPU are told before TensorFlow is loaded."""

import os
import socket
import subprocess
import sys

import pytest

from common.errors import UserError
from common.process import tpu_build
from tests.conftest import ROOT
from tests.helpers import fake_tpu

FINE_TUNE = ["--spiece_model_file=s", "--do_train", "--model_dir=y"]
COMMANDS = {
    "run_pretrain.py": ["--data_dir=x", "--model_dir=y"],
    "run_classifier.py": ["--task_name=cola", "--data_dir=x", *FINE_TUNE],
    "run_race.py": ["--data_dir=x", *FINE_TUNE],
    "run_ranking.py": ["--topics_file=x", "--documents=x", *FINE_TUNE],
    "run_squad.py": ["--train_file=x", *FINE_TUNE],
    "run_tagger.py": ["--data_dir=x", *FINE_TUNE],
}


@pytest.fixture(autouse=True)
def on_a_tpu_vm(monkeypatch):
    for name in list(os.environ):
        if name.startswith("TPU_") or name == "XLNET_TPU_CHECK":
            monkeypatch.delenv(name)
    monkeypatch.setattr(tpu_build, "tpu_devices", lambda: ["/dev/accel0"])


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """Makes an environment that is found first."""

    def make(**changes):
        folder = fake_tpu.environment(tmp_path / "site", **changes)
        monkeypatch.syspath_prepend(str(folder))
        return folder

    return make


def refusal(address=None) -> str:
    with pytest.raises(UserError) as e:
        tpu_build.check(address)
    assert "\n" not in str(e.value)
    return str(e.value)


def test_the_right_environment_passes(fake):
    fake()
    tpu_build.check(None)
    tpu_build.check("local")
    tpu_build.check("name-of-a-tpu")


def test_the_cpu_build_is_refused(monkeypatch):
    versions = {"tensorflow": "2.20.0"}
    monkeypatch.setattr(tpu_build, "version_of", versions.get)
    message = refusal()
    assert "needs the TPU build, tensorflow-tpu 2.20.0" in message
    assert "found tensorflow 2.20.0" in message
    assert "bash scripts/tpu/install.sh" in message
    tpu_build.check("name-of-a-tpu")  # its hosts have their own TensorFlow


def test_another_version_is_refused(fake):
    fake(tensorflow="2.19.1")
    assert "needs tensorflow-tpu 2.20.0, found" in refusal()


@pytest.mark.parametrize("address", [None, "local", "name-of-a-tpu"])
def test_an_overwritten_library_is_refused(fake, address):
    fake(size=1019)
    message = refusal(address)
    assert f"{fake_tpu.LIBRARY} has 1,019 bytes instead of 7" in message
    assert "bash scripts/tpu/install.sh" in message


def test_a_missing_library_is_refused(fake):
    folder = fake()
    (folder / fake_tpu.LIBRARY).unlink()
    (folder / "a b.so").unlink()
    message = refusal()
    assert f"{fake_tpu.LIBRARY} is missing instead of 7" in message
    assert "(and 1 more)" in message


@pytest.mark.parametrize("version", ["0.0.14", "0.0.21", "0.0.21.1", "0.0.31"])
def test_versions_of_libtpu_that_load(fake, version):
    fake(libtpu=version)
    tpu_build.check(None)


@pytest.mark.parametrize(
    "version", ["0.0.13", "0.0.32", "0.0.34", "0.0.52", "0.1.0", "0.0.9"]
)
def test_versions_of_libtpu_that_abort(fake, version, monkeypatch):
    fake(libtpu=version)
    assert f"Found libtpu {version}: install libtpu==0.0.21" in refusal()
    assert f"Found libtpu {version}" in refusal("name-of-a-tpu")
    # The command that drives a pod does not load it.
    monkeypatch.setenv("TPU_LOAD_LIBRARY", "0")
    tpu_build.check("name-of-a-tpu")
    monkeypatch.delenv("TPU_LOAD_LIBRARY")
    monkeypatch.setenv("TPU_LIBRARY_PATH", "/lib/libtpu.so")
    tpu_build.check(None)
    assert "TPU_LIBRARY_PATH=/lib/libtpu.so" in tpu_build.describe()


def test_without_libtpu(monkeypatch):
    versions = {"tensorflow-tpu": "2.20.0"}
    monkeypatch.setattr(tpu_build, "version_of", versions.get)
    monkeypatch.setattr(tpu_build, "changed_libraries", lambda _: [])
    assert "Found libtpu not at all" in refusal()


def test_a_driver_that_is_not_loaded_sees_no_tpu(fake, monkeypatch):
    fake()
    monkeypatch.setenv("TPU_LOAD_LIBRARY", "0")
    assert "TPU_LOAD_LIBRARY=0 keeps TensorFlow from" in refusal("local")


def test_a_machine_without_tpu(fake, monkeypatch):
    fake()
    monkeypatch.setattr(tpu_build, "tpu_devices", lambda: [])
    message = refusal()
    assert "no TPU in this machine" in message
    assert "tensorflow-tpu 2.20.0" in message and "libtpu 0.0.21" in message
    tpu_build.check("name-of-a-tpu")
    monkeypatch.setenv("TPU_SKIP_MDS_QUERY", "1")
    tpu_build.check(None)


def test_the_check_can_be_left_out(fake, monkeypatch):
    fake(libtpu="0.0.52", size=1)
    refusal()
    monkeypatch.setenv("XLNET_TPU_CHECK", "0")
    tpu_build.check(None)


def test_nobody_at_the_address(fake):
    fake()
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port = server.getsockname()[1]
        address = f"grpc://127.0.0.1:{port}"
        assert f"nobody answers at 127.0.0.1:{port}" in refusal(address)
        server.listen()
        tpu_build.check(address)
        two = f"{address},127.0.0.1:no"
        assert "nobody answers at 127.0.0.1:no" in refusal(two)


@pytest.mark.long
@pytest.mark.parametrize("command", COMMANDS)
def test_commands_say_it_before_tensorflow_aborts(tmp_path, command):
    folder = fake_tpu.environment(tmp_path / "site", libtpu="0.0.52")
    done = subprocess.run(
        [sys.executable, command, "--use_tpu", *COMMANDS[command]],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1, done.stderr[-2000:]
    assert done.stderr.startswith("error: tensorflow-tpu 2.20.0 was seen to")
    assert done.stderr.count("\n") == 1


def test_packages_are_compared_with_the_lock(tmp_path, fake, monkeypatch):
    folder = fake()
    real = tpu_build.version_of
    hidden = {"tensorflow"}  # the one that runs these tests
    monkeypatch.setattr(
        tpu_build, "version_of", lambda n: None if n in hidden else real(n)
    )
    lock = tmp_path / "lock.txt"
    lock.write_text("# a lock\ntensorflow-tpu==2.20.0\nlibtpu==0.0.21\n")
    tpu_build.check_packages(str(lock))
    (folder / fake_tpu.LIBRARY).write_bytes(b"1")
    with pytest.raises(UserError, match="1 bytes instead of 7"):
        tpu_build.check_packages(str(lock))
    lock.write_text("libtpu==0.0.22\nnot-there==1\n")
    with pytest.raises(
        UserError, match=r"libtpu 0.0.22 \(found 0.0.21\); not-"
    ):
        tpu_build.check_packages(str(lock))
    hidden.clear()
    if real("tensorflow"):
        lock.write_text("libtpu==0.0.21\n")
        with pytest.raises(UserError, match="no `tensorflow` beside"):
            tpu_build.check_packages(str(lock))
