"""The two streams of an order as a graph (paper, Figures 1, 3 and 4).

Nodes are `h_i^(l)` (content), `g_i^(l)` (query) and `mem_k^(l)`, l = 0 the
embeddings; arrows are what the model's own masks let each node attend to.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from common import figures
from common.errors import UserError
from modeling.attention import masks


class Node(NamedTuple):
    """`kind` is "h", "g" or "mem"; `place` counts from 1."""

    kind: str
    layer: int
    place: int

    def __str__(self) -> str:
        return f"{self.kind}_{self.place}^({self.layer})"


class Arrow(NamedTuple):
    """`end` attends to `start`.

    `dashed`: the query row's own line, which carries its position and what it
    read before, and never the token of its place.
    """

    start: Node
    end: Node
    dashed: bool = False


def arrows(
    order: Sequence[int],
    n_layer: int = 2,
    memory: int = 0,
    stream: str = "both",
    partial: int = 0,
) -> list[Arrow]:
    """All arrows of an order, a permutation of 1..T.

    Args:
      memory: M slots before the segment, seen by all.
      stream: "content", "query" or "both"; "query" has the content arrows that
        it stands on, too, in the layers below the last.
      partial: only the last so many of the order are predicted; 0 = all.

    Raises UserError: a number out of range.
    """
    count = len(order)
    if not 0 <= partial <= count:
        raise UserError(
            f"--partial must lie in 0 (all)..{count}, received {partial}"
        )
    if n_layer < 1 or memory < 0:
        raise UserError(
            "--n_layer must be 1 or more and --memory 0 or more, received "
            f"{n_layer} and {memory}"
        )
    targets = np.array(order[count - (partial or count) :]) - 1
    ranks = np.full([1, count], -1, np.int32)
    ranks[0, targets] = np.arange(len(targets))
    attention = masks.attention_masks(
        count,
        memory,
        perm_mask=masks.rank_mask(tf.constant(ranks), tf.constant(ranks >= 0)),
        two_streams=True,
    )
    seen = {"h": attention.content[0].numpy() == 0}  # [T, M + T]
    seen["g"] = attention.query[0].numpy() == 0
    rows = {"h": range(count), "g": sorted(targets)}
    drawn = []
    for layer in range(1, n_layer + 1):
        kinds = {"content": "h", "query": "hg", "both": "hg"}[stream]
        if stream == "query" and layer == n_layer:
            kinds = "g"  # nobody reads the last content states
        for kind in kinds:
            for i in rows[kind]:
                end = Node(kind, layer, int(i) + 1)
                if kind == "g":
                    start = Node("g", layer - 1, int(i) + 1)
                    drawn.append(Arrow(start, end, dashed=True))
                for key in np.flatnonzero(seen[kind][i]):
                    position = int(key) - memory + 1
                    start = Node("h", layer - 1, position)
                    if position < 1:
                        start = Node("mem", layer - 1, int(key) + 1)
                    drawn.append(Arrow(start, end))
    return drawn


def split(found: Sequence[Arrow], top: Node) -> list[Arrow]:
    """The arrows on a way to one node: a split view of Figures 3 and 4."""
    wanted, kept = {top}, []
    for arrow in sorted(found, key=lambda a: -a.end.layer):
        if arrow.end in wanted:
            wanted.add(arrow.start)
            kept.append(arrow)
    return [arrow for arrow in found if arrow in set(kept)]


def views(found: Sequence[Arrow], order: Sequence[int], view: str) -> dict:
    """Title -> arrows: one for "joint", one per last node for "split"."""
    if view == "joint":
        return {"joint view": list(found)}
    last = max(arrow.end.layer for arrow in found)
    tops = {arrow.end for arrow in found if arrow.end.layer == last}
    ranked = sorted(tops, key=lambda n: (n.kind, list(order).index(n.place)))
    return {f"position {top.place}: {top}": split(found, top) for top in ranked}


def lines(shown: dict[str, list[Arrow]]) -> str:
    """The arrows as text, what a node attends to on one line."""
    parts = []
    for title, of_view in shown.items():
        parts.append(f"{title}:")
        for end in dict.fromkeys(arrow.end for arrow in of_view):
            starts = [
                f"({a.start})" if a.dashed else str(a.start)
                for a in of_view
                if a.end == end
            ]
            parts.append(f"  {end} <- {' '.join(starts)}")
    return "\n".join(parts)


def draw(
    shown: dict[str, list[Arrow]], tokens: Sequence[str], path: str
) -> None:
    """Draws the views beside each other, T words below places.

    Raises UserError: see `figures.check_path`.
    """
    figures.check_path(path)
    columns = min(len(shown), 4)
    rows = -(-len(shown) // columns)
    size = ((2.5 + 0.8 * len(tokens)) * columns, 4 * rows)
    figure, grid = figures.new(rows, columns, figsize=size)
    for axes in grid.flat:
        axes.axis("off")
    every = {n for of in shown.values() for a in of for n in a[:2]}
    # There may be more axes than views.
    for axes, (title, of_view) in zip(grid.flat, shown.items(), strict=False):
        axes.set_title(title, fontsize=9)
        _draw_view(axes, of_view, every, tokens)
    figures.write(figure, path)


def _draw_view(axes, found, every, tokens) -> None:
    """One view; nodes that only others use are grey."""
    memory = max((n.place for n in every if n.kind == "mem"), default=0)

    def at(node: Node) -> tuple[float, float]:
        if node.kind == "mem":
            return node.place - memory, 2.0 * node.layer
        aside = 0.3 if node.kind == "g" else 0.0
        return node.place + aside, 2.0 * node.layer + 2.5 * aside

    for arrow in found:
        style = {
            "arrowstyle": "->",
            "linestyle": "--" if arrow.dashed else "-",
            "color": "tab:green" if arrow.end.kind == "g" else "0.3",
        }
        axes.annotate("", at(arrow.end), at(arrow.start), arrowprops=style)
    for node in every:
        colour = {"g": "honeydew", "mem": "0.9"}.get(node.kind, "white")
        used = any(node in arrow[:2] for arrow in found)
        axes.text(
            *at(node),
            f"{node.kind}{node.place}",
            ha="center",
            va="center",
            fontsize=8,
            color="black" if used else "0.7",
            bbox={"boxstyle": "round", "facecolor": colour},
        )
    for position, token in enumerate(tokens, 1):
        axes.text(position, -0.8, token, ha="center", fontsize=8)
    axes.set_xlim(-memory, len(tokens) + 1)
    axes.set_ylim(-1.2, 1.5 + 2 * max(n.layer for n in every))
