"""Links of the pages to files of the repository, as the site needs them.

A page links to `../modeling/reference.py`, which works where the repository is
read. The site holds the pages alone: there such a link becomes the file's name.
"""

import re

_OUTSIDE = re.compile(r"\[([^\]]+)\]\(\.\./(?!api/)[^)]*\)")


def on_page_markdown(markdown: str, page, **_) -> str:
    """Called by mkdocs for every page; the text with such links replaced."""
    return _OUTSIDE.sub(r"\1", markdown)
