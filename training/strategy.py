"""From `StrategyOptions` to a `tf.distribute.Strategy`, once per process."""

import dataclasses
import functools
import json
import os

import tensorflow as tf
import tf_keras
from official.common import distribute_utils

from common.errors import UserError
from common.process import cores, tpu_build
from training.run_options import StrategyOptions

EVALUATOR = "evaluator"
JOBS = ("chief", "worker", EVALUATOR)  # of TF_CONFIG


def setup(options: StrategyOptions) -> tf.distribute.Strategy:
    """Prepares TensorFlow for a run and makes the strategy.

    Sets threads, virtual devices, determinism, the global seed and the Keras
    precision policy, so it must come before anything touches a device. A
    second call with equal options returns the same strategy; the policy is set
    by every call, as a run of another precision may lie between.
    Raises UserError: the devices asked for are not there, or this environment
    cannot drive a TPU.
    """
    # Runs of several seeds in one process share it. TensorFlow warns of a second
    # set of collective operations, and a TPU would be initialized again.
    strategy = _made_once(dataclasses.replace(options, seed=0))
    _seed_once(options)
    tf_keras.mixed_precision.set_global_policy(options.precision)
    return strategy


@functools.cache
def _made_once(options: StrategyOptions) -> tf.distribute.Strategy:
    if options.distribution_strategy == "tpu":
        tpu_build.check(options.tpu)
    _set_threads(options)
    if options.num_virtual_replicas > 1:
        _split_cpu(options.num_virtual_replicas)
    if options.deterministic and options.distribution_strategy != "tpu":
        tf.config.experimental.enable_op_determinism()
    if options.num_virtual_replicas > 1:
        # `distribute_utils` gives "mirrored" a single CPU.
        strategy = tf.distribute.MirroredStrategy(
            [f"CPU:{i}" for i in range(options.num_virtual_replicas)],
            # Adds in the order of replicas; the default, a collective, would
            # tie the process to one number of replicas.
            cross_device_ops=tf.distribute.ReductionToOneDevice(),
        )
    else:
        strategy = _make(options)
    _check_counts(strategy, options)
    return strategy


@functools.cache
def _seed_once(options: StrategyOptions) -> None:
    """Deterministic mode wants a global seed before the first random op."""
    tf_keras.utils.set_random_seed(options.seed)


def _check_counts(strategy, options: StrategyOptions) -> None:
    """The original's flags say what should be there: find out what is."""
    replicas = strategy.num_replicas_in_sync
    hosts = worker_count(strategy)
    if options.distribution_strategy == "tpu":
        hosts = strategy.extended.num_hosts
    if options.num_hosts and options.num_hosts != hosts:
        raise UserError(
            f"--num_hosts={options.num_hosts} but there are {hosts}"
        )
    cores = options.num_core_per_host
    if cores and cores * hosts != replicas:
        raise UserError(
            f"--num_core_per_host={cores} on {hosts} host(s) but there are "
            f"{replicas} replica(s)"
        )


def _make(options: StrategyOptions) -> tf.distribute.Strategy:
    name = options.distribution_strategy
    gpus = len(tf.config.list_physical_devices("GPU"))
    wanted = gpus if options.num_gpus < 0 else options.num_gpus
    if wanted > gpus:
        raise UserError(
            f"--num_gpus={wanted} but TensorFlow sees {gpus}; check the driver "
            "and CUDA_VISIBLE_DEVICES"
        )
    if name == "one_device":
        wanted = min(wanted, 1)
    if name == "multi_worker_mirrored":
        _configure_cluster(options)
        # `distribute_utils` makes the deprecated class of that name.
        how = {None: "AUTO", "ring": "RING", "nccl": "NCCL"}
        if options.all_reduce_alg not in how:
            raise UserError(
                "--all_reduce_alg must be ring or nccl with several processes,"
                f" received {options.all_reduce_alg!r}"
            )
        return tf.distribute.MultiWorkerMirroredStrategy(
            communication_options=tf.distribute.experimental.CommunicationOptions(
                implementation=how[options.all_reduce_alg]
            )
        )
    if name == "tpu":
        return _make_tpu(options)
    try:
        return distribute_utils.get_distribution_strategy(
            name,
            num_gpus=wanted,
            all_reduce_alg=options.all_reduce_alg,
        )
    except (ValueError, tf.errors.OpError) as e:
        text = str(e).strip().splitlines()[0]
        raise UserError(
            f"--distribution_strategy={name} could not be made: {text}"
        ) from e


