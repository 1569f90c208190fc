"""Flags of the server: whose names it goes by, and who is warned."""

import socket

import pytest
from absl import flags

from common.errors import UserError
from flags.serving import serve_flags
from serving import serve
from serving.options import ServerOptions
from tests.flags.fresh_flags import remove_ours


@pytest.fixture
def parse():
    """Registers the flags anew; options of a command line."""

    def run(*arguments):
        remove_ours()
        serve_flags.define()
        flags.FLAGS(["serve", "--saved_model_dir=d", *arguments])
        return serve_flags.from_flags()[0]

    yield run
    remove_ours()


def test_the_host_header_is_checked_at_every_address(parse):
    loopback = {"127.0.0.1", "localhost", "::1", "[::1]"}
    assert set(parse().allowed_hosts) == loopback
    assert set(parse("--host=LOCALHOST").allowed_hosts) == loopback
    names = loopback | {"0.0.0.0", socket.gethostname()}
    assert set(parse("--host=0.0.0.0").allowed_hosts) == names
    one = parse("--host=0.0.0.0", "--allowed_hosts=a.example")
    assert one.allowed_hosts == ("a.example",)
    assert parse("--allowed_hosts=*").allowed_hosts == ()
    assert parse("--allowed_hosts=::1,a").allowed_hosts == ("::1", "a")


@pytest.mark.parametrize("name", ["a.example:8501", "https://a.example", "a/b"])
def test_an_allowed_host_has_no_port(parse, name):
    """No Host header was compared with it: every request got 403."""
    with pytest.raises(UserError, match=f"^--allowed_hosts={name}: wanted"):
        parse(f"--allowed_hosts=b.example,{name}")


def test_an_open_server_is_one_line_of_warning(capsys):
    keys = ServerOptions(api_keys_file="keys.txt")
    serve.warn_of_strangers("localhost", ServerOptions())
    serve.warn_of_strangers("0.0.0.0", keys)
    assert not capsys.readouterr().err
    serve.warn_of_strangers("0.0.0.0", ServerOptions())
    (line,) = capsys.readouterr().err.splitlines()
    assert "--host=0.0.0.0" in line and "--api_keys_file" in line


def test_an_empty_host_is_not_taken_for_all_addresses(parse):
    """`--host="$HOST"` without HOST."""
    with pytest.raises(UserError, match="--host is empty"):
        parse("--host=")
