"""The arrows of the papers' figures."""

import pytest

from common.errors import UserError
from modeling.explain import graph

TEXT = "This is a sentence"


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
