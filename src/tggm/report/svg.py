"""Pictures as text inside a page: an inline SVG that is small, the same at every run, and needs no style.

What matplotlib writes is meant for a file of its own. Here its style attributes become plain attributes (a
strict content security policy forbids the former), its identifiers get a prefix (several pictures share one
page), its numbers lose digits that nobody sees, and the text stays text, in the font of the page.
"""

import io
import re
import warnings
from collections.abc import Callable
from html import escape
from typing import Any

SIZE = (4.7, 3.5)  # inches; about the width of a phone, so that letters there have the size drawn here
LONG = 1e4  # numbers from this on have few ticks
LETTERS = 22  # of a name beside an axis
_RC = {
    "svg.fonttype": "none",
    "svg.hashsalt": "tggm",
    "text.parse_math": False,  # a feature may be called "$"
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 10,
    "legend.fontsize": 9,
    "path.simplify": True,
    "axes.formatter.limits": (-3, 6),  # 0.00015 beside 0.00010 would touch
}


def picture(draw: Callable[[Any], Any], *, name: str, alt: str, size: tuple[float, float] = SIZE) -> str:
    """The SVG element of what `draw` puts on its Axes.

    Parameters
    ----------
    draw : callable
        Called with the Axes.
    name : str
        Prefix of all identifiers; one for each picture of a page.
    alt : str
        What a reader who cannot see the picture should know.
    size : (float, float)
        Width and height in inches.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(_RC), warnings.catch_warnings():
        # a name in a script that the drawing font lacks is measured roughly and shown by the browser's font
        warnings.filterwarnings("ignore", message="Glyph")
        figure = Figure(figsize=size, layout="constrained")
        ax = figure.add_subplot()
        draw(ax)
        _thin_ticks(ax)
        _shorten_names(ax)
        buffer = io.StringIO()
        empty = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        figure.savefig(buffer, format="svg", metadata=empty, transparent=True)
    return inline(buffer.getvalue(), name, alt)


def _thin_ticks(ax: Any) -> None:
    """Few ticks below where their numbers are long, so that they do not touch."""
    from matplotlib.ticker import AutoLocator, MaxNLocator

    if isinstance(ax.xaxis.get_major_locator(), AutoLocator) and max(map(abs, ax.get_xlim())) >= LONG:
        ax.xaxis.set_major_locator(MaxNLocator(4))


def _shorten_names(ax: Any) -> None:
    """Long names of ticks would leave no room for the picture."""
    for axis in (ax.xaxis, ax.yaxis):
        labels = [label.get_text() for label in axis.get_ticklabels()]
        if any(len(label) > LETTERS for label in labels):  # numbers have no text yet
            axis.set_ticks(axis.get_majorticklocs(), list(map(shortened, labels)))


def shortened(name: str) -> str:
    """A name of bounded length, its two ends kept."""
    half = LETTERS // 2
    return name if len(name) <= LETTERS else f"{name[: half - 1]}…{name[-half:]}"


def inline(svg: str, name: str, alt: str) -> str:
    """A matplotlib SVG file as an element with a title, ready to stand among others."""
    box = re.search(r'viewBox="([^"]*)"', svg)
    assert box is not None, "matplotlib writes a viewBox"
    body = svg[svg.index(">", box.end()) + 1 : svg.rindex("</svg>")]
    body = re.sub(r"<metadata>.*?</metadata>|<style[^>]*>.*?</style>|<!--.*?-->", "", body, flags=re.DOTALL)
    body = re.sub(r"<defs>\s*</defs>", "", body)
    body = re.sub(r' style="([^"]*)"', _attributes, body)
    body = re.sub(r'\bid="([^"]*)"', rf'id="{name}-\1"', body)
    body = body.replace("xlink:href=", "href=")
    body = re.sub(r'href="#([^"]*)"', rf'href="#{name}-\1"', body)
    body = re.sub(r"url\(#([^)]*)\)", rf"url(#{name}-\1)", body)
    body = re.sub(r'(?<= d=")[^"]*', lambda found: _shorter(found[0]), body)
    body = re.sub(r' [xy]="[^"]*"', lambda found: _shorter(found[0]), body)
    body = re.sub(r'<g id="[^"]*">', "<g>", body)  # nothing refers to groups
    body = re.sub(r"\s*\n\s*", "\n", body).strip()
    label = f"{name}-title"
    opening = f'<svg class="plot" role="img" aria-labelledby="{label}" viewBox="{box[1]}">'
    return f'{opening}\n<title id="{label}">{escape(alt)}</title>\n{body}\n</svg>'


def _attributes(found: re.Match[str]) -> str:
    """`style="fill: none; font: 10px 'DejaVu Sans'"` as `fill="none" font-size="10px"`."""
    attributes = []
    for item in found[1].split(";"):
        key, _, value = (part.strip() for part in item.partition(":"))
        if key == "font":
            size = re.search(r"[\d.]+px", value)
            key, value = "font-size", size[0] if size else "10px"
        if key and key != "font-family":
            attributes.append(f' {key}="{value}"')
    return "".join(attributes)


def _shorter(numbers: str) -> str:
    """Coordinates to a tenth of a point."""
    return re.sub(r"\d+\.\d+", lambda found: f"{float(found[0]):.1f}".removesuffix(".0"), numbers)
