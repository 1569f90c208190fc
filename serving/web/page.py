"""The page and the headers that it is sent with.

The file is sent as it is: nothing is written into it. What a model or a client
says comes as JSON and is shown as text, never as HTML.
"""

import base64
import hashlib
import importlib.resources
import re


def load() -> str:
    """The page."""
    folder = importlib.resources.files("serving.web")
    return folder.joinpath("page.html").read_text(encoding="utf-8")


def headers(text: str) -> dict[str, str]:
    """Let a page run its own script and nothing else."""
    policy = (
        "default-src 'none'",
        f"script-src {_hash_of('script', text)}",
        f"style-src {_hash_of('style', text)}",
        "connect-src 'self'",
        "img-src data:",  # its empty icon
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",  # no text becomes HTML or code
        "trusted-types 'none'",
    )
    return {
        "Content-Security-Policy": "; ".join(policy),
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
    }


def _hash_of(tag: str, text: str) -> str:
    (content,) = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
    digest = hashlib.sha256(content.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
