"""Links between pages stay, others become text; flags stay on one line."""

import types

import pytest

from scripts.pages import site_links
from tests.conftest import ROOT

DOCS = ROOT / "docs"


def test_the_site_keeps_links_between_its_folders_alone():
    page = types.SimpleNamespace(
        file=types.SimpleNamespace(src_uri="guides/tasks/a.md"), meta={}
    )
    text = (
        "[b](../b.md) [c](../../reference/api/c.md#d) ![e](../../f.svg) "
        "[`g.py`](../../../g.py)"
    )
    found = site_links.on_page_markdown(text, page)
    assert found == text.replace("[`g.py`](../../../g.py)", "`g.py`")
    assert not page.meta
    page.file.src_uri = "reference/flags.md"
    site_links.on_page_markdown(text, page)
    assert page.meta["search"]["boost"] > 1


def test_short_flags_are_not_broken_into_lines():
    long = "--" + "a" * 40
    html = f"<code>a --seq_len b</code> <code>a b</code> <code>{long}</code>"
    html += "<pre><code>c\n--d</code></pre>"
    found = site_links.on_page_content(html)
    word = '<span class="whole">--seq_len</span>'
    assert found == html.replace("--seq_len", word)
    style = (DOCS / "assets/site.css").read_text(encoding="utf-8")
    assert "code .whole" in style and "nowrap" in style


@pytest.mark.parametrize(
    "uri, text, wanted",
    [
        # Up to the folder of the pages, and beyond it.
        ("a.md", "[x](../README.md)", "x"),
        ("b/a.md", "[x](../README.md)", "[x](../README.md)"),
        ("b/a.md", "[x](../../README.md#y)", "x"),
        ("b/a.md", "[x](../c/../../d.py)", "x"),
        # A name that begins with dots lies inside.
        ("b/a.md", "[x](../..c/d.md)", "[x](../..c/d.md)"),
        ("b/a.md", "![x](../../d.png) [y](z.md)", None),
        ("b/a.md", "[x](https://a.b/../../c)", None),
        ("b/a.md", "[x](../..) and [y](../../../z)", "x and y"),
    ],
)
def test_links_out_of_the_pages_become_their_text(uri, text, wanted):
    page = types.SimpleNamespace(
        file=types.SimpleNamespace(src_uri=uri), meta={}
    )
    found = site_links.on_page_markdown(text, page, config=None, files=())
    assert found == (text if wanted is None else wanted)


def test_words_of_code_are_whole_up_to_the_width_of_a_phone():
    whole, longer = f"--{'a' * 34}", f"--{'a' * 35}"
    html = f"<code>{whole}</code> <code>{longer}</code> <code>x-y -z</code>"
    assert site_links.on_page_content(html, page=None) == (
        f'<code><span class="whole">{whole}</span></code> '
        f"<code>{longer}</code> "
        '<code>x-y <span class="whole">-z</span></code>'
    )
