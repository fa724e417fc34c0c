"""What the modules that fill pages of the documentation share: reading stored results, writing tables."""

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "experiments" / "results"


def stored(pattern: str) -> list[Any]:
    """Contents of the result files whose names match, in the order of their names."""
    return [json.loads(path.read_text()) for path in sorted(RESULTS.glob(pattern))]


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows]]
    return "\n".join(lines)
