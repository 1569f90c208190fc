"""From options to devices: replicas, processes, and what cannot be had."""

import dataclasses
import json
import os
import types

import pytest
import tensorflow as tf
import tf_keras
from official.common import distribute_utils

from common.errors import UserError
from common.process import tpu_build
from tests.helpers import commands
from training import strategy
from training.reporting import loss_log
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


@pytest.mark.slow
def test_a_worker_that_is_driven_trains_the_same(tmp_path):
    """In another process, as `TPUStrategy` drives a pod's."""
    done = commands.run("-m", "tests.helpers.runs.drive_worker", str(tmp_path))
    # Weights, slots and memory are compared there.
    assert done.returncode == 0, done.stderr[-2000:]
    places = json.loads((tmp_path / "places.json").read_text())
    assert places["batch"].startswith("/job:worker/")
    logs = [loss_log.read(str(tmp_path / n))[1] for n in ("here", "there")]
    assert len(logs[0]) == 20 and logs[0].tolist() == logs[1].tolist()


VIRTUAL = StrategyOptions(
    distribution_strategy="mirrored", num_virtual_replicas=3
)


def test_one_strategy_per_process_whatever_the_seed():
    """Another would make a second set of collective operations."""
    made = strategy.setup(VIRTUAL)
    assert strategy.setup(dataclasses.replace(VIRTUAL, seed=8)) is made
    two = dataclasses.replace(VIRTUAL, num_virtual_replicas=2)
    assert strategy.setup(two) is not made
    assert strategy.describe(made) == (
        "MirroredStrategy, 3 replica(s), 1 process(es)"
    )
    assert strategy.is_chief(made) and strategy.meeting_of(made) is None
    places = made.experimental_local_results(made.run(lambda: tf.identity(1.0)))
    assert [p.device[-5:] for p in places] == ["CPU:0", "CPU:1", "CPU:2"]


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"num_hosts": 2}, "--num_hosts=2 but there are 1"),
        (
            {"num_core_per_host": 2},
            "--num_core_per_host=2 on 1 host.s. but there are 3 replica",
        ),
    ],
)
def test_other_devices_than_are_expected_stop_the_run(changes, message):
    assert strategy.setup(
        dataclasses.replace(VIRTUAL, num_hosts=1, num_core_per_host=3)
    )
    with pytest.raises(UserError, match=message):
        strategy.setup(dataclasses.replace(VIRTUAL, **changes))


def test_gpus_that_are_not_there(monkeypatch):
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: [kind])
    with pytest.raises(UserError, match="--num_gpus=2 but TensorFlow sees 1"):
        strategy._make(
            StrategyOptions(distribution_strategy="mirrored", num_gpus=2)
        )
    asked = []

    def make(name, num_gpus, all_reduce_alg):
        asked.append((name, num_gpus, all_reduce_alg))
        raise ValueError("no such device\nand more")

    monkeypatch.setattr(distribute_utils, "get_distribution_strategy", make)
    for options in (
        StrategyOptions(),  # all that there are, at most one
        StrategyOptions(num_gpus=0),
        StrategyOptions(
            distribution_strategy="mirrored", all_reduce_alg="nccl"
        ),
    ):
        with pytest.raises(UserError, match="could not be made: no such dev"):
            strategy._make(options)
    assert asked == [
        ("one_device", 1, None),
        ("one_device", 0, None),
        ("mirrored", 1, "nccl"),
    ]


def test_a_name_and_a_place_of_the_tpu_reach_the_resolver(fails, monkeypatch):
    for name in ("CLOUDSDK_COMPUTE_ZONE", "CLOUDSDK_CORE_PROJECT"):
        monkeypatch.setenv(name, "another")
    fails(ClientError("x"), tpu="pod2", tpu_zone="here-a", gcp_project="mine")
    assert os.environ["CLOUDSDK_COMPUTE_ZONE"] == "here-a"
    assert os.environ["CLOUDSDK_CORE_PROJECT"] == "mine"


WORKERS = StrategyOptions(distribution_strategy="multi_worker_mirrored")


def of_cluster(kind, index, *jobs):
    """TF_CONFIG of one process; `jobs` have two processes each."""
    cluster = {job: [f"{job}:1", f"{job}:2"] for job in jobs}
    return json.dumps(
        {"cluster": cluster, "task": {"type": kind, "index": index}}
    )


@pytest.mark.parametrize(
    "config, writes",
    [
        (of_cluster("worker", 0, "worker"), True),
        (of_cluster("worker", "0", "worker"), True),
        (of_cluster("worker", 1, "worker"), False),
        (of_cluster("chief", 0, "chief", "worker"), True),
        (of_cluster("worker", 0, "chief", "worker"), False),
        (of_cluster("evaluator", 0, "worker"), False),
        ("{", True),  # `setup` says what is wrong with it
        ("[]", True),
        ("{}", True),
    ],
)
def test_the_chief_of_several_processes_writes(monkeypatch, config, writes):
    monkeypatch.setenv("TF_CONFIG", config)
    assert strategy.may_write(WORKERS) == writes
    assert strategy.may_write(StrategyOptions())
    for index, wanted in ((-1, True), (0, True), (1, False)):
        options = dataclasses.replace(
            WORKERS, worker_hosts="a:1,b:2", task_index=index
        )
        assert strategy.may_write(options) == wanted


