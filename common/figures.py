"""Figures of tables: Matplotlib without a display, as PNG and SVG."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from common import files

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KINDS = ("png", "svg")
OWN = "DejaVu Sans"  # comes with Matplotlib


def new(
    rows: int = 1, columns: int = 1, **options: Any
) -> "tuple[Figure, Any]":
    """A figure and its axes, an array [rows, columns].

    Args:
      rows, columns: of axes.
      **options: of `matplotlib.figure.Figure`.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(**({"layout": "constrained"} | options))
    FigureCanvasAgg(figure)
    return figure, figure.subplots(rows, columns, squeeze=False)


def literal(text: str) -> str:
    """Text of a user for a figure: Matplotlib would read `$x_$` as a formula."""
    return text.replace("$", r"\$")


def font_for(texts: Sequence[str]) -> str:
    """A font that has all characters; "" where none is installed.

    matplotlib's own font comes first; then the installed ones by name.
    """
    from matplotlib import font_manager

    wanted = {ord(c) for text in texts for c in text if not c.isspace()}
    fonts = {f.name: f.fname for f in font_manager.fontManager.ttflist}
    for name in sorted(fonts, key=lambda name: (name != OWN, name)):
        try:
            known = font_manager.get_font(fonts[name]).get_charmap()
        except (OSError, RuntimeError):
            continue  # listed, but gone or damaged
        if wanted <= known.keys():
            return name
    return ""


def families(texts: Sequence[str]) -> list[str]:
    """Fonts of a label in the order in which they are tried."""
    return list(dict.fromkeys([font_for(texts) or OWN, OWN]))


def save(figure: "Figure", stem: str) -> list[str]:
    """Writes STEM.png and STEM.svg, atomically; their paths.

    Equal figures give equal bytes.
    """
    import matplotlib

    paths = []
    for kind in KINDS:
        paths.append(f"{stem}.{kind}")
        # Ids and the date of an SVG would differ from run to run.
        about = {"metadata": {"Date": None}} if kind == "svg" else {}
        with (
            matplotlib.rc_context({"svg.hashsalt": "figure"}),
            files.atomic_open(paths[-1], "wb") as f,
        ):
            figure.savefig(f, format=kind, dpi=150, **about)
    return paths