def _make_tpu(options: StrategyOptions) -> tf.distribute.Strategy:
    """Connects to the TPU; UserError: none answers, and what was found."""
    _name_tpu(options)
    address = options.tpu or "local"
    try:
        return distribute_utils.get_distribution_strategy(
            "tpu", tpu_address=address
        )
    except Exception as e:
        # Clients of Google's interfaces raise exceptions of their own.
        devices = _device_names()
        raise UserError(
            f"no TPU at --tpu={address}: {_first_fact(e)}. Devices found: "
            f"{devices}; {tpu_build.describe()}. {_advice(options, devices)}; "
            "docs/guides/tpu.md has the steps"
        ) from e


def _advice(options: StrategyOptions, devices: str) -> str:
    if not tpu_build.is_local(options.tpu):
        return (
            "See that the TPU is READY (`gcloud compute tpus tpu-vm "
            "describe`), that its hosts run the worker of TensorFlow "
            "(scripts/tpu/worker.sh) and that --tpu_zone and --gcp_project "
            "are its own"
        )
    if "TPU_SYSTEM" not in devices:
        return (
            "libtpu did not start: another process uses the TPU (`sudo lsof "
            f"-w {tpu_build.LOCK_FILE} /dev/accel* /dev/vfio/*`), or one that "
            f"crashed left its lock (`sudo rm {tpu_build.LOCK_FILE}`)"
        )
    return (
        "libtpu started and has no chips: see on the TPU VM that no other "
        "process uses them (`sudo lsof -w /dev/accel* /dev/vfio/*`)"
    )


def _first_fact(error: Exception) -> str:
    """The line of an error that says something, and its kind."""
    empty = ("Graph execution error", "Detected at node", "<stack traces")
    lines = [line.strip() for line in str(error).splitlines()]
    telling = [n for n in lines if n and not n.startswith(empty)]
    return f"{type(error).__name__}: {(telling or lines or [''])[0]}".strip()


def _device_names() -> str:
    try:
        devices = tf.config.list_logical_devices()
    except (RuntimeError, tf.errors.OpError) as e:
        return f"unknown ({_first_fact(e)})"
    names = (d.name.removeprefix("/device:") for d in devices)
    return ", ".join(names) or "none"


def _cluster_problem(value: object) -> str | None:
    """What is wrong with the value of TF_CONFIG; None = nothing.

    TensorFlow's own errors do not name it.
    """
    parts = value if isinstance(value, dict) else {}
    cluster, task = parts.get("cluster"), parts.get("task")
    if not isinstance(cluster, dict) or not cluster:
        return f"`cluster` with the hosts of a job, found {cluster!r:.80}"
    for job, hosts in cluster.items():
        if job not in JOBS:
            return f"jobs among {', '.join(JOBS)}, found {job!r:.80}"
        named = isinstance(hosts, list) and hosts
        if not named or not all(isinstance(host, str) for host in hosts):
            return f'["host:port", ...] for {job}, found {hosts!r:.80}'
    kinds = (*cluster, EVALUATOR)  # which need not be in the cluster
    if not isinstance(task, dict) or task.get("type") not in kinds:
        return f"a `task` whose `type` is in `cluster`, found {task!r:.80}"
    if not str(task.get("index")).isdecimal():
        return f"an `index` of the `task` from 0 on, found {task!r:.80}"
    return None


def _configure_cluster(options: StrategyOptions) -> None:
    if options.worker_hosts and not os.environ.get("TF_CONFIG"):
        hosts = options.worker_hosts.split(",")
        if len(hosts) > 1:  # alone a process has no number
            _check_number("--task_index", options.task_index, hosts)
    try:
        cluster = json.loads(os.environ.get("TF_CONFIG") or "{}")
        if cluster and (problem := _cluster_problem(cluster)):
            raise UserError(
                f"multi_worker_mirrored: TF_CONFIG: wanted {problem}; mend "
                "it, or unset it and give --worker_hosts and --task_index"
            )
        if cluster and options.worker_hosts:
            _check_same(cluster, options)
        distribute_utils.configure_cluster(
            options.worker_hosts, options.task_index
        )
        cluster = json.loads(os.environ.get("TF_CONFIG", "{}"))
    except ValueError as e:
        raise UserError(
            f"multi_worker_mirrored: wrong TF_CONFIG or --task_index: {e}"
        ) from e
    if not cluster:
        raise UserError(
            "multi_worker_mirrored needs --worker_hosts=host:port,host:port "
            "with --task_index, or TF_CONFIG"
        )
    task = cluster["task"]
    hosts = cluster["cluster"].get(task["type"])
    if hosts is None:
        return
    _check_number("`index` of TF_CONFIG", int(task["index"]), hosts)


def _check_same(cluster: dict, options: StrategyOptions) -> None:
    """UserError: TF_CONFIG, which counts, says other than the flags."""
    task, hosts = cluster["task"], options.worker_hosts.split(",")
    number = 0 if len(hosts) == 1 else options.task_index
    if cluster["cluster"] != {"worker": hosts} or number != int(task["index"]):
        raise UserError(
            f"--worker_hosts={options.worker_hosts} (--task_index="
            f"{options.task_index}) and TF_CONFIG={json.dumps(cluster)} "
            "contradict each other: leave out the flags, or unset TF_CONFIG"
        )


