"""Figures of tables: Matplotlib without a display, as PNG and SVG."""

from typing import TYPE_CHECKING, Any

from common import files

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KINDS = ("png", "svg")
# As many that can be told apart: the default cycle has ten.
TWENTY = (
    *("#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b"),
    *("#e377c2", "#7f7f7f", "#bcbd22", "#17becf", "#aec7e8", "#ffbb78"),
    *("#98df8a", "#ff9896", "#c5b0d5", "#c49c94", "#f7b6d2", "#c7c7c7"),
    *("#dbdb8d", "#9edae5"),
)


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
