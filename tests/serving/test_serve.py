"""The command: in which order it starts, and what it says."""

import os
import signal
import socket
import sys

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

from common.errors import UserError
from flags.serving import serve_flags
from serving import saved_model, serve
from serving.options import ServerOptions
from serving.web.transport import access, listen
from tests.serving.web.counting_model import FakeModel

ENDS = (signal.SIGTERM, signal.SIGHUP)


class Loaded(FakeModel):
    """What stands in an export's place; notes how it was used."""

    weights_line = "weights of step 7"

    def __init__(self, path, trust_model):
        super().__init__()
        self.asked = (path, trust_model)
        self.warm = 0

    def warm_up(self):
        self.warm += 1


class Command:
    """The command with these flags, up to the server's loop."""

    def __init__(self, monkeypatch):
        self.models = []
        self.served = []  # (application, address of the client, at_start)
        self.sockets = []
        self._bind, self._patch = serve._bind, monkeypatch.setattr
        self._patch(serve, "_bind", self._noted)
        self._patch(saved_model, "SavedModel", self._load)
        self._patch(listen, "run", self._run)

    def __call__(self, folder="export", host="127.0.0.1", port=0, **options):
        made = (ServerOptions(**options), str(folder), host, port)
        self._patch(serve_flags, "from_flags", lambda: made)
        serve.main()

    def _noted(self, host, port):
        self.sockets.append(self._bind(host, port))
        return self.sockets[-1]

    def _load(self, path, trust_model):
        self.models.append(Loaded(path, trust_model))
        return self.models[-1]

    def _run(self, application, listener, at_start):
        address = listener.getsockname()
        # It listens already: callers are queued.
        with socket.create_connection(address[:2], timeout=10):
            self.served.append((application, address, at_start))


@pytest.fixture
def command(monkeypatch):
    made = Command(monkeypatch)
    before = {number: signal.getsignal(number) for number in ENDS}
    yield made
    for number, handler in before.items():
        signal.signal(number, handler)
    for listener in made.sockets:
        listener.close()


@pytest.mark.parametrize("number", ENDS)
def test_a_signal_while_the_model_is_read_is_no_failure(
    command, monkeypatch, number
):
    def load(path, trust_model):
        os.kill(os.getpid(), number)
        raise AssertionError("the signal was lost")

    signal.signal(number, signal.SIG_DFL)
    monkeypatch.setattr(saved_model, "SavedModel", load)
    with pytest.raises(SystemExit) as ended:
        command()
    assert ended.value.code == 0 and not command.served


def test_a_signal_that_is_ignored_stays_ignored(command):
    """As under `nohup`."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    command()
    assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN


def test_a_model_is_warmed_up_and_served_at_the_shown_address(command, capsys):
    command("export", trust_model=True)
    (model,) = command.models
    assert model.asked == ("export", True) and model.warm == 1
    ((application, (host, port), at_start),) = command.served
    assert application.state.name == "xlnet"
    assert at_start == application.state.scheduler.warm_up
    assert capsys.readouterr().err.splitlines() == [
        "weights of step 7",
        f"serving xlnet at http://{host}:{port}",
    ]


def test_the_line_names_precision_scheme_and_an_ipv6_host(
    command, monkeypatch, capsys
):
    told = FakeModel.description | {"precision": "mixed_bfloat16"}
    monkeypatch.setattr(Loaded, "description", told)
    listener = serve._bind("127.0.0.1", 0)  # not every machine has IPv6
    monkeypatch.setattr(serve, "_bind", lambda host, port: listener)
    monkeypatch.setattr(access, "check", lambda options: None)
    command(host="::1", ssl_certfile="cert.pem", model_name="ours")
    port = command.served[0][1][1]
    last = capsys.readouterr().err.splitlines()[-1]
    assert last == f"serving ours at https://[::1]:{port} in mixed_bfloat16"


def test_a_taken_port_costs_no_loading(command):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UserError, match="give another --port") as e:
            command(port=port)
    assert str(e.value).startswith(f"--host=127.0.0.1 --port={port} cannot")
    assert not command.models and not command.served


def test_a_host_of_elsewhere_is_named():
    """Another port would not help: 192.0.2.0/24 is nobody's (RFC 5737)."""
    with pytest.raises(UserError, match="give another --host, an address of"):
        serve._bind("192.0.2.1", 0)


def test_bad_keys_cost_neither_a_port_nor_loading(
    command, monkeypatch, tmp_path
):
    monkeypatch.setattr(serve, "_bind", None)
    with pytest.raises(UserError, match="^--api_keys_file="):
        command(api_keys_file=str(tmp_path / "none.txt"))
    assert not command.models


def test_one_version_has_no_newer_one_beside_it(command, tmp_path):
    (tmp_path / "saved_model.pb").write_bytes(b"")
    with pytest.raises(UserError, match="is one version: give the folder"):
        command(tmp_path, poll_s=5.0)
    command(tmp_path)  # without the search for newer ones
    command(tmp_path.parent, poll_s=5.0)
    assert len(command.served) == 2


def test_a_missing_package_says_how_to_install_it(command, monkeypatch):
    monkeypatch.setitem(sys.modules, "serving.web.app", None)
    with pytest.raises(UserError, match="app is missing: pip install -r req"):
        command()
    assert not command.models


def test_a_later_version_is_loaded_like_the_first(command, capsys):
    options = ServerOptions(trust_model=True)
    model = serve._load("export/8", options)
    assert model.asked == ("export/8", True) and model.warm == 1
    assert capsys.readouterr().err == "weights of step 7\n"


def test_a_socket_does_not_wait_for_the_end_of_older_connections():
    with serve._bind("127.0.0.1", 0) as listener:
        reuse = listener.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR)
        assert reuse and listener.family == socket.AF_INET
        # asyncio switches off Nagle's delay where the protocol is TCP by name.
        assert listener.proto == socket.IPPROTO_TCP
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(listener.getsockname(), timeout=10)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
def test_only_hosts_that_others_reach_are_warned_of(capsys, host):
    serve.warn_of_strangers(host, ServerOptions())
    assert capsys.readouterr().err == ""
    serve.warn_of_strangers("192.0.2.1", ServerOptions())
    assert capsys.readouterr().err.startswith("warning: at --host=192.0.2.1 ")


def test_the_second_of_two_servers_that_start_together_says_so(
    command, monkeypatch
):
    """Both were bound; the other one listens while this one loads."""
    first = serve._bind("127.0.0.1", 0)
    port = first.getsockname()[1]
    load = command._load

    def slowly(path, trust_model):
        first.listen()
        return load(path, trust_model)

    monkeypatch.setattr(saved_model, "SavedModel", slowly)
    with first, pytest.raises(UserError, match="in use; give another --port"):
        command(port=port)
    assert not command.served
