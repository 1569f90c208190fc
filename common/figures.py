"""Figures of tables: Matplotlib without a display, as PNG and SVG."""

from typing import TYPE_CHECKING, Any

from common import files

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KINDS = ("png", "svg")


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


def twenty_colours() -> list:
    """That can be told apart, strong ones first: the default cycle has ten."""
    import matplotlib

    colours = matplotlib.colormaps["tab20"].colors
    return [*colours[::2], *colours[1::2]]


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
