"""Who may ask: API keys from a file of their hashes, and the certificate.

A key is a long random text, so nobody can try them all, and SHA-256 is enough;
a slow hash, as passwords need it, would cost the server its time at each call.
Shorter keys than `LEAST_CHARS` open nothing, whatever the file says.
"""

import asyncio
import hashlib
import hmac
import logging
import re
import ssl

from common.errors import UserError
from serving.options import ServerOptions

_LOG = logging.getLogger("serving")
LEAST_CHARS = 32
_MOST_CHARS = 512
_MOST_KEYS = 1000  # all of them are compared at each call
_MOST_BYTES = 200 * _MOST_KEYS
_LINE = re.compile(r"([A-Za-z0-9._-]{1,64})[ \t]+sha256:([0-9a-fA-F]{64})")
OPEN_PATHS = frozenset(("/", "/healthz", "/readyz"))
_LOOK_SECONDS = 1.0
_CHALLENGE = 'Bearer realm="models"'
_WANTED = (
    "an API key is needed: send 'Authorization: Bearer KEY' or 'X-API-Key: KEY'"
)
Headers = list[tuple[bytes, bytes]]


def check(options: ServerOptions) -> None:
    """Before the model is loaded: whether keys and certificate can be used.

    Raises UserError, one line that names the flag and the file.
    """
    if options.api_keys_file:
        Keys(options.api_keys_file)
    if options.ssl_certfile:
        _check_certificate(options.ssl_certfile, options.ssl_keyfile)


class Keys:
    """The keys of a file, read again when it changes.

    It has one `NAME sha256:HEX` a line; `#` begins a comment. Raises UserError:
    the file cannot be read or holds something else. What it holds is not shown:
    it may be a key.
    """

    def __init__(self, path: str):
        self._path = path
        self._content = _read(path)
        self._digests = _parse(self._content, path)
        self._problem = ""  # that was told last

    def name_of(self, key: bytes) -> str | None:
        """The name of a key; None = there is no such key."""
        if not LEAST_CHARS <= len(key) <= _MOST_CHARS:
            return None
        digest = hashlib.sha256(key).digest()
        matching = None
        for name, known in self._digests:  # the time tells nothing of them
            if hmac.compare_digest(known, digest):
                matching = name
        return matching

    def owner_of(self, headers: Headers) -> tuple[str, str, str]:
        """Whose call this is, or ("", what is wrong, what is wanted instead).

        The last two are the line and the challenge of an answer 401.
        """
        key = _key_of(headers)
        if name := self.name_of(key):
            return name, "", ""
        if key:
            line = "this API key is not known here"
            return "", line, _CHALLENGE + ', error="invalid_token"'
        return "", _WANTED, _CHALLENGE

    def look(self) -> None:
        """Reads the file again; the keys of before stay if it is wrong."""
        try:
            content = _read(self._path)
            if content == self._content:
                self._problem = ""
                return
            self._content = content  # a wrong one is told once
            self._digests = _parse(content, self._path)
        except UserError as e:
            if self._problem != str(e):
                _LOG.warning("the keys of before stay: %s", e)
            self._problem = str(e)
            return
        self._problem = ""
        _LOG.warning("%d keys were read again", len(self._digests))

    async def watch(self) -> None:
        """Looks for changes, without an end."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            await asyncio.to_thread(self.look)


def _key_of(headers: Headers) -> bytes:
    """The key of a call; b"" where there is none, or more than one."""
    keys = [v.strip() for k, v in headers if k == b"x-api-key"]
    for name, value in headers:
        scheme, _, key = value.strip().partition(b" ")
        if name == b"authorization" and scheme.lower() == b"bearer":
            keys.append(key.strip())
    return keys[0] if len(set(keys)) == 1 else b""


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as f:
            content = f.read(_MOST_BYTES + 1)
    except OSError as e:
        raise UserError(
            f"--api_keys_file={path} cannot be read: {e.strerror}"
        ) from e
    if len(content) > _MOST_BYTES:
        raise UserError(
            f"--api_keys_file={path}: wanted at most {_MOST_BYTES} bytes"
        )
    return content


def _parse(content: bytes, path: str) -> list[tuple[str, bytes]]:
    """(name, SHA-256) of every key."""
    digests: dict[str, bytes] = {}
    for number, raw in enumerate(content.split(b"\n"), 1):
        line = raw.decode("utf-8", "replace").partition("#")[0].strip()
        if not line:
            continue
        matched = _LINE.fullmatch(line)
        where = f"--api_keys_file={path}, line {number}"
        if matched is None:
            raise UserError(
                f"{where}: wanted NAME sha256:HEX (letters, digits, . _ - and "
                "64 hexadecimal digits), found something else, which is not "
                "shown: it may be a key"
            )
        name, digest = matched[1], bytes.fromhex(matched[2])
        if name in digests or digest in digests.values():
            raise UserError(
                f"{where}: the name or the key of {name} stands above, too; "
                "give each key a name of its own"
            )
        digests[name] = digest
    if not 1 <= len(digests) <= _MOST_KEYS:
        raise UserError(
            f"--api_keys_file={path}: wanted 1 to {_MOST_KEYS} lines NAME "
            f"sha256:HEX, found {len(digests)}"
        )
    return list(digests.items())


def _check_certificate(certfile: str, keyfile: str) -> None:
    flags = f"--ssl_certfile={certfile}"
    if keyfile:
        flags += f" --ssl_keyfile={keyfile}"
    encrypted = False

    def password() -> bytes:  # else OpenSSL asks at the terminal, and waits
        nonlocal encrypted
        encrypted = True
        return b"-"

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        for path in filter(None, (certfile, keyfile)):
            open(path, "rb").close()  # its error has a name
        context.load_cert_chain(certfile, keyfile or None, password)
    except ssl.SSLError as e:
        reason = (e.reason or "something else").replace("_", " ").lower()
        if encrypted:
            reason = "an encrypted key: give a copy that is not"
        raise UserError(
            f"{flags}: wanted a certificate and its private key in PEM, found "
            + reason
        ) from e
    except OSError as e:
        raise UserError(f"{flags}: {e.filename}: {e.strerror}") from e
