"""Flags of `serving.serve`."""

import ipaddress
import re
import socket

from absl import flags

from common.checks import require
from flags import flag_values
from serving.options import ServerOptions

FLAGS = flags.FLAGS
_LOOPBACK = ("127.0.0.1", "localhost", "::1", "[::1]")


def define() -> None:
    """Registers the flags of the server."""
    flags.DEFINE_string(
        "saved_model_dir",
        None,
        "Exported version folder, or its parent (the newest is served).",
        required=True,
    )
    flags.DEFINE_string(
        "host", "127.0.0.1", "Address to listen on; this machine alone."
    )
    flags.DEFINE_integer(
        "port", 8501, "Port to listen on; 0 takes a free one.", 0, 65535
    )
    flag_values.define(ServerOptions)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server at `host`."""
    return host.lower() in _LOOPBACK


def _can_be_in_a_header(name: str) -> bool:
    """Whether a Host header can give it, beside a port; or it is `*`."""
    try:
        ipaddress.ip_address(name.strip("[]"))  # of IPv6 has colons of its own
    except ValueError:
        return bool(name) and not re.search(r"[/:\s]", name)
    return True


def from_flags() -> tuple[ServerOptions, str, str, int]:
    """(ServerOptions, saved_model_dir, host, port)."""
    require(  # the system would take it for all addresses
        FLAGS.host,
        "--host is empty: give an address, 127.0.0.1 for this machine alone, "
        "0.0.0.0 for all",
    )
    hosts = tuple(FLAGS.allowed_hosts)
    for name in hosts:
        require(
            _can_be_in_a_header(name),
            f"--allowed_hosts={name}: wanted a name or an address without "
            "scheme, port and path, such as example.org",
        )
    if not hosts:
        hosts = _LOOPBACK
        if not is_loopback(FLAGS.host):
            hosts = (*hosts, FLAGS.host, socket.gethostname())
    if "*" in hosts:
        hosts = ()
    options = flag_values.build(ServerOptions, allowed_hosts=hosts)
    return options, FLAGS.saved_model_dir, FLAGS.host, FLAGS.port
