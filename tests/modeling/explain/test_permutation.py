"""The explainer: four words, both matrices, the factors."""

import numpy as np
import pytest

from common import figures
from common.errors import UserError
from modeling.explain import permutation

TEXT = "This is a sentence"
QUERY = [[0, 1, 1, 1], [0, 0, 1, 0], [0, 0, 0, 0], [0, 1, 1, 0]]


def test_matrices_and_factors():
    found = permutation.explain(TEXT.split(), (3, 2, 4, 1))
    np.testing.assert_array_equal(found.query, QUERY)
    np.testing.assert_array_equal(found.content, QUERY + np.eye(4))
    assert found.factors() == [
        "Pr(a)",
        "Pr(is | a)",
        "Pr(sentence | a, is)",
        "Pr(This | a, is, sentence)",
    ]
    assert found.masked_factors() == [
        "Pr(This | *+1, is+2, a+3, sentence+4)",
        "Pr(is | ___, *+2, a+3, ___)",
        "Pr(a | ___, ___, *+3, ___)",
        "Pr(sentence | ___, is+2, a+3, *+4)",
    ]
    text = str(found)
    assert "This  0 1 1 1" in text and "This  1 1 1 1" in text


def test_left_to_right_is_causal():
    found = permutation.explain(list("abcde"), (1, 2, 3, 4, 5))
    np.testing.assert_array_equal(found.query, np.tril(np.ones((5, 5)), -1))


@pytest.mark.parametrize("order", [(1, 2), (1, 2, 2, 4), (0, 1, 2, 3)])
def test_bad_orders(order):
    with pytest.raises(UserError, match=r"each of 1\.\.4 once"):
        permutation.explain(TEXT.split(), order)
    with pytest.raises(UserError, match="empty"):
        permutation.explain([], order)


def test_picture(tmp_path):
    found = permutation.explain(TEXT.split(), (3, 2, 4, 1))
    for name, start in (("x.png", b"\x89PNG"), ("x.svg", b"<?xml")):
        path = tmp_path / name
        permutation.draw(found, str(path))
        assert path.read_bytes().startswith(start)
    with pytest.raises(UserError, match="must end in .png or .svg"):
        permutation.draw(found, str(tmp_path / "x.jpg"))
    with pytest.raises(UserError, match="does not exist"):
        permutation.draw(found, str(tmp_path / "no" / "x.png"))


def test_other_scripts_and_many_tokens(tmp_path, monkeypatch):
    """Columns stay in line; a font is chosen, or its lack is no noise."""
    from matplotlib import font_manager

    found = permutation.explain(["東京", "is", "a\u0301"], (2, 1, 3))
    assert "  東京  0 1 0" in str(found) and "    is  0 0 0" in str(found)
    assert "     a\u0301  1 1 0" in str(found)
    assert figures.families(["abc", "é"]) == ["DejaVu Sans"]
    own = [
        f for f in font_manager.fontManager.ttflist if f.name == "DejaVu Sans"
    ]
    monkeypatch.setattr(font_manager.fontManager, "ttflist", own)
    assert "京 東, which" in figures.note(["東京"])
    long = permutation.explain(["東京", *"abcdefghijk"], tuple(range(1, 13)))
    permutation.draw(long, str(tmp_path / "x.png"))
    assert (tmp_path / "x.png").stat().st_size > 1000
