"""The environment of a TPU VM, made in earnest by scripts/tpu/install.sh.

Takes about 1 GB of downloads, 3 GB of disk and some minutes.
"""

import os
import shutil
import subprocess
import sys

import pytest

from common.process import tpu_build
from tests.conftest import ROOT
from tests.helpers.runs import builds

pytestmark = pytest.mark.slow

BUILD_INFO = """
import json, sys
import tensorflow as tf, tensorflow_text, tf_keras, official
from common.process import tpu_build
print(json.dumps([
    tf.__version__,
    tf.sysconfig.get_build_info()["is_cuda_build"],
    [d.device_type for d in tf.config.list_logical_devices()],
    tpu_build.changed_libraries("tensorflow-tpu"),
    tpu_build.describe(),
]))
"""


def quiet_environment(**changes):
    """Without a TPU, libtpu must not ask for the metadata of its VM.

    TPU_LOAD_LIBRARY=1 loads it also where another process has it.
    """
    kept = {k: v for k, v in os.environ.items() if not k.startswith("TPU_")}
    settings = {"TPU_SKIP_MDS_QUERY": "1", "TPU_LOAD_LIBRARY": "1"}
    return kept | settings | {"PYTHONPATH": str(ROOT)} | changes


@pytest.fixture(scope="module")
def install(tmp_path_factory):
    """(the function that installs, path of the environment)."""
    index = [sys.executable, "-m", "pip", "index", "versions", "libtpu"]
    if subprocess.run(index, capture_output=True).returncode:
        if os.environ.get("XLNET_REQUIRE_SHARED") == "1":
            pytest.fail("no package index and XLNET_REQUIRE_SHARED=1")
        pytest.skip("the package index cannot be reached")
    venv = tmp_path_factory.mktemp("tpu") / "venv"

    def run():
        return subprocess.run(
            ["bash", "scripts/tpu/install.sh"],
            cwd=ROOT,
            env=os.environ | {"VENV": str(venv), "PYTHON": base_python()},
            capture_output=True,
            text=True,
        )

    yield run, venv
    shutil.rmtree(venv)


def base_python() -> str:
    """The Python that this environment was made with."""
    return os.path.realpath(sys.executable)


def run_python(venv, *arguments, **environment):
    return subprocess.run(
        [venv / "bin/python", *arguments],
        cwd=ROOT,
        env=quiet_environment(**environment),
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_the_environment(install, tmp_path):
    """One test: parallel workers would make one environment each."""
    run, venv = install
    done = run()
    assert done.returncode == 0, done.stderr[-3000:]
    assert "tensorflow-tpu 2.20.0, libtpu 0.0.21" in done.stdout

    check_build(venv)
    check_messages(venv, tmp_path)
    check_repair(run, venv)


def check_build(venv):
    done = run_python(venv, "-c", BUILD_INFO)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines()[-1] == (
        '["2.20.0", false, ["CPU", "TPU_SYSTEM"], [], '
        '"tensorflow-tpu 2.20.0, libtpu 0.0.21"]'
    )


def check_messages(venv, tmp_path):
    """run_pretrain.py on a machine without TPU."""
    manifest = builds.run(tmp_path)
    command = [
        "run_pretrain.py",
        f"--data_dir={manifest.data_dir}",
        f"--model_dir={tmp_path / 'model'}",
        *("--n_layer=1", "--d_model=8", "--n_head=2", "--d_head=4"),
        *("--d_inner=8", "--mem_len=20", "--train_batch_size=4"),
        *("--train_steps=2", "--use_tpu"),
    ]
    done = run_python(venv, *command, "--tpu=local")
    assert done.returncode == 1
    error = done.stderr.splitlines()[-1]
    assert error.startswith("error: no TPU at --tpu=local: InternalError: ")
    assert "Devices found: CPU:0, TPU_SYSTEM:0;" in error
    assert "libtpu started and has no chips" in error
    assert "tensorflow-tpu 2.20.0, libtpu 0.0.21" in error
    if not tpu_build.tpu_devices():
        # Without TPU_SKIP_MDS_QUERY it is told before TensorFlow is loaded.
        done = run_python(venv, *command, TPU_SKIP_MDS_QUERY="0")
        assert done.returncode == 1
        assert done.stderr.startswith("error: no TPU in this machine")
        assert done.stderr.count("\n") == 1


def check_repair(run, venv):
    """An overwritten library is told, put right, and then left alone."""
    library = next(venv.glob("lib/python3*/site-packages"))
    library = library / "tensorflow/libtensorflow_cc.so.2"
    size = library.stat().st_size
    os.truncate(library, 1000)  # another build's
    command = ["run_pretrain.py", "--data_dir=x", "--model_dir=y", "--use_tpu"]
    done = run_python(venv, *command)
    assert done.returncode == 1
    assert f"has 1,000 bytes instead of {size:,d}" in done.stderr
    done = run()
    assert done.returncode == 0, done.stderr[-3000:]
    assert "installing requirements-tpu.txt" in done.stdout
    assert library.stat().st_size == size
    done = run()
    assert done.returncode == 0, done.stderr[-3000:]
    assert "already installed" in done.stdout
