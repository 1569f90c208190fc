"""Figures that are drawn from measured tables show the tables' numbers."""

import re

import numpy as np
import pytest

from scripts.pages import measured_figures
from tests.conftest import ROOT


def test_the_numbers_are_those_of_the_table():
    steps, curves = measured_figures.held_out()
    assert steps == [1000, 2000, 4000, 6000, 8000]
    assert curves["novels, WikiText-2"] == [4.631, 4.236, 3.927, 3.737, 3.637]
    assert [losses[-1] for losses in curves.values()] == [3.637, 3.774, 3.874]


def test_the_figure_of_the_page_is_the_one_that_is_drawn(tmp_path):
    image = pytest.importorskip("matplotlib.image")
    paths = measured_figures.draw_small_hours(str(tmp_path / "a"))
    drawn = image.imread(next(p for p in paths if p.endswith(".png")))
    there = image.imread(measured_figures.FIGURES / "small_hours.png")
    assert drawn.shape == there.shape
    assert np.mean(np.abs(drawn - there) > 0.1) < 0.01


def test_every_figure_lies_on_a_page():
    pages = [p for p in (ROOT / "docs").rglob("*.md")]
    text = "".join(p.read_text(encoding="utf-8") for p in pages)
    named = set(re.findall(r"figures/(\w+\.png)", text))
    assert named == {p.name for p in measured_figures.FIGURES.glob("*.png")}
