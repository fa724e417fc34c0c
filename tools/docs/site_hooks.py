"""Hooks of the documentation site: formulas become MathML when it is built, examples are linked within it.

Browsers show MathML by themselves, so that the pages need neither a script nor a network for their formulas.
"""

import html
import re
from typing import Any

from latex2mathml.converter import convert

BLOCK = re.compile(r'<div class="arithmatex">\s*\\\[(.*?)\\\]\s*</div>', re.DOTALL)
INLINE = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', re.DOTALL)
FIGURE = re.compile(r"<td>([-−+]?[\d.][\d.,e+-]*(?: (?:s|ms|µs|%))?)</td>")  # a number and its unit
POWER = re.compile(r"(?<![\w.])([-−]?\d[\d.]*e[-+]\d+)(?=[^<>]*</td>)")  # of ten, among other words of a cell
ORIGIN = re.compile(r"<p>(?=Made by <code>)")
TAG = re.compile(r"\\tag\{([^}]*)\}")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Lead links to the scripts of examples/, which are outside of the site, to the page that shows them."""
    return re.sub(r"\]\(\.\./examples/(\w+)\.py\)", r"](examples.md#\1)", markdown)


def on_page_content(content: str, **_: Any) -> str:
    """Turn formulas into MathML, keep numbers on one line, and say in small letters what made a table."""
    formulas = INLINE.sub(_inline, BLOCK.sub(_block, content))
    cells = FIGURE.sub(r'<td class="figure">\1</td>', formulas)
    return ORIGIN.sub('<p class="origin">', POWER.sub(r'<span class="figure">\1</span>', cells))


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