def _check_number(name: str, number: int, hosts: list[str]) -> None:
    if number >= len(hosts):
        raise UserError(
            f"multi_worker_mirrored: {name} must be below the number of "
            f"workers, {len(hosts)}, received {number}"
        )


def _name_tpu(options: StrategyOptions) -> None:
    """Zone and project go to the resolver through its environment."""
    if options.tpu_zone:
        os.environ["CLOUDSDK_COMPUTE_ZONE"] = options.tpu_zone
    if options.gcp_project:
        os.environ["CLOUDSDK_CORE_PROJECT"] = options.gcp_project


def threads(options: StrategyOptions) -> dict[str, int]:
    """What a run computes with: another number rounds sums in another order."""
    default = len(cores.usable())
    return {
        "intra_op_threads": options.intra_op_threads or default,
        "inter_op_threads": options.inter_op_threads or default,
    }


def _set_threads(options: StrategyOptions) -> None:
    try:
        if options.intra_op_threads:
            tf.config.threading.set_intra_op_parallelism_threads(
                options.intra_op_threads
            )
        if options.inter_op_threads:
            tf.config.threading.set_inter_op_parallelism_threads(
                options.inter_op_threads
            )
    except RuntimeError as e:
        raise UserError(
            f"thread counts must be set before TensorFlow starts: {e}"
        ) from e


def _split_cpu(count: int) -> None:
    cpu = tf.config.list_physical_devices("CPU")[0]
    have = tf.config.get_logical_device_configuration(cpu)
    if have and len(have) >= count:
        return
    try:
        tf.config.set_logical_device_configuration(
            cpu, [tf.config.LogicalDeviceConfiguration()] * count
        )
    except RuntimeError as e:
        raise UserError(
            f"the CPU cannot be split into {count} replicas any more: {e}"
        ) from e


def may_write(options: StrategyOptions) -> bool:
    """Whether this process will be the chief, before anything is connected."""
    if options.distribution_strategy != "multi_worker_mirrored":
        return True
    if options.worker_hosts:
        return options.task_index <= 0
    try:
        cluster = json.loads(os.environ.get("TF_CONFIG", "{}"))
        task = cluster["task"]
        if "chief" in cluster["cluster"]:
            return task["type"] == "chief"
        return task["type"] == "worker" and int(task["index"]) == 0
    except (ValueError, KeyError, TypeError):
        return True  # `setup` says what is wrong with it


def wait_for_all(options: StrategyOptions) -> None:
    """Returns when all processes of a run are here, so that files are there."""
    meeting = meeting_of(setup(options))
    if meeting:
        meeting.total(0.0)


def is_chief(strategy: tf.distribute.Strategy) -> bool:
    """True in the one process that writes files."""
    resolver = strategy.cluster_resolver
    if resolver is None or "tpu" in type(resolver).__name__.lower():
        return True
    spec = resolver.cluster_spec()
    if not spec or not spec.jobs:
        return True
    if resolver.task_type == "chief":
        return True
    has_chief = "chief" in spec.jobs
    return (
        not has_chief
        and resolver.task_type == "worker"
        and resolver.task_id == 0
    )


def worker_count(strategy: tf.distribute.Strategy) -> int:
    """Processes that run the same program."""
    resolver = strategy.cluster_resolver
    if resolver is None or "tpu" in type(resolver).__name__.lower():
        return 1
    spec = resolver.cluster_spec()
    return max(1, sum(spec.num_tasks(job) for job in spec.jobs))


class Meeting:
    """Where the processes of a run wait for each other."""

    def __init__(self, strategy: tf.distribute.Strategy):
        def one(x):
            context = tf.distribute.get_replica_context()
            # A copy on the replica's device, where the sum belongs.
            x = tf.identity(x)
            return context.all_reduce(tf.distribute.ReduceOp.SUM, x)

        @tf.function(autograph=False)
        def add(value):
            total = strategy.run(one, args=(value,))
            return strategy.experimental_local_results(total)[0]

        self._add = add

    def total(self, value: float) -> float:
        """The sum over all replicas; every process must come here.

        Raises tf.errors.OpError: another process is gone.
        """
        return float(self._add(tf.constant(value)))


def meeting_of(strategy: tf.distribute.Strategy) -> Meeting | None:
    """Of the processes of a run; None where there is one."""
    return Meeting(strategy) if worker_count(strategy) > 1 else None


def describe(strategy: tf.distribute.Strategy) -> str:
    """One phrase for the log."""
    workers = worker_count(strategy)
    return (
        f"{type(strategy).__name__}, {strategy.num_replicas_in_sync} "
        f"replica(s), {workers} process(es)"
    )
