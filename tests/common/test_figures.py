"""Characters of labels in figures: the fonts that have them, or a line."""

import numpy as np
import pytest

from common import figures
from data.finetuning.classifier import reports
from tests.conftest import ROOT

LABELS = ("\u6771\u4eac", "\u0e44\u0e17\u0e22", "red")  # Chinese, Thai


def font(path, name, text):
    """A font in which every character of a text is a triangle."""
    from fontTools.fontBuilder import FontBuilder
    from fontTools.pens.ttGlyphPen import TTGlyphPen

    pen = TTGlyphPen(None)
    pen.moveTo((50, 0))
    pen.lineTo((450, 900))
    pen.lineTo((850, 0))
    pen.closePath()
    glyph = pen.glyph()
    names = [".notdef", *(f"c{ord(c)}" for c in text)]
    made = FontBuilder(1000, isTTF=True)
    made.setupGlyphOrder(names)
    made.setupCharacterMap({ord(c): f"c{ord(c)}" for c in text})
    made.setupGlyf(dict.fromkeys(names, glyph))
    made.setupHorizontalMetrics(dict.fromkeys(names, (900, 50)))
    made.setupHorizontalHeader(ascent=900, descent=-100)
    made.setupNameTable({"familyName": name, "styleName": "Regular"})
    made.setupOS2()
    made.setupPost()
    made.save(str(path))


@pytest.fixture
def fonts(monkeypatch, tmp_path):
    """Matplotlib's own font, and what `fonts` installs."""
    from matplotlib import font_manager

    manager = font_manager.fontManager
    own = [f for f in manager.ttflist if f.name == figures.OWN]
    monkeypatch.setattr(manager, "ttflist", own)

    def install(name, text):
        font(tmp_path / f"{name}.ttf", name, text)
        manager.addfont(tmp_path / f"{name}.ttf")

    return install


def test_labels_of_several_scripts_have_a_font_each(fonts):
    assert figures.families(LABELS) == ["DejaVu Sans"]
    line = figures.note(LABELS)
    assert line.startswith("note: no installed font has ") and "\n" not in line
    assert "\u4eac \u6771, which are drawn as boxes: install one" in line
    matrix = np.eye(3, dtype=int)
    boxes = reports.picture(matrix, LABELS, LABELS)
    fonts("Han", LABELS[0])
    assert "\u6771" not in figures.note(LABELS) != ""
    some = reports.picture(matrix, LABELS, LABELS)
    fonts("Thai", LABELS[1])
    assert figures.note(LABELS) == ""
    assert figures.families(LABELS) == ["DejaVu Sans", "Thai", "Han"]
    whole = reports.picture(matrix, LABELS, LABELS)
    assert len({boxes, some, whole}) == 3


def test_a_damaged_font_is_none(fonts, tmp_path):
    fonts("Han", LABELS[0])
    (tmp_path / "Han.ttf").write_bytes(b"")
    assert figures.note(LABELS[:1]) != ""


def test_a_caption_is_plain_text():
    figure, _ = figures.new()
    figures.caption(figure, "n = 3 seeds of $x_$.", "python -m a")
    assert figure.get_suptitle() == "n = 3 seeds of \\$x_\\$.\npython -m a"


def test_every_measured_figure_has_a_caption():
    """Whoever saves a figure of the pages says how it was made."""
    found = {}
    for room in ("studies", "benchmarks", "training", "scripts"):
        for path in (ROOT / room).rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            if saved := text.count("figures.save("):
                found[path.name] = saved - text.count("figures.caption(")
    assert len(found) >= 8 and not any(found.values()), found
