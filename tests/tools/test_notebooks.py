"""Notebooks are what the tool makes of examples and pages, have no outputs, and run."""

import json
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples" / "notebooks"


@pytest.fixture
def tool(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    yield __import__("notebooks")
    sys.modules.pop("notebooks", None)


def test_stored_notebooks_are_those_of_today(tool):
    stored = {path.name: path.read_text() for path in FOLDER.iterdir()}
    assert stored == tool.notebooks(), "run python tools/notebooks.py"


def test_cells_have_what_the_format_asks_for_and_no_outputs(tool):
    for content in map(json.loads, tool.notebooks().values()):
        assert (content["nbformat"], content["nbformat_minor"]) == (4, 5)
        cells = content["cells"]
        assert len({cell["id"] for cell in cells}) == len(cells)
        assert cells[0]["source"][0].startswith("# ")
        for cell in cells:
            assert "".join(cell["source"]).strip()
            code = {"outputs": [], "execution_count": None} if cell["cell_type"] == "code" else {}
            assert cell == {**cell, **code}


def test_a_notebook_runs(tool, capsys):
    cells = json.loads((FOLDER / "skew_normal.ipynb").read_text())["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    before, _, last = "\n".join(code).rpartition("\n")
    names = {}
    exec(before, names)
    assert eval(last, names) < 1e-10
    assert "scipy's skewnorm" in capsys.readouterr().out


def test_the_body_of_main_is_cut_at_blank_lines_between_statements(tool):
    source = '''"""Title: what it does."""\n\nimport os\n\n\ndef main(n: int = 3) -> int:
    a = (
        1,

        2)

    # a comment
    b = n
    return a, b
'''
    assert tool.from_script(source) == [
        ("markdown", "# Title\n\nWhat it does."),
        ("code", "import os"),
        ("code", "n = 3"),
        ("code", "a = (\n    1,\n\n    2)"),
        ("code", "# a comment\nb = n\na, b"),
    ]


def test_blocks_of_pages_become_cells(tool):
    page = "# A\n\n[b](b.md#c)\n\n```python\nx = 1\n```\n\n```text\n1\n```\n\n```sh\ntggm info m\n```\n"
    assert tool.from_page(page) == [
        ("markdown", "# A\n\n[b](../../docs/b.md#c)"),
        ("code", "x = 1"),
        ("code", "!tggm info m"),
    ]


def test_every_example_on_the_page_has_its_picture():
    page = (ROOT / "docs" / "examples.md").read_text()
    shown = re.findall(r'--8<-- "examples/(\w+)\.py"', page)
    pictures = re.findall(r"\(images/example_(\w+)\.png\)", page)
    assert shown == pictures
    assert all((ROOT / "docs" / "images" / f"example_{name}.png").exists() for name in pictures)
    notebooks = {path.stem for path in FOLDER.iterdir()}
    assert notebooks - {"tutorial"} <= set(shown)
