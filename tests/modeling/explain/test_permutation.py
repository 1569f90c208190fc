"""The explainer: four words, both matrices, the factors."""

import pathlib
import subprocess
import sys

import numpy as np
import pytest

from common import figures
from common.errors import UserError
from modeling.explain import graph, permutation

ROOT = pathlib.Path(__file__).resolve().parents[3]
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
    path = tmp_path / "x.png"
    permutation.draw(found, str(path))
    assert path.read_bytes().startswith(b"\x89PNG")
    with pytest.raises(UserError, match="does not exist"):
        permutation.draw(found, str(tmp_path / "no" / "x.png"))


def test_the_arrows_of_figures_3_and_4():
    """Order 3 2 4 1 with two layers and two slots of memory."""
    order = (3, 2, 4, 1)
    found = graph.arrows(order, 2, 2)

    def into(kind, layer, place):
        end = graph.Node(kind, layer, place)
        return [(str(a.start), a.dashed) for a in found if a.end == end]

    for layer in (1, 2):
        below = f"^({layer - 1})"
        memory = [(f"mem_{k}{below}", False) for k in (1, 2)]
        sees = {3: [], 2: [3], 4: [2, 3], 1: [2, 3, 4]}
        for place, others in sees.items():
            own = (f"g_{place}{below}", True)
            tokens = [(f"h_{k}{below}", False) for k in others]
            assert into("g", layer, place) == [own, *memory, *tokens]
            content = sorted([*others, place])
            tokens = [(f"h_{k}{below}", False) for k in content]
            assert into("h", layer, place) == [*memory, *tokens]
    # The first of the order rests on memory and itself alone, in both layers.
    shown = graph.views(found, order, "split")
    assert [t.split(":")[0] for t in shown] == [
        f"position {i}" for i in (*order, *order)
    ]
    first = {a.start for a in shown["position 3: g_3^(2)"]}
    kinds = {n.kind for n in first}
    assert kinds == {"g", "mem"} and {n.place for n in first} == {1, 2, 3}
    # The last one's way leads over all tokens but its own content.
    last = {str(a.start) for a in shown["position 1: g_1^(2)"]}
    assert "h_4^(0)" in last and "h_1^(0)" not in last
    assert len(graph.views(found, order, "joint")["joint view"]) == len(found)


def test_partial_prediction_has_few_query_nodes(tmp_path):
    found = graph.arrows((3, 2, 4, 1), 2, 0, "query", partial=2)
    ends = {(a.end.kind, a.end.layer, a.end.place) for a in found}
    assert {e for e in ends if e[0] == "g"} == {
        ("g", layer, place) for layer in (1, 2) for place in (4, 1)
    }
    # Context sees context; the last layer has the query stream alone.
    h2 = graph.Node("h", 1, 2)
    assert [a.start.place for a in found if a.end == h2] == [2, 3]
    assert ("h", 2, 1) not in ends
    shown = graph.views(found, (3, 2, 4, 1), "split")
    text = graph.lines(shown)
    assert "  g_1^(2) <- (g_1^(1)) h_2^(1) h_3^(1) h_4^(1)" in text
    path = tmp_path / "x.svg"
    graph.draw(shown, TEXT.split(), str(path))
    assert b"<svg" in path.read_bytes()
    for bad in ("x.pdf", "no/x.svg"):
        with pytest.raises(UserError, match="--output"):
            graph.draw(shown, TEXT.split(), str(tmp_path / bad))
    with pytest.raises(UserError, match="--partial"):
        graph.arrows((1, 2), partial=3)
    with pytest.raises(UserError, match="--n_layer"):
        graph.arrows((1, 2), n_layer=0)


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


@pytest.mark.slow
@pytest.mark.shared
def test_command(spiece_model, tmp_path):
    def run(*flags):
        return subprocess.run(
            [sys.executable, "-m", "modeling.explain_permutation", *flags],
            cwd=ROOT,
            capture_output=True,
            text=True,
        )

    done = run(
        f"--text={TEXT}", "--order=3,2,4,1", f"--output={tmp_path}/x.png"
    )
    assert done.returncode == 0 and "Pr(is | a)" in done.stdout
    assert (tmp_path / "x.png").exists()
    wrong = run(f"--text={TEXT}", "--order=3,x")
    assert wrong.returncode == 1 and "numbers" in wrong.stderr
    wrong = run(f"--text={TEXT}", "--order=1", "--split=pieces")
    assert wrong.returncode == 1 and "spiece_model_file" in wrong.stderr
    wrong = run(
        "--text=a b",
        "--order=1",
        "--split=pieces",
        f"--spiece_model_file={spiece_model}",
    )
    assert wrong.returncode == 1 and "each of 1.." in wrong.stderr
