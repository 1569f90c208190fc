"""A small server on loopback that speaks the routes of Hugging Face's hub."""

import contextlib
import hashlib
import http.server
import json
import re
import threading

_FILE = re.compile(r"/([\w-]+/[\w.-]+)/resolve/([^/]+)/(.+)")
_INFO = re.compile(r"/api/models/([\w-]+/[\w.-]+)/revision/(.+)")


class Hub:
    """Repositories, and what was asked for.

    Attributes:
      repositories: "ORG/NAME" -> file name -> content.
      revisions: branch or tag -> commit; a commit is its own.
      gated: repositories that answer 403.
      cut: file name -> (how often, bytes) a download breaks off.
      requests: (method, path, Range) in order.
    """

    commit = "0123456789" * 4

    def __init__(self):
        self.repositories, self.gated, self.cut = {}, set(), {}
        self.revisions = {"main": self.commit, "v1": self.commit}
        self.requests = []
        self.url = ""

    def got(self, name):
        """Names of files whose content was asked for."""
        return [
            (path, part)
            for method, path, part in self.requests
            if method == "GET" and path.endswith("/" + name)
        ]


class _Handler(http.server.BaseHTTPRequestHandler):
    hub: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self._answer(False)

    def do_GET(self):
        self._answer(True)

    def _answer(self, with_content):
        hub, part = self.hub, self.headers.get("Range")
        hub.requests.append((self.command, self.path, part))
        match = _FILE.fullmatch(self.path) or _INFO.match(self.path)
        if not match:
            return self._send(404, {})
        repository, revision = match[1], match[2].split("?")[0]
        files = hub.repositories.get(repository)
        if repository in hub.gated:
            return self._send(403, {"X-Error-Code": "GatedRepo"})
        if files is None:
            return self._send(401, {"X-Error-Code": "RepoNotFound"})
        if revision not in (*hub.revisions, hub.commit):
            return self._send(404, {"X-Error-Code": "RevisionNotFound"})
        if match.re is _INFO:
            about = {
                "id": repository,
                "sha": hub.commit,
                "siblings": [{"rfilename": name} for name in files],
            }
            return self._send(200, {}, json.dumps(about).encode())
        return self._file(files, match[3], part, with_content)

    def _file(self, files, name, part, with_content):
        if name not in files:
            return self._send(404, {"X-Error-Code": "EntryNotFound"})
        content = files[name]
        headers = {
            "ETag": f'"{hashlib.sha256(content).hexdigest()}"',
            "X-Repo-Commit": self.hub.commit,
            "Accept-Ranges": "bytes",
        }
        status, start = 200, 0
        if part and with_content:
            status, start = 206, int(part.split("=")[1].split("-")[0])
            end = len(content) - 1
            headers["Content-Range"] = f"bytes {start}-{end}/{len(content)}"
        times, kept = self.hub.cut.get(name, (0, None))
        if with_content and times:
            self.hub.cut[name] = times - 1, kept
        else:
            kept = None
        return self._send(status, headers, content[start:], with_content, kept)

    def _send(self, status, headers, content=b"", with_content=True, kept=None):
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if with_content:
            self.wfile.write(content[:kept])
        if kept is not None:
            self.close_connection = True


@contextlib.contextmanager
def running():
    """A `Hub` that answers at its `url`."""
    hub = Hub()
    handler = type("Handler", (_Handler,), {"hub": hub})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    hub.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
