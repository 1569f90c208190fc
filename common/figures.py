"""Figures of tables: Matplotlib without a display, as PNG and SVG."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from common import files
from common.errors import UserError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KINDS = ("png", "svg")
OWN = "DejaVu Sans"  # comes with Matplotlib


def new(
    rows: int = 1, columns: int = 1, **options: Any
) -> "tuple[Figure, Any]":
    """A figure (`matplotlib.figure.Figure`) and its axes [rows, columns]."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(**({"layout": "constrained"} | options))
    FigureCanvasAgg(figure)
    return figure, figure.subplots(rows, columns, squeeze=False)


def caption(figure: "Figure", *lines: str) -> None:
    """What every figure of a measurement says above its axes.

    What n is, what a point and a bar are, the command that made it.
    """
    figure.suptitle("\n".join(map(literal, lines)), fontsize=9)


def literal(text: str) -> str:
    """Text of a user for a figure: Matplotlib would read `$x_$` as a formula."""
    return text.replace("$", r"\$")


def families(texts: Sequence[str]) -> list[str]:
    """Fonts that have the characters together, in the order to try them.

    Matplotlib's own font comes first; then those that have most of what is
    left, of equals the first by name.
    """
    return _cover(texts)[0]


def note(texts: Sequence[str]) -> str:
    """A line about characters that no installed font has; "" without any."""
    missing = "".join(sorted(map(chr, _cover(texts)[1])))
    if not missing:
        return ""
    more = " ..." if len(missing) > 10 else ""
    return (
        f"note: no installed font has {' '.join(missing[:10])}{more}, which "
        "are drawn as boxes: install one, such as Noto Sans CJK"
    )


def _cover(texts: Sequence[str]) -> tuple[list[str], set[int]]:
    """Fonts, and the characters that none has."""
    from matplotlib import font_manager

    left = {ord(c) for text in texts for c in text if not c.isspace()}
    left -= _characters(font_manager.findfont(OWN))
    fonts_taken = [OWN]
    if not left:
        return fonts_taken, left
    fonts = {f.name: f.fname for f in font_manager.fontManager.ttflist}
    known = {name: _characters(fonts[name]) & left for name in sorted(fonts)}
    while left:
        name = max(known, key=lambda name: len(known[name] & left))
        if not known[name] & left:
            break
        fonts_taken.append(name)
        left -= known[name]
    return fonts_taken, left


def _characters(path: str) -> set[int]:
    """Those that a font file has."""
    from matplotlib import font_manager

    try:
        return set(font_manager.get_font(path).get_charmap())
    except (OSError, RuntimeError):
        return set()  # listed, but gone or damaged


def check_path(path: str) -> None:
    """UserError: no picture can be written there, by its ending or its folder."""
    if path.rpartition(".")[2] not in KINDS:
        endings = " or ".join(f".{kind}" for kind in KINDS)
        raise UserError(f"--output must end in {endings}, found {path}")
    folder = os.path.dirname(path)
    if folder and not files.is_folder(folder):
        raise UserError(f"--output: the folder {folder} does not exist")


def write(figure: "Figure", path: str) -> None:
    """Writes a picture in the form of its ending, atomically.

    Equal figures give equal bytes.
    """
    import matplotlib

    kind = path.rpartition(".")[2]
    # Ids and the date of an SVG would differ from run to run.
    about = {"metadata": {"Date": None}} if kind == "svg" else {}
    with (
        matplotlib.rc_context({"svg.hashsalt": "figure"}),
        files.atomic_open(path, "wb") as f,
    ):
        figure.savefig(f, format=kind, dpi=150, **about)


def save(figure: "Figure", stem: str) -> list[str]:
    """Writes STEM.png and STEM.svg with `write`; their paths."""
    paths = [f"{stem}.{kind}" for kind in KINDS]
    for path in paths:
        write(figure, path)
    return paths
