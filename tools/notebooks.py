"""Make the notebooks of examples/notebooks from the example scripts and from pages of the documentation.

    python tools/notebooks.py

Notebooks have no outputs. Cells of a script are its docstring, imports and functions, default arguments of
`main`, and the body of `main`, split at blank lines. Cells of a page are text, Python code, and commands;
blocks of results are left out.
"""

import ast
import json
import re
import sys
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "examples" / "notebooks"
SCRIPTS = (
    "censored_regression", "claims", "deep_undirected", "digits", "missing_targets", "ordinal_regression",
    "rounded_targets", "shallow_regression", "skew_normal", "survival", "unsupervised",
)  # fmt: skip
PAGES = ("tutorial",)
FENCE = re.compile(r"^```(\w*)\n(.*?)^```\n", re.MULTILINE | re.DOTALL)


class Cell(NamedTuple):
    """A cell: its kind, "markdown" or "code", and its text."""

    kind: str
    text: str


def from_script(source: str) -> list[Cell]:
    """Return the cells of an example script with a function `main`."""
    lines, tree = source.splitlines(), ast.parse(source)
    main = next(node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "main")
    intro = _markdown(ast.get_docstring(tree) or "")
    before = "\n".join(lines[tree.body[0].end_lineno : main.lineno - 1])
    given = zip(main.args.args[::-1], main.args.defaults[::-1], strict=True)  # each argument has a default
    defaults = [f"{name.arg} = {ast.unparse(value)}" for name, value in given][::-1]
    body = [*([Cell("code", "\n".join(defaults))] if defaults else []), *_body(lines, main)]
    return [Cell("markdown", intro), Cell("code", before.strip()), *body]


def from_page(page: str) -> list[Cell]:
    """Return the cells of a page of docs."""
    cells, place = [], 0
    for block in FENCE.finditer(page):
        cells.append(Cell("markdown", _linked(page[place : block.start()])))
        cells.append(_from_block(block[1], block[2]))
        place = block.end()
    cells.append(Cell("markdown", _linked(page[place:])))
    return [Cell(kind, text.strip()) for kind, text in cells if text.strip()]


def notebook(cells: list[Cell]) -> str:
    """Return the file in version 4.5 of the format."""
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    made = [_as_json(number, cell) for number, cell in enumerate(cells)]
    content = {"cells": made, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(content, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def notebooks() -> dict[str, str]:
    """Return all notebooks by file name."""
    scripts = {name: from_script((ROOT / "examples" / f"{name}.py").read_text()) for name in SCRIPTS}
    pages = {name: from_page((ROOT / "docs" / f"{name}.md").read_text()) for name in PAGES}
    return {f"{name}.ipynb": notebook(cells) for name, cells in {**scripts, **pages}.items()}


def _markdown(docstring: str) -> str:
    """Return a heading, the docstring up to its first colon, and the rest as text."""
    title, _, rest = docstring.partition(": ")
    return f"# {title}\n\n{rest[:1].upper()}{rest[1:]}"


def _body(lines: list[str], main: ast.FunctionDef) -> list[Cell]:
    """Return the statements of `main`, split at blank lines; its result is shown."""
    parts: list[list[str]] = [[]]
    place = main.body[0].lineno - 1
    for statement in main.body:
        end = statement.end_lineno or statement.lineno
        text = [line[4:] for line in lines[place:end]]
        if text and not text[0] and parts[-1]:
            parts.append([])
        parts[-1] += [line.removeprefix("return ") for line in text]
        place = end
    return [Cell("code", "\n".join(part).strip()) for part in parts]


def _from_block(language: str, text: str) -> Cell:
    if language == "python":
        return Cell("code", text)
    if language == "sh" and text.startswith("tggm "):
        return Cell("code", re.sub(r"^(?=tggm )", "!", text, flags=re.MULTILINE))
    return Cell("markdown", "" if language == "text" else f"```{language}\n{text}```")


def _linked(text: str) -> str:
    """Return text with links between pages relative to the folder of notebooks."""
    return re.sub(r"\]\(([\w-]+\.md)", r"](../../docs/\1", text)


def _as_json(number: int, cell: Cell) -> dict[str, Any]:
    found = {"cell_type": cell.kind, "id": f"cell-{number}", "metadata": {}}
    found["source"] = cell.text.splitlines(keepends=True)
    return {**found, "execution_count": None, "outputs": []} if cell.kind == "code" else found


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, content in notebooks().items():
        (FOLDER / name).write_text(content)
        sys.stdout.write(f"examples/notebooks/{name}\n")


if __name__ == "__main__":
    main()
