"""Pages that are wider than a window are found."""

import sys

import pytest

from scripts.pages import widths

PAGE = "<!doctype html><body><p style='width:{}px'>words</p>"


@pytest.mark.long
@pytest.mark.skipif(widths.CHROMIUM is None, reason="no chromium here")
def test_wide_pages_are_named(tmp_path, monkeypatch, capsys):
    (tmp_path / "folder").mkdir()
    (tmp_path / "a.html").write_text(PAGE.format(300))
    (tmp_path / "folder/b.html").write_text(PAGE.format(700))
    (tmp_path / "404.html").write_text(PAGE.format(5000))
    rows = widths.measured(tmp_path)
    assert [row[:2] for row in rows] == [
        ("a.html", 1280),
        ("a.html", 420),
        ("folder/b.html", 1280),
        ("folder/b.html", 420),
    ]
    assert [row[2] > 0 for row in rows] == [False, False, False, True]
    monkeypatch.setattr(sys, "argv", ["widths", str(tmp_path)])
    with pytest.raises(SystemExit) as left:
        widths.main()
    assert left.value.code == 1
    assert "folder/b.html: " in capsys.readouterr().out


@pytest.mark.parametrize("given", [[], ["--help"]])
def test_without_a_folder_a_line_says_so(monkeypatch, given):
    monkeypatch.setattr(sys, "argv", ["widths", *given])
    monkeypatch.setattr(widths, "CHROMIUM", "chromium")
    with pytest.raises(SystemExit, match="wanted the built site's folder"):
        widths.main()


def test_without_a_browser_a_line_says_so(monkeypatch, capsys):
    monkeypatch.setattr(widths, "CHROMIUM", None)
    widths.main()
    assert capsys.readouterr().out.startswith("no chromium: ")