class Resolver:
    """Stands for TensorFlow's resolver of a cluster."""

    def __init__(self, task_type, task_id, **jobs):
        self.task_type, self.task_id = task_type, task_id
        self.jobs = jobs

    def cluster_spec(self):
        return tf.train.ClusterSpec(self.jobs)


class ToyTPUResolver(Resolver):
    """One process drives the workers of a pod."""


def with_resolver(resolver):
    return types.SimpleNamespace(
        cluster_resolver=resolver, num_replicas_in_sync=4
    )


@pytest.mark.parametrize(
    "resolver, chief, processes",
    [
        (None, True, 1),
        (Resolver(None, None), True, 1),
        (Resolver("worker", 0, worker=["a:1", "b:1"]), True, 2),
        (Resolver("worker", 1, worker=["a:1", "b:1"]), False, 2),
        (Resolver("chief", 0, chief=["a:1"], worker=["b:1", "c:1"]), True, 3),
        (Resolver("worker", 0, chief=["a:1"], worker=["b:1"]), False, 2),
        (ToyTPUResolver("worker", 1, worker=["a:1", "b:1"]), True, 1),
    ],
)
def test_who_is_chief_of_how_many(resolver, chief, processes):
    made = with_resolver(resolver)
    assert strategy.is_chief(made) == chief
    assert strategy.worker_count(made) == processes
    assert strategy.describe(made).endswith(
        f"4 replica(s), {processes} process(es)"
    )


@pytest.mark.parametrize(
    "changes, config, message",
    [
        ({}, None, "needs --worker_hosts=host:port,host:port"),
        ({}, "{", "wrong TF_CONFIG or --task_index"),
        (
            {"worker_hosts": "a:1,b:2"},
            None,
            "wrong TF_CONFIG or --task_index: .*task_index",
        ),
        (
            {"worker_hosts": "a:1,b:2", "task_index": 2},
            None,
            "--task_index must be below the number of workers, 2, received 2",
        ),
        (
            {},
            of_cluster("worker", 2, "worker"),
            "`index` of TF_CONFIG must be below the number of workers, 2, rec",
        ),
        ({}, "[1]", "TF_CONFIG: wanted `cluster` with the hosts of a job, fou"),
        ({}, '{"cluster": {}, "task": {}}', "wanted `cluster` .*, found {}"),
        (
            {},
            '{"cluster": {"worker": "a:1"}, "task": {"type": "worker"}}',
            r'wanted \["host:port", ...\] for worker, found \'a:1\'',
        ),
        ({}, '{"cluster": {"worker": [5]}}', r"for worker, found \[5\]"),
        ({}, of_cluster("worker", 0, "boss"), "jobs among chief, worker, eval"),
        ({}, of_cluster("chief", 0, "worker"), "`task` whose `type` is in `cl"),
        ({}, of_cluster("worker", "x", "worker"), "wanted an `index` of the"),
        ({}, of_cluster("worker", -1, "worker"), "wanted an `index` of the"),
        (
            {"worker_hosts": "a:1,b:2", "task_index": 0},
            of_cluster("worker", 0, "worker"),
            "--worker_hosts=a:1,b:2 .* and TF_CONFIG=.* contradict each other",
        ),
        (  # both processes would take themselves for the one that writes
            {"worker_hosts": "worker:1,worker:2"},
            of_cluster("worker", 1, "worker"),
            "task_index=-1. and TF_CONFIG=.* contradict each other",
        ),
        (
            {"all_reduce_alg": "hierarchical_copy"},
            of_cluster("worker", 0, "worker"),
            "must be ring or nccl .* received 'hierarchical_copy'",
        ),
    ],
)
def test_a_cluster_that_is_wrong(monkeypatch, changes, config, message):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    if config is not None:
        monkeypatch.setenv("TF_CONFIG", config)
    with pytest.raises(UserError, match=message) as e:
        strategy._make(dataclasses.replace(WORKERS, **changes))
    assert "\n" not in str(e.value)


def test_a_meeting_adds_what_all_replicas_say():
    meeting = strategy.Meeting(strategy.setup(VIRTUAL))
    assert meeting.total(0.5) == 1.5
    assert meeting.total(0.0) == 0.0


def test_what_comes_too_late_for_tensorflow_is_one_line(monkeypatch):
    def started(count):
        raise RuntimeError("already initialized")

    for name in ("intra", "inter"):
        with monkeypatch.context() as patch:
            patch.setattr(
                tf.config.threading,
                f"set_{name}_op_parallelism_threads",
                started,
            )
            options = StrategyOptions(**{f"{name}_op_threads": 3})
            with pytest.raises(UserError, match="set before TensorFlow starts"):
                strategy._set_threads(options)
            strategy._set_threads(StrategyOptions())  # nothing is asked for
    with pytest.raises(UserError, match="cannot be split into 99 replicas"):
        strategy._split_cpu(99)
    strategy._split_cpu(4)  # as it is split already


def test_threads_are_those_of_the_cores_that_are_left(monkeypatch):
    """A run that went on under `taskset` had no note: the machine was asked."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {1})
    found = strategy.threads(StrategyOptions(inter_op_threads=3))
    assert found == {"intra_op_threads": 1, "inter_op_threads": 3}
