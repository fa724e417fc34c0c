"""Hooks of the documentation site: formulas become MathML when it is built, examples are linked within it.

Browsers display MathML, so that formulas need neither a script nor a network.
"""

import html
import re
import struct
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r'<div class="arithmatex">\s*\\\[(.*?)\\\]\s*</div>', re.DOTALL)
INLINE = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', re.DOTALL)
FIGURE = re.compile(r"<td>([-−+]?[\d.][\d.,e+-]*(?: (?:s|ms|µs|%))?)</td>")  # a number and its unit
POWER = re.compile(r"(?<![\w.])([-−]?\d[\d.]*e[-+]\d+)(?=[^<>]*</td>)")  # of ten, among other words of a cell
PICTURE = re.compile(r'<img (?=[^>]*src="(images/[^"]+\.png)")')
ORIGIN = re.compile(r"<p>(?=Made by <code>)")
TAG = re.compile(r"\\tag\{([^}]*)\}")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace links to scripts of examples/, outside of the site, by links to the page that shows them."""
    return re.sub(r"\]\(\.\./examples/(\w+)\.py\)", r"](examples.md#\1)", markdown)


def on_page_content(content: str, **_: Any) -> str:
    """Convert formulas to MathML, keep numbers on one line, and mark origins of tables and large pictures."""
    formulas = INLINE.sub(_inline, BLOCK.sub(_block, content))
    cells = FIGURE.sub(r'<td class="figure">\1</td>', formulas)
    cells = ORIGIN.sub('<p class="origin">', POWER.sub(r'<span class="figure">\1</span>', cells))
    return PICTURE.sub(_picture, cells)


def _picture(found: re.Match[str]) -> str:
    """Mark pictures of several panels or a page; a narrow window scrolls them at full size."""
    width, height = struct.unpack(">II", (DOCS / found[1]).read_bytes()[16:24])  # their position in every PNG
    return '<img class="panels" ' if width >= 2 * height or height > 1000 else found[0]


def _inline(found: re.Match[str]) -> str:
    return convert(html.unescape(found[1]).strip())


def _block(found: re.Match[str]) -> str:
    source = html.unescape(found[1])
    numbers = TAG.findall(source)
    formula = convert(TAG.sub("", source).strip(), display="block")
    if not numbers:
        return f'<div class="equation">{formula}</div>'
    (number,) = numbers
    return f'<div class="equation" id="eq-{number}">{formula}<span>({number})</span></div>'
