"""Flags of `serving.serve`."""

import socket

from absl import flags

from flags import flag_values
from serving.options import ServerOptions

FLAGS = flags.FLAGS
_LOOPBACK = ("127.0.0.1", "localhost", "::1", "[::1]")


def define() -> None:
    """Registers the flags of the server."""
    default = ServerOptions
    flags.DEFINE_string(
        "saved_model_dir",
        None,
        "Exported version folder, or its parent (the newest is served).",
        required=True,
    )
    flags.DEFINE_bool(
        "trust_model",
        False,
        "Serve a SavedModel whose graph holds operations on files or Python; "
        "it can do whatever you can.",
    )
    flags.DEFINE_string(
        "host", "127.0.0.1", "Address to listen on; this machine alone."
    )
    flags.DEFINE_list(
        "allowed_hosts",
        [],
        "Names that callers may use for the server (the Host header) beside "
        "addresses in numbers; * = any. Default: this machine's loopback names "
        "and, unless --host is one of them, its host name.",
    )
    flags.DEFINE_integer(
        "port", 8501, "Port to listen on; 0 takes a free one.", 0, 65535
    )
    flags.DEFINE_string(
        "model_name",
        default.model_name,
        "NAME of /v1/models/NAME. Default: the encoder's, such as bert.",
    )
    flags.DEFINE_list(
        "version_labels",
        list(default.version_labels),
        "Labels of the served version: /v1/models/NAME/labels/LABEL.",
    )
    _define_access()
    _define_limits()


def _define_access() -> None:
    default = ServerOptions
    flags.DEFINE_string(
        "api_keys_file",
        default.api_keys_file,
        "Callers need one of these keys: a file of lines NAME sha256:HEX, read "
        "again when it changes. Default: all may ask.",
    )
    flags.DEFINE_string(
        "ssl_certfile",
        default.ssl_certfile,
        "PEM file of the certificate and those above it; the server then "
        "speaks HTTPS alone.",
    )
    flags.DEFINE_string(
        "ssl_keyfile",
        default.ssl_keyfile,
        "PEM file of the certificate's private key, not encrypted. Default: it "
        "stands in --ssl_certfile.",
    )


def _define_limits() -> None:
    default = ServerOptions
    flags.DEFINE_integer(
        "max_body_bytes", default.max_body_bytes, "Largest request body."
    )
    flags.DEFINE_integer(
        "max_chars", default.max_chars, "Longest text in characters."
    )
    flags.DEFINE_integer(
        "max_instances", default.max_instances, "Rows of one request."
    )
    flags.DEFINE_integer(
        "max_tokens",
        default.max_tokens,
        "Rows x length that run together, memory slots included; a longer row "
        "is answered with status 400. 0 = by the model's size and the free "
        "memory.",
    )
    flags.DEFINE_integer(
        "max_cost",
        default.max_cost,
        "Tokens that one request may take through the model in all (rows x "
        "length, times the masks when filling); more: status 400.",
    )
    flags.DEFINE_integer(
        "max_batch_size", default.max_batch_size, "Rows that run together."
    )
    flags.DEFINE_float(
        "max_wait_ms",
        default.max_wait_ms,
        "How long a first row waits for others to share its batch.",
    )
    flags.DEFINE_integer(
        "max_queue",
        default.max_queue,
        "Rows that may wait; more are answered with status 503.",
    )
    _define_clients()


def _define_clients() -> None:
    default = ServerOptions
    flags.DEFINE_integer(
        "max_connections",
        default.max_connections,
        "Connections at a time; one more takes the place of one that waits "
        "for its client, or is closed.",
    )
    flags.DEFINE_integer(
        "max_connections_per_address",
        default.max_connections_per_address,
        "Of these, connections of one address; all users of a proxy have its "
        "address.",
    )
    flags.DEFINE_float(
        "max_requests_per_address",
        default.max_requests_per_address,
        "Requests of one address in a second, of whatever kind; one more is "
        "answered with status 429. 0 = any number.",
    )
    flags.DEFINE_float(
        "poll_s",
        default.poll_s,
        "Look for a newer version below --saved_model_dir every so many "
        "seconds and go over to it; 0 = never.",
    )
    flags.DEFINE_float(
        "timeout_s",
        default.timeout_s,
        "Longest wait for an answer in seconds, then status 504; SIGTERM ends "
        "the server within this time.",
    )
    flags.DEFINE_float(
        "read_timeout_s",
        default.read_timeout_s,
        "Longest time in seconds that a client may take to send a request or "
        "to be silent between two.",
    )


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server at `host`."""
    return host.lower() in _LOOPBACK


def from_flags() -> tuple[ServerOptions, str, str, int]:
    """(ServerOptions, saved_model_dir, host, port)."""
    hosts = tuple(FLAGS.allowed_hosts)
    if not hosts:
        hosts = _LOOPBACK
        if not is_loopback(FLAGS.host):
            hosts = (*hosts, FLAGS.host, socket.gethostname())
    if "*" in hosts:
        hosts = ()
    options = flag_values.build(ServerOptions, allowed_hosts=hosts)
    return options, FLAGS.saved_model_dir, FLAGS.host, FLAGS.port
