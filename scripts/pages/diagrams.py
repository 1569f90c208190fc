"""Draws docs/figures/*.svg, the diagrams of the pages, from diagrams.toml.

    python scripts/pages/diagrams.py

One palette, light and dark (the reader's system decides). A diagram is boxes in
a grid and arrows between them, or a mask: rows that see columns.
"""

import argparse
import pathlib
import tomllib
from xml.sax.saxutils import escape

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCE = ROOT / "docs" / "figures" / "diagrams.toml"
FOLDER = SOURCE.parent
WIDTH, HEIGHT, GAP_X, GAP_Y, EDGE = 168, 52, 112, 46, 12
CELL = 26
STYLE = """
  text { font: 13px sans-serif; fill: #1f2430; text-anchor: middle }
  .small { font-size: 11.5px; fill: #4a5160 }
  .left { text-anchor: start }
  .right { text-anchor: end }
  rect { stroke: #3b4252; stroke-width: 1.2; fill: #ffffff }
  .command { fill: #dbe7ff } .file { fill: #fff3d1 } .state { fill: #dff3e0 }
  .device { fill: #f3e1f5 } .seen { fill: #5b8def } .hidden { fill: #eef0f4 }
  path { stroke: #3b4252; stroke-width: 1.4; fill: none }
  .tip { fill: #3b4252; stroke: none }
  .back { stroke: none; fill: #ffffff; opacity: .85 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e7eaf0 } .small { fill: #b6bdca }
    rect { stroke: #9aa4b5; fill: #262b36 }
    .command { fill: #27407a } .file { fill: #5c4a17 } .state { fill: #23502a }
    .device { fill: #53325a } .seen { fill: #6f9bf2 } .hidden { fill: #2f3542 }
    path { stroke: #9aa4b5 } .tip { fill: #9aa4b5 } .back { fill: #1e2129 }
  }
"""


def main() -> None:
    """Writes every diagram."""
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    for name, text in drawn().items():
        (FOLDER / f"{name}.svg").write_text(text, encoding="utf-8")


def drawn() -> dict[str, str]:
    """Name -> SVG."""
    with open(SOURCE, "rb") as file:
        diagrams = tomllib.load(file)
    return {
        name: _masks(value) if "masks" in value else _flow(value)
        for name, value in diagrams.items()
    }


def place(box: list, gap: float = GAP_X) -> tuple[int, int]:
    """Left upper corner of [column, row, kind, line, ...]."""
    column, row = box[:2]
    x = EDGE + column * (WIDTH + gap)
    return round(x), round(EDGE + row * (HEIGHT + GAP_Y))


def _flow(value: dict) -> str:
    gap = value.get("gap", GAP_X)
    boxes = value["boxes"]
    places = {name: place(box, gap) for name, box in boxes.items()}
    parts = [_arrow(places, *arrow) for arrow in value["arrows"]]
    for name, box in boxes.items():
        x, y = places[name]
        parts.append(
            f'<rect class="{box[2]}" x="{x}" y="{y}" width="{WIDTH}" '
            f'height="{HEIGHT}" rx="7"/>'
        )
        lines = box[3:]
        for number, line in enumerate(lines):
            at = y + HEIGHT / 2 + 5 + 17 * (number - (len(lines) - 1) / 2)
            kind = "small" if number else ""
            parts.append(_text(x + WIDTH / 2, at, line, kind))
    corners = places.values()
    width = max(x for x, _ in corners) + WIDTH + EDGE
    height = max(y for _, y in corners) + HEIGHT + EDGE
    return _svg(value["title"], width, height, parts)


def _arrow(places: dict, start: str, end: str, label: str = "") -> str:
    """From the middle of a side to the middle of the facing one."""
    (x0, y0), (x1, y1) = places[start], places[end]
    if abs(x0 - x1) > WIDTH:
        forward = 1 if x1 > x0 else -1
        a = (x0 + (WIDTH if forward > 0 else 0), y0 + HEIGHT / 2)
        b = (x1 + (0 if forward > 0 else WIDTH), y1 + HEIGHT / 2)
        middle = (a[0] + b[0]) / 2
        path = f"M{a[0]} {a[1]} H{middle} V{b[1]} H{b[0] - 7 * forward}"
        tip = f"M{b[0]} {b[1]} l{-9 * forward} -5 v10 z"
        at = (middle, (a[1] + b[1]) / 2 - 6)
    else:
        down = 1 if y1 > y0 else -1
        a = (x0 + WIDTH / 2, y0 + (HEIGHT if down > 0 else 0))
        b = (x1 + WIDTH / 2, y1 + (0 if down > 0 else HEIGHT))
        middle = (a[1] + b[1]) / 2
        turn = "" if x0 == x1 else f"V{middle} H{b[0]} "
        path = f"M{a[0]} {a[1]} {turn}V{b[1] - 7 * down}"
        tip = f"M{b[0]} {b[1]} l-5 {-9 * down} h10 z"
        at = ((a[0] + b[0]) / 2, middle + 4)
    parts = [f'<path d="{path}"/>', f'<path class="tip" d="{tip}"/>']
    if label:
        half = 3.4 * len(label) + 3
        parts.append(
            f'<rect class="back" x="{at[0] - half}" y="{at[1] - 12}" '
            f'width="{2 * half}" height="16"/>'
        )
        parts.append(_text(*at, label, "small"))
    return "\n".join(parts)


def _masks(value: dict) -> str:
    """Matrices side by side: one row per query, one column per key."""
    parts, left = [], EDGE + 120
    top = EDGE + 74
    for title, mask in value["masks"].items():
        keys, rows = mask["keys"], mask["rows"]
        parts.append(_text(left + CELL * len(keys) / 2, EDGE + 14, title))
        for number, key in enumerate(keys):
            x = left + CELL * (number + 0.5)
            parts.append(
                f'<text class="small left" transform="translate({x + 4} '
                f'{top - 6}) rotate(-50)">{escape(key)}</text>'
            )
        for number, (name, seen) in enumerate(rows):
            y = top + CELL * number
            parts.append(_text(left - 8, y + 17, name, "small right"))
            for column, mark in enumerate(seen):
                kind = "seen" if mark == "x" else "hidden"
                parts.append(
                    f'<rect class="{kind}" x="{left + CELL * column}" '
                    f'y="{y}" width="{CELL}" height="{CELL}"/>'
                )
        left += CELL * len(keys) + 170
    most = max(len(mask["rows"]) for mask in value["masks"].values())
    bottom = top + CELL * most + 24
    parts.append(_text(EDGE, bottom, value["note"], "small left"))
    width = max(left - 60, EDGE + 6.4 * len(value["note"]))
    return _svg(value["title"], width, bottom + EDGE, parts)


def _text(x: float, y: float, text: str, kind: str = "") -> str:
    return f'<text class="{kind}" x="{x}" y="{y}">{escape(text)}</text>'


def _svg(title: str, width: float, height: float, parts: list[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"'
        f' width="{width}" role="img">\n<title>{escape(title)}</title>\n'
        f"<style>{STYLE}</style>\n" + "\n".join(parts) + "\n</svg>\n"
    )


if __name__ == "__main__":
    main()
