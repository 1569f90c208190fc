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


def test_a_folder_that_is_none_is_one_line(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(sys, "argv", ["widths", str(tmp_path / "no")])
    monkeypatch.setattr(widths, "CHROMIUM", "chromium")
    with pytest.raises(SystemExit, match="2"):
        widths.main()
    said = capsys.readouterr().err
    assert said.endswith(
        f"wanted the built site's folder, found {tmp_path}/no\n"
    )


def test_without_a_browser_a_line_says_so(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["widths", "build/site"])
    monkeypatch.setattr(widths, "CHROMIUM", None)
    widths.main()
    assert capsys.readouterr().out.startswith("no chromium: ")
