"""Running text of every format; code, tables and navigation are left out."""

import json
import struct

import pytest

from data.corpus.registry import plain_text

FIRST = "The old mill by the river was sold to a farmer."
SECOND = "Nobody in the valley could remember who had built it."


def of(name, data):
    return list(plain_text.sentences(name, data))


def catalogue(messages: dict[bytes, bytes]) -> bytes:
    """A compiled catalogue of messages."""
    rows = sorted(
        ({b"": b"Content-Type: text/plain; charset=UTF-8\n"} | messages).items()
    )
    place = 28 + 16 * len(rows)
    tables, text = [[], []], b""
    for column in (0, 1):
        for pair in rows:
            tables[column] += [len(pair[column]), place + len(text)]
            text += pair[column] + b"\0"
    head = [0x950412DE, 0, len(rows), 28, 28 + 8 * len(rows), 0, 0]
    return (
        struct.pack(f"<{7 + 4 * len(rows)}I", *head, *tables[0], *tables[1])
        + text
    )


HTML = f"""<html><head><title>The title of a page is no sentence here.</title>
<style>The style sheet is not a sentence of the text.</style></head><body>
<nav><p>This navigation is not a sentence of the text.</p></nav>
<div role="navigation">Another list of links is not a sentence.</div>
<p>The old <b>mill</b> by<br/>the <a href="x">river</a> was sold
to a farmer.</p><pre>This program code is not a sentence of it.</pre>
<ul><li>{SECOND}<li>too short.</ul></body></html>"""

MAN = r""".TH MILL 1
.SH NAME
mill \- grinds
.SH DESCRIPTION
.\" The comment of a page is not a sentence.
The old \fImill\fP by the
.B river
was sold to a farmer.
.nf
This program code is not a sentence of it.
.fi
.PP
Nobody in the valley could remember who had built it.
"""

RST = f"""Title
=====

The old ``mill`` by the river was sold
to a farmer. {SECOND}

::

    >>> not_a_sentence()

.. note:: no sentence here
"""


@pytest.mark.parametrize(
    "name, data",
    (
        ("doc/page.html", HTML),
        ("man/man1/mill.1", MAN),
        ("doc/page.rst", RST),
        ("doc/README", f"{FIRST}\n\n  * {SECOND}\n"),
        ("a/module.py", f'"""{FIRST}"""\ndef f():\n    """{SECOND}"""\n'),
        (
            "a/service.json",
            json.dumps(
                {
                    "documentation": f"<p>{FIRST}</p>",
                    "shapes": [{"name": SECOND}, {"description": SECOND}],
                }
            ),
        ),
    ),
)
def test_the_sentences_of_a_format(name, data):
    found = of(name, data.encode())
    titles = [s for s in found if s.startswith("The title")]
    assert [s for s in found if s not in titles] == [FIRST, SECOND]


def test_messages_of_a_catalogue_are_those_before_translation():
    data = catalogue(
        {
            FIRST.encode(): b"Die Muehle.",
            b"menu\x04" + SECOND.encode(): b"Niemand.",
        }
    )
    assert sorted(of("locale/de/x.mo", data)) == sorted([FIRST, SECOND])
    assert of("locale/de/x.mo", b"\0" * 50) == []


def test_damaged_members_have_no_text_and_do_no_harm():
    assert of("a.html", b"") == []
    assert of("a.html", b"<" * 1000) == []
    assert of("a.json", b"[" * 100_000) == []
    assert of("a.py", b"def (") == []
    deep = b"<div>" * 3000 + FIRST.encode()
    assert of("a.html", deep) in ([FIRST], [])  # as deep as the library reads
    assert (
        of("a.html", f"<p>Caf\xe9 {FIRST}".encode("latin-1"))[0][:4]
        == "Caf\xe9"
    )


def test_a_name_tells_the_format():
    kinds = {
        "usr/share/man/man3/open.3pm": "man",
        "usr/share/doc/x/README.Debian": "",
        "usr/share/doc/x/README": "text",
        "usr/share/info/x.info-2": "text",
        "usr/share/dictd/gcide.dict": "text",
        "x/INDEX.HTML": "html",
        "help/C/page.page": "html",
        "x/locale/de/LC_MESSAGES/x.mo": "mo",
        "x/picture.png": "",
        "usr/bin/man1": "",
    }
    assert {name: plain_text.kind(name) for name in kinds} == kinds
