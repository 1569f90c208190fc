"""Training on a worker in another process, as `TPUStrategy` drives a pod's."""

import json

import pytest

from tests.helpers import commands
from training.reporting import loss_log


@pytest.mark.slow
def test_a_worker_that_is_driven_trains_the_same(tmp_path):
    done = commands.run(
        "-m", "tests.training.strategy.drive_worker", str(tmp_path)
    )
    # Weights, slots and memory are compared there.
    assert done.returncode == 0, done.stderr[-2000:]
    places = json.loads((tmp_path / "places.json").read_text())
    assert places["batch"].startswith("/job:worker/")
    logs = [loss_log.read(str(tmp_path / n))[1] for n in ("here", "there")]
    assert len(logs[0]) == 20 and logs[0].tolist() == logs[1].tolist()
