"""Links of the pages to files of the repository, as the site needs them.

A page links to `../../modeling/reference.py`, which works where the repository is
read. The site holds the pages alone: there such a link becomes the file's name.
The search shows the page of flags first: most words of one line are flags.
Short code stays on one line: a browser would break `--seq_len` after its hyphens.
"""

import posixpath
import re

_ON_A_PHONE = 36  # characters of code that a phone shows beside each other
# Of running text: blocks begin with other tags.
_CODE = re.compile(r"(?<!<pre>)(?<!</span>)<code>([^<]+)</code>")
_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((\.\./[^)#]*)[^)]*\)")


def on_page_markdown(markdown: str, page, **_) -> str:
    """Called by mkdocs for every page; the text with such links replaced."""
    folder = posixpath.dirname(page.file.src_uri)
    if page.file.src_uri == "reference/flags.md":
        page.meta["search"] = {"boost": 10}

    def inside(match: re.Match) -> str:
        target = posixpath.normpath(posixpath.join(folder, match[2]))
        outside = target == ".." or target.startswith("../")
        return match[1] if outside else match[0]

    return _LINK.sub(inside, markdown)


def on_page_content(html: str, **_) -> str:
    """Called by mkdocs; flags have a class, with which they are not broken."""

    def whole(match: re.Match) -> str:
        words = [
            f'<span class="whole">{word}</span>'
            if word.startswith("-") and len(word) <= _ON_A_PHONE
            else word
            for word in match[1].split()
        ]
        return f"<code>{' '.join(words)}</code>"

    return _CODE.sub(whole, html)
