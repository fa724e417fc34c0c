"""The parts of a page: everything that comes from data is escaped here, and nothing else makes markup.

The page carries its own style and the few lines of script that sort tables, both named by their SHA-256 in a
content security policy that forbids everything else: no network, no other script, no inline handler.
"""

import base64
import hashlib
import math
from collections.abc import Iterable, Sequence
from html import escape
from importlib import resources
from typing import Any, NamedTuple

_NUMBER = ' class="number"'
_SHORT = 14  # letters of a word or a date that stays on one line


class Cell(NamedTuple):
    """A table's entry: what is shown, and the number it sorts by if it is one."""

    text: str
    value: float | None = None


def number(value: float, digits: int = 4) -> Cell:
    """A number with so many significant digits."""
    value = float(value)
    if not math.isfinite(value):
        return Cell("—", None)
    text = f"{value:,.0f}" if 10 ** (digits - 1) <= abs(value) < 1e12 else f"{value:.{digits}g}"
    return Cell(text.replace("-", "−"), value)


def percent(part: float, decimals: int = 0) -> Cell:
    """A part of one as per cent."""
    return Cell(f"{100 * part:.{decimals}f} %", float(part)) if math.isfinite(part) else Cell("—", None)


def cell(value: Any) -> Cell:
    """An entry of a data table as it came."""
    if isinstance(value, Cell):
        return value
    if isinstance(value, bool) or not hasattr(value, "__float__"):
        return Cell(str(value))
    return number(value)


def table(name: str, head: Sequence[str], rows: Iterable[Sequence[Any]], *, strong: int | None = None) -> str:
    """A table whose columns sort by a click on their head.

    Parameters
    ----------
    name : str
        What the table shows; its caption.
    head : sequence of str
        Names of the columns.
    rows : iterable of sequences
        Strings, numbers or `Cell`; the first column names the row.
    strong : int, optional
        A row to set off.
    """
    entries = [[cell(entry) for entry in row] for row in rows]
    numeric = [_holds_numbers([row[k] for row in entries]) for k in range(len(head))]
    columns = "".join(
        f'<th scope="col"{_NUMBER if right else ""}><button type="button">{escape(h)}</button></th>'
        for h, right in zip(head, numeric, strict=True)
    )
    lines = [_row(row, k == strong) for k, row in enumerate(entries)]
    body = "\n".join(lines)
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{escape(name)}">\n'
        f'<table class="sortable">\n<caption>{escape(name)}</caption>\n'
        f"<thead><tr>{columns}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>\n</div>"
    )


def _holds_numbers(column: Sequence[Cell]) -> bool:
    """Whether a column has numbers, and gaps at most besides."""
    return any(c.value is not None for c in column) and all(c.value is not None or not c.text for c in column)


def _row(cells: Sequence[Cell], strong: bool) -> str:
    first, *rest = map(_entry, cells)
    mark = ' class="strong"' if strong else ""
    return f'<tr{mark}><th scope="row"{first}</th>' + "".join(f"<td{c}</td>" for c in rest) + "</tr>"


def _entry(found: Cell) -> str:
    """Attributes and text of an entry."""
    if found.value is not None:
        return f'{_NUMBER} data-value="{found.value!r}">{escape(found.text)}'
    kind = ' class="short"' if len(found.text) <= _SHORT else ""
    return f"{kind}>{escape(found.text)}"


def facts(pairs: Iterable[tuple[str, Any]]) -> str:
    """Names and values, one below the other."""
    items = "".join(f"<div><dt>{escape(k)}</dt><dd>{escape(cell(v).text)}</dd></div>" for k, v in pairs)
    return f'<dl class="facts">{items}</dl>'


def cards(items: Iterable[tuple[str, str, str]]) -> str:
    """The few figures to read first: a value, its name, and a remark."""
    inner = "".join(
        f"<li><strong>{escape(v)}</strong> <span>{escape(name)}</span> <small>{escape(remark)}</small></li>"
        for v, name, remark in items
    )
    return f'<ul class="cards">{inner}</ul>'


def paragraph(text: str) -> str:
    """Plain text."""
    return f"<p>{escape(text)}</p>"


def figure(svg: str, caption: str) -> str:
    """A picture and what to see in it."""
    return f"<figure>\n{svg}\n<figcaption>{escape(caption)}</figcaption>\n</figure>"


def side_by_side(*parts: str) -> str:
    """Parts next to each other where there is room."""
    return '<div class="pair">\n' + "\n".join(parts) + "\n</div>"


class Section(NamedTuple):
    """A part of the page: its anchor, what the contents call it, and its element."""

    anchor: str
    head: str
    element: str


def section(name: str, title: str, *parts: str, head: str | None = None) -> Section:
    """A part of the page with a heading and an anchor; `head` is its name in the contents, if another."""
    inner, anchor = "\n".join(parts), escape(name)
    heading = f'<h2 id="{anchor}-h">{escape(title)}</h2>'
    element = f'<section id="{anchor}" aria-labelledby="{anchor}-h">\n{heading}\n{inner}\n</section>'
    return Section(name, head or title, element)


def document(title: str, subtitle: str, sections: Sequence[Section], footer: str) -> str:
    """The whole page."""
    style, script = _asset("style.css"), _asset("sort.js")
    policy = (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    links = "".join(f'<li><a href="#{escape(name)}">{escape(head)}</a></li>' for name, head, _ in sections)
    body = "\n".join(element for _, _, element in sections)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>{escape(title)}</title>
<style>{style}</style>
</head>
<body>
<header>
<h1>{escape(title)}</h1>
<p>{escape(subtitle)}</p>
<nav aria-label="Contents"><ul>{links}</ul></nav>
</header>
<main>
{body}
</main>
<footer>{paragraph(footer)}</footer>
<script>{script}</script>
</body>
</html>
"""


def _asset(name: str) -> str:
    return resources.files("tggm.report").joinpath(name).read_text(encoding="utf-8")


def _digest(content: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
