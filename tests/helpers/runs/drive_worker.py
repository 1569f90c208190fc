"""A training whose device is in another process, as on a TPU pod.

    python -m tests.helpers.runs.drive_worker FOLDER

`TPUStrategy` drives TensorFlow's workers on the hosts of a pod from one
process. Here a worker's CPU stands for the chips: the same command once on this
process's CPU (`FOLDER/here`), once on the worker's (`FOLDER/there`). Where the
batches lay is in `FOLDER/places.json`.
"""

import os
import runpy
import signal
import sys

from common import files
from tools.soak import killing, starting

STEPS = 20


def serve(port: int) -> None:
    """TensorFlow's worker, as `scripts/tpu/worker.sh` runs it."""
    import tensorflow as tf

    cluster = {"worker": [f"localhost:{port}"]}
    tf.distribute.Server(cluster, job_name="worker", task_index=0).join()


def train_there(port: int, command: list[str], places: str) -> None:
    """The command on the worker's CPU."""
    import tensorflow as tf

    from training import run, strategy
    from training.step import batch_split

    found = {}

    def make(options):
        tf.config.experimental_connect_to_host(f"localhost:{port}")
        remote = "/job:worker/replica:0/task:0/device:CPU:0"
        return tf.distribute.OneDeviceStrategy(remote)

    distribute = batch_split.distribute

    def look(*arguments):
        dataset, spec = distribute(*arguments)
        found["batch"] = next(iter(dataset))["input_ids"].device
        files.write_json(places, found)
        return dataset, spec

    strategy._make = make
    # The input lies on the worker, as `TPUStrategy` puts it.
    batch_split._all_cpus = lambda strategy: False
    run.distribute = look
    sys.argv = command[1:]
    runpy.run_path(command[1], run_name="__main__")


def main() -> None:
    """Both runs, in forks of this process."""
    folder = os.path.abspath(sys.argv[1])
    starting.preload()
    data_dir = killing.make_data(folder)
    here, there = (os.path.join(folder, name) for name in ("here", "there"))
    if killing.start(killing.training_command(data_dir, here, STEPS)).wait():
        raise RuntimeError(f"the run failed: see {here}.log")
    (port,) = killing.free_ports(1)
    worker = starting.Forked(lambda: serve(port))
    command = killing.training_command(data_dir, there, STEPS)
    places = os.path.join(folder, "places.json")
    driver = starting.Forked(lambda: train_there(port, command, places))
    try:
        if driver.wait(120):
            raise RuntimeError("the driven run failed")
    finally:
        driver.send_signal(signal.SIGKILL)
        worker.send_signal(signal.SIGKILL)
        worker.wait()
    if not starting.in_fork(killing.same_checkpoints, here, there):
        raise RuntimeError("other weights or memory")


if __name__ == "__main__":
    main()
