"""What the bytes of a file say against UTF-8 text in lines, and what to do.

Nothing is guessed: a file of another encoding or of other line ends is refused
with the command that converts it.
"""

from common import files
from common.errors import UserError

BOM = b"\xef\xbb\xbf"  # of UTF-8

TABLES = (".csv", ".tsv")  # readers take files of these names for tables

# UTF-32's little-endian mark begins with UTF-16's.
_MARKS = {
    b"\xff\xfe\x00\x00": "UTF-32",
    b"\x00\x00\xfe\xff": "UTF-32",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}


# First bytes of packed files -> what packed them.
_PACKED = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bzip2",
    b"\xfd7zX": "xz",
    b"PK\x03\x04": "zip",
    b"(\xb5/\xfd": "zstd",
}


def packed(first: bytes) -> str | None:
    """Why bytes are packed, by the first four of them; None: no reason.

    No conversion makes text of these.
    """
    for mark, name in _PACKED.items():
        if first.startswith(mark):
            return f"the file is packed by its first bytes ({name}); unpack it"
    return None


def refusal(first: bytes) -> str | None:
    """Why a file is no UTF-8 text, by its first four bytes; None: no reason."""
    if problem := packed(first):
        return problem
    for mark, name in _MARKS.items():
        if first.startswith(mark):
            return f"the file is {name} by its first bytes; {_convert(name)}"
    if b"\0" in first[:2] and len(first) > 1:
        name = "UTF-16LE" if first[0] else "UTF-16BE"
        return f"the file begins as {name}, with a NUL; {_convert(name)}"
    return None


def other_line_ends(first: bytes) -> str | None:
    """Why a file is not of lines that end with LF; None where it may be."""
    text = first.rstrip(b"\r\n")
    if b"\r" in text and b"\n" not in text:
        return (
            "lines end with CR alone, as on old Macintoshes; convert the "
            "file: tr '\\r' '\\n' < IN > OUT"
        )
    return None


def half_pair(*texts: str) -> str | None:
    """Why texts of JSON are none: half of a surrogate pair; None without one.

    No file can hold it, and no tokenizer reads it.
    """
    for text in texts:
        try:
            text.encode()
        except UnicodeEncodeError as e:
            return (
                f"\\u{ord(text[e.start]):04x} is half of a surrogate pair and "
                "no character; drop it from the text"
            )
    return None


def decode(data: bytes, where: str) -> str:
    """Text of a whole file: lines end with LF, no byte order mark.

    Raises UserError with the line: another encoding, other line ends.
    """
    if problem := refusal(data[:4]) or other_line_ends(data):
        raise UserError(f"{where}:1: {problem}")
    try:
        text = data.removeprefix(BOM).decode("utf-8")
    except UnicodeDecodeError as e:
        line = e.object.count(b"\n", 0, e.start) + 1
        raise UserError(f"{where}:{line}: is not UTF-8 {not_utf8(e)}") from e
    return line_feeds(text)


def line_feeds(text: str) -> str:
    """Text whose lines end with LF; whole lines, which may end with CR LF."""
    return text.replace("\r\n", "\n").removesuffix("\r")


def read(path: str, flag: str) -> str:
    """Text of the file that a flag names; see `decode`.

    Raises UserError: it cannot be read, too.
    """
    name = f"--{flag}={path}"
    try:
        data = files.read_bytes(path)
    except OSError as e:
        raise UserError(f"{name} cannot be read: {e.strerror or e}") from e
    return decode(data, name)


def read_lines(path: str, flag: str) -> list[str]:
    """Lines of such a file, blank ones too; see `read`."""
    texts = read(path, flag).split("\n")
    return texts[:-1] if not texts[-1] else texts


def read_texts(path: str, flag: str) -> list[str]:
    """The texts of a file that holds one per line; see `read_lines`.

    Raises UserError: its name is a table's, too, whose header, quotes and
    labels would be texts.
    """
    if path.lower().endswith((*TABLES, ".jsonl", ".json")):
        raise UserError(
            f"--{flag}={path}: wanted one text per line, found a table or JSON "
            "by its name; write the texts alone into a .txt file"
        )
    return read_lines(path, flag)


def not_utf8(error: UnicodeDecodeError) -> str:
    """What stands there instead of UTF-8, and what to do."""
    byte = error.object[error.start : error.start + 1]
    letter = byte.decode("cp1252", "replace")
    before = error.object[max(0, error.start - 20) : error.start]
    return (
        f"(0x{byte[0]:02x} after {before!r}, in Latin-1 {letter!r}); "
        f"{_convert('latin1')}, or drop such bytes with iconv -c -f utf-8 -t "
        "utf-8"
    )


def _convert(name: str) -> str:
    return f"convert the file: iconv -f {name} -t utf-8 IN > OUT"
