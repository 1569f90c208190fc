"""A local server for an exported model.

    python -m serving.serve --saved_model_dir=DIR

    curl -d '{"instances": [{"text": "..."}]}' \\
        http://127.0.0.1:8501/v1/models/xlnet:predict

It answers TF-Serving's REST calls and shows a page at `/`. It listens on this
machine alone unless --host says otherwise; --api_keys_file lets in those who
have a key, --ssl_certfile encrypts.
"""

import errno
import socket
import sys

from common import optional
from common.errors import UserError
from flags import app
from flags.serving import serve_flags
from serving.options import ServerOptions

# TensorFlow is imported in `main`: the server's helper process, which reads
# large requests, imports this file and has no use for it.


def main() -> None:
    """The command."""
    options, saved_model_dir, host, port = serve_flags.from_flags()
    from serving.saved_model import is_version

    try:
        from serving.web.app import build_app
        from serving.web.transport import access, listen
    except ModuleNotFoundError as e:
        raise UserError(
            f"the package {e.name} is missing: "
            f"{optional.cure('requirements-serve.txt')}"
        ) from e
    listen.end_while_loading()
    access.check(options)
    listener = _bind(host, port)
    model = _load(saved_model_dir, options)
    if options.poll_s and is_version(saved_model_dir):
        raise UserError(
            f"--poll_s looks for newer versions, but --saved_model_dir="
            f"{saved_model_dir} is one version: give the folder above it"
        )
    application = build_app(
        model, options, load=lambda path: _load(path, options)
    )
    precision = model.description.get("precision", "float32")
    del model  # else it stays when a newer version is served
    # From here on callers are queued, also before the event loop runs.
    try:
        listener.listen(listen.BACKLOG)
    except OSError as e:  # another server was bound, too, and listened first
        listener.close()
        raise _unusable(host, port, e) from e
    port = listener.getsockname()[1]
    shown = f"[{host}]" if ":" in host else host
    scheme = "https" if options.ssl_certfile else "http"
    print(
        f"serving {application.state.name} at {scheme}://{shown}:{port}"
        + (f" in {precision}" if precision != "float32" else ""),
        file=sys.stderr,
        flush=True,
    )
    warn_of_strangers(host, options)
    scheduler = application.state.scheduler
    listen.run(application, listener, at_start=scheduler.warm_up)


def warn_of_strangers(host: str, options: ServerOptions) -> None:
    """One line where others than this machine's users may ask."""
    if serve_flags.is_loopback(host) or options.api_keys_file:
        return
    print(
        f"warning: at --host={host} everybody who reaches this machine may "
        "send requests: give --api_keys_file, or put a proxy with a login "
        "before it",
        file=sys.stderr,
        flush=True,
    )


def _load(path: str, options: ServerOptions):
    """A model that has answered once: the first real caller waits less."""
    from serving.saved_model import SavedModel

    model = SavedModel(path, options.trust_model)
    print(model.weights_line, file=sys.stderr)
    model.warm_up()
    return model


def _bind(host: str, port: int) -> socket.socket:
    """Binds first, so that a taken port costs no model loading."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio switches Nagle's delay off only where the protocol is named.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as e:
        listener.close()
        raise _unusable(host, port, e) from e
    return listener


def _unusable(host: str, port: int, e: OSError) -> UserError:
    of_port = e.errno in (errno.EADDRINUSE, errno.EACCES)
    wanted = "port" if of_port else "host, an address of this machine"
    return UserError(
        f"--host={host} --port={port} cannot be used: {e.strerror}; give "
        f"another --{wanted}"
    )


if __name__ == "__main__":
    serve_flags.define()
    app.run(main)
