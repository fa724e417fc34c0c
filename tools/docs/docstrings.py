"""Convert docstrings for the documentation site: marks of reStructuredText become Markdown."""

import re
import textwrap
from typing import Any

import griffe

LINE = re.compile(r"^([ ]*)\.\. math:: *(\S.*)$", re.MULTILINE)
MATH = re.compile(r"^([ ]*)\.\. math::\s*\n((?:\1[ ]+.*\n?|\s*\n)+)", re.MULTILINE)


class Markdown(griffe.Extension):
    """Rewrite `.. math::` blocks, and the roles `:math:`, `:func:` and `:class:`."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Process every object that was read."""
        if obj.docstring:
            obj.docstring.value = markdown(obj.docstring.value)


def markdown(text: str) -> str:
    """Return a docstring with formulas between dollars."""
    text = LINE.sub(r"\n\1$$\n\1\2\n\1$$\n", text)
    text = MATH.sub(_block, text + "\n")
    text = re.sub(r":math:`([^`]*)`", r"$\1$", text)
    return re.sub(r":(?:func|class|mod):`~?([^`]*)`", r"`\1`", text).rstrip()


def _block(found: re.Match[str]) -> str:
    body = textwrap.indent(textwrap.dedent(found[2]).strip(), found[1])
    return f"\n{found[1]}$$\n{body}\n{found[1]}$$\n\n"
