"""Text settings inside a SentencePiece file.

One more field after SentencePiece's own, of the numbers that its format leaves
to others (`ModelProto`: "extensions 200 to max"). SentencePiece, tensorflow_text
and Hugging Face read past it. The field also holds a checksum of everything
before it, so that a damaged file is known as one without any other file.

    ModelProto | tag, length | BEGIN {"sha256": ..., "text_settings": ...} END
"""

import hashlib
import json

from common.errors import UserError
from common.vocabularies import protobuf
from common.vocabularies.text_settings import TextSettings

_FIELD = 1906  # after the paper's number; any of 200 and above is free
_BEGIN = b"\x00xlnet text settings\x00"
_END = b"\x00end of xlnet text settings\x00"


def embed(content: bytes, settings: TextSettings) -> bytes:
    """A SentencePiece file with text settings instead of those it may have."""
    if embedded(content, "the vocabulary"):
        content = content[: content.rindex(_BEGIN) - len(_header(content))]
    record = {
        "sha256": _checksum(content, settings),
        "text_settings": settings.as_dict(),
    }
    text = json.dumps(record, sort_keys=True).encode()
    payload = _BEGIN + text + _END
    return content + protobuf.field(_FIELD, payload)


def embedded(content: bytes, path: str) -> TextSettings | None:
    """The settings that a file holds, maybe None; UserError if damaged."""
    start = content.rfind(_BEGIN)
    if start < 0 and not content.endswith(_END):
        return None
    header = _header(content) if start >= 0 else b""
    body = content[: start - len(header)]
    try:
        if not (header and content.endswith(_END)):
            raise ValueError("its end is not as it was written")
        if content[len(body) : start] != header:
            raise ValueError("its header is not as it was written")
        record = json.loads(content[start + len(_BEGIN) : -len(_END)])
        settings = TextSettings.from_dict(record["text_settings"], path)
        if record["sha256"] != _checksum(body, settings):
            raise ValueError("its checksum differs")
    except (ValueError, KeyError, TypeError) as e:
        raise UserError(
            f"{path} is damaged: wanted a SentencePiece file with text "
            f"settings as it was written, but {e}; take another copy"
        ) from e
    return settings


def _header(content: bytes) -> bytes:
    """Tag and length of the field that begins at the last `_BEGIN`."""
    size = len(content) - content.rindex(_BEGIN)
    return protobuf.header(_FIELD, size)


def _checksum(body: bytes, settings: TextSettings) -> str:
    return hashlib.sha256(body + settings.sha256.encode()).hexdigest()
