"""Rendering: table cells, figures as embedded SVG images, and the jinja2 template."""

import base64
import hashlib
import io
import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

WIDTH = 4.7  # inches; about the width of a phone, so that text has its drawn size there
LONG = 1e4  # numbers from this size on get few ticks
LETTERS = 22  # of a name beside an axis
_RC = {
    "svg.fonttype": "none",
    "svg.hashsalt": "tggm",
    "text.parse_math": False,  # a feature name may contain "$"
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 10,
    "legend.fontsize": 9,
    "path.simplify": True,
    "axes.formatter.limits": (-3, 6),  # longer numbers would touch each other
}


class Cell(NamedTuple):
    """A table entry: its text, and the number it is sorted by if it is one."""

    text: str
    value: float | None = None


def number(value: float, digits: int = 4) -> Cell:
    """Format a number with this many significant digits."""
    value = float(value)
    if not math.isfinite(value):
        return Cell("—", None)
    text = f"{value:,.0f}" if 10 ** (digits - 1) <= abs(value) < 1e12 else f"{value:.{digits}g}"
    return Cell(text.replace("-", "−"), value)


def percent(part: float, decimals: int = 0) -> Cell:
    """Format a fraction as a percentage."""
    return Cell(f"{100 * part:.{decimals}f} %", float(part)) if math.isfinite(part) else Cell("—", None)


def cell(value: Any) -> Cell:
    """Convert an entry of a table; a tuple is a text and its number."""
    if isinstance(value, tuple):
        return Cell(*value)
    if isinstance(value, bool) or not hasattr(value, "__float__"):
        return Cell(str(value))
    return number(value)


def numeric_columns(rows: Sequence[Sequence[Cell]]) -> list[bool]:
    """Return which columns have numbers, and otherwise only empty entries."""
    return [
        any(c.value is not None for c in column) and all(c.value is not None or not c.text for c in column)
        for column in zip(*rows, strict=True)
    ]


def render(**context: Any) -> str:
    """Render the template of the page."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("tggm.report", "."), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.filters |= {"cell": cell, "digest": _digest, "numeric_columns": numeric_columns}
    return environment.get_template("report.html.j2").render(**context)


def _digest(content: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()


def picture(draw: Callable[[Any], Any], alt: str, height: float) -> Any:
    """Return an image element of the Axes that `draw` gets, as safe markup.

    `alt` describes the figure to readers who cannot see it; `height` is in inches.
    """
    import matplotlib as mpl
    from markupsafe import Markup
    from matplotlib.figure import Figure
    from matplotlib.ticker import AutoLocator, MaxNLocator

    with mpl.rc_context(_RC), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # the browser has fonts for other scripts
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        ax = figure.add_subplot()
        draw(ax)
        if isinstance(ax.xaxis.get_major_locator(), AutoLocator) and max(map(abs, ax.get_xlim())) >= LONG:
            ax.xaxis.set_major_locator(MaxNLocator(4))  # long numbers would touch
        for axis in (ax.xaxis, ax.yaxis):
            labels = [label.get_text() for label in axis.get_ticklabels()]
            if any(len(label) > LETTERS for label in labels):  # numbers have no text yet
                axis.set_ticks(axis.get_majorticklocs(), list(map(shorten, labels)))
        buffer = io.StringIO()
        empty = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        figure.savefig(buffer, format="svg", metadata=empty, transparent=True)
    content = base64.b64encode(buffer.getvalue().encode()).decode()
    return Markup('<img class="plot" alt="{}" src="data:image/svg+xml;base64,{}">').format(alt, content)


def shorten(name: str) -> str:
    """Shorten a name to `LETTERS` characters, keeping both ends."""
    half = LETTERS // 2
    return name if len(name) <= LETTERS else f"{name[: half - 1]}…{name[-half:]}"
