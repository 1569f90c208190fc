"""What is said when no TPU can be had."""

import pytest
import tensorflow as tf
import tf_keras
from official.common import distribute_utils

from common.errors import UserError
from common.process import tpu_build
from training import strategy
from training.run_options import StrategyOptions

# As TensorFlow says it on a machine without TPU.
NO_PLATFORM = """Graph execution error:

Detected at node disconnect_tpu_host/_1 defined at (most recent call last):
<stack traces unavailable>
RET_CHECK failure (tpu_node_interfaces.cc:432) *platform
\t [[{{node disconnect_tpu_host/_1}}]] [Op:__inference__tpu_init_fn_4]"""


class ClientError(Exception):
    """Neither TensorFlow's nor built in, as those of Google's clients."""


@pytest.fixture
def fails(monkeypatch):
    """Lets the strategy fail with an error; gives the message."""
    monkeypatch.setattr(tpu_build, "check", lambda address: None)
    versions = {"tensorflow-tpu": "2.20.0", "libtpu": "0.0.21"}
    monkeypatch.setattr(tpu_build, "version_of", versions.get)
    monkeypatch.delenv("TPU_LIBRARY_PATH", raising=False)

    def message(error, **options):
        def make(name, tpu_address):
            assert (name, tpu_address) == ("tpu", options.get("tpu", "local"))
            raise error

        monkeypatch.setattr(distribute_utils, "get_distribution_strategy", make)
        with pytest.raises(UserError) as e:
            strategy.setup(
                StrategyOptions(distribution_strategy="tpu", **options)
            )
        assert "\n" not in str(e.value)
        return str(e.value)

    return message


def test_no_chips_names_what_was_looked_for(fails, monkeypatch):
    monkeypatch.setattr(
        strategy, "_device_names", lambda: "CPU:0, TPU_SYSTEM:0"
    )
    message = fails(tf.errors.InternalError(None, None, NO_PLATFORM))
    assert message.startswith(
        "no TPU at --tpu=local: InternalError: RET_CHECK failure "
        "(tpu_node_interfaces.cc:432) *platform. Devices found: CPU:0, "
        "TPU_SYSTEM:0; tensorflow-tpu 2.20.0, libtpu 0.0.21. libtpu started "
        "and has no chips"
    )
    assert "docs/guides/tpu.md" in message


def test_a_driver_that_another_process_holds(fails, monkeypatch):
    """Seen with two processes: TensorFlow tells the lock in its log alone."""
    monkeypatch.setattr(strategy, "_device_names", lambda: "CPU:0")
    message = fails(
        tf.errors.NotFoundError(
            None,
            None,
            "TPUs not found in the cluster. Failed in initialization: No "
            "matching devices found for '/device:TPU_SYSTEM:0'",
        )
    )
    assert "NotFoundError: TPUs not found in the cluster." in message
    assert "Devices found: CPU:0" in message
    assert "libtpu did not start: another process uses the TPU" in message
    assert "`sudo rm /tmp/libtpu_lockfile`" in message


def test_no_tpu_of_that_name(fails):
    message = fails(ClientError("404 Not Found"), tpu="pod")
    assert message.startswith("no TPU at --tpu=pod: ClientError: 404 Not Found")
    assert "scripts/tpu/worker.sh" in message


def test_an_error_without_text(fails):
    assert "no TPU at --tpu=x: ClientError:." in fails(ClientError(), tpu="x")


def test_the_environment_is_checked_before_anything_is_set(monkeypatch):
    def refuse(address):
        raise UserError(f"checked {address}")

    monkeypatch.setattr(tpu_build, "check", refuse)
    before = tf_keras.mixed_precision.global_policy().name
    assert before == "float32"
    with pytest.raises(UserError, match="checked somewhere"):
        strategy.setup(
            StrategyOptions(
                distribution_strategy="tpu",
                tpu="somewhere",
                precision="mixed_bfloat16",
            )
        )
    assert tf_keras.mixed_precision.global_policy().name == before


def test_the_precision_is_that_of_the_last_setup():
    """Runs of two precisions by turns in one process."""
    found = []
    for precision in ("float32", "mixed_bfloat16", "float32", "mixed_bfloat16"):
        strategy.setup(StrategyOptions(precision=precision))
        found.append(tf_keras.mixed_precision.global_policy().name)
    assert found == ["float32", "mixed_bfloat16"] * 2
