"""What a text must be before a model sees it; used by commands and server."""

from common.errors import UserError


def check_text(text: object, where: str, max_chars: int) -> str:
    """Returns `text` if a model can take it.

    Args:
      text: a decoded value, of any type.
      where: names the place in the message, e.g. "instances[3].text".
      max_chars: longest text in characters.

    Raises:
      UserError: one line: no string, empty, too long, NUL, lone surrogates.
    """
    if not isinstance(text, str):
        raise UserError(
            f"{where}: wanted a string, found {type(text).__name__}"
        )
    if not text.strip():
        raise UserError(f"{where}: the text is empty; give some characters")
    if len(text) > max_chars:
        raise UserError(
            f"{where}: wanted at most {max_chars} characters, found "
            f"{len(text)}; cut the text or raise --max_chars"
        )
    if "\x00" in text:
        raise UserError(
            f"{where}: found a NUL character at {text.index(chr(0))}; remove it"
        )
    try:
        text.encode()
    except UnicodeEncodeError as e:
        raise UserError(
            f"{where}: the character at {e.start} is half of a surrogate pair "
            "and no valid Unicode"
        ) from e
    return text
