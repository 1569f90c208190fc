"""The attacks on a server, each once, around a model that costs nothing."""

import http.client
import json
import subprocess
import sys
import threading
import time

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("httptools")

from serving.options import ServerOptions
from serving.web.transport import head, protocol
from tests.conftest import ROOT
from tests.serving.web.slow_server import SleepyModel, in_thread
from tools.soak import attack_table, attacks, hostile

ROW = {"text": "0"}  # the model sleeps so long
ATTACKS = attack_table.attacks(ROW)
ANSWERED = [n for n, a in ATTACKS.items() if a.then == hostile.READ]
LEFT = [n for n in ATTACKS if n not in ANSWERED]


@pytest.fixture(scope="module")
def served():
    """A server in a thread; its port is `served.port`."""
    options = ServerOptions(
        allowed_hosts=("localhost",), max_requests_per_address=0.0
    )
    with in_thread(SleepyModel(), options) as server:
        yield server


def wait_until(condition):
    end = time.monotonic() + 10
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    assert condition()


def ask(port):
    """The status of a good request."""
    client = http.client.HTTPConnection(hostile.HOST, port, timeout=10)
    client.request(
        "POST", attack_table.PREDICT, json.dumps({"instances": [ROW]})
    )
    answer = client.getresponse()
    answer.read()
    client.close()
    return answer.status


def test_the_table_holds_the_attacks_that_were_tried():
    good = b"{}"
    groups = (
        attack_table._bodies(ROW) | attack_table._connections(good),
        attack_table._trial(ROW),
        attack_table._ours(ROW, good),
    )
    assert [len(group) for group in groups] == [27, 32, 10]
    assert len(ATTACKS) == 69  # no name twice


@pytest.mark.long
@pytest.mark.parametrize("name", ANSWERED)
def test_an_attack_gets_its_status_and_is_closed(served, name):
    attack = ATTACKS[name]
    answer = hostile.perform(attack, served.port, hostile.Stop())
    if answer or len(attack.data) <= protocol._UNREAD:
        status = int(answer[9:12])
        assert attack.status in (0, status), answer[:200]
        assert status not in (500, 503, 504)
        assert status in (200, 403, 404, 405) or b'"error"' in answer
    wait_until(
        lambda: not served.scheduler.connections.total
    )  # nothing stays open
    assert ask(served.port) == 200


@pytest.mark.long
@pytest.mark.parametrize("name", LEFT)
def test_what_waits_for_an_attacker_is_little(served, name):
    """Of its head, of what it pipelines; and a neighbour is answered."""
    stop = hostile.Stop()
    thread = threading.Thread(
        target=hostile.perform, args=(ATTACKS[name], served.port, stop)
    )
    thread.start()
    try:
        for _ in range(5):
            time.sleep(0.05)
            for held in list(served.server_state.connections):
                assert len(held._head) <= head.MOST_HEAD + protocol._READ
                assert len(held._held) <= 4 * protocol._READ
            assert ask(served.port) == 200
    finally:
        stop.set()
        thread.join(30)
    wait_until(lambda: not served.scheduler.connections.total)


class Toy:
    """`tests.serving.web.slow_server`, as `attacks.Server`."""

    def __init__(self):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.serving.web.slow_server", "10", "5"],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.port = int(self.process.stdout.readline())

    def good_row(self):
        return ROW


@pytest.mark.slow
def test_good_neighbours_are_answered_whatever_others_do():
    names = [
        "deep lists",
        "memory: many long ids",
        "slow headers",
        "leaving in a body",
        "answers never read",
        "a huge body, in chunks",
        "U+FDFA",
        attacks.ALL,
    ]
    server = Toy()
    try:
        rows = attacks.run(server, 0.5, 2, names, say=lambda line: None)
        assert server.process.poll() is None
    finally:
        server.process.terminate()
        server.process.communicate(timeout=30)
    assert [row.name for row in rows] == ["quiet", *names, attacks.AGAIN]
    for row in rows:
        assert row.good > 0 and row.failed == 0, row
        assert row.control > 0 and row.server_cpu > 0, row
        # MiB; large requests are read by a process of their own.
        assert row.after < row.before + 300, row
