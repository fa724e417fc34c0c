"""The stored notebooks match the current examples and pages, and one of them runs."""

import json
from pathlib import Path

from tools.notebooks import notebooks

FOLDER = Path(__file__).parents[2] / "examples" / "notebooks"


def test_stored_notebooks_are_up_to_date():
    stored = {path.name: path.read_text() for path in FOLDER.iterdir()}
    assert stored == notebooks(), "run python tools/notebooks.py"


def test_a_notebook_runs():
    cells = json.loads((FOLDER / "skew_normal.ipynb").read_text())["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    exec("\n".join(code), {})
