"""What the modules that fill pages of the documentation share: reading stored results, writing tables."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "experiments" / "results"
_watching: list[list[Path]] = []  # lists of those who ask which files are read


@contextmanager
def sources() -> Iterator[list[Path]]:
    """A list that fills with the results files that are read meanwhile."""
    read: list[Path] = []
    _watching.append(read)
    yield read
    _watching.remove(read)


def load(path: Path) -> Any:
    """Contents of a results file."""
    for read in _watching:
        read += [path] if path not in read else []
    return json.loads(path.read_text())


def stored(pattern: str) -> list[Any]:
    """Contents of the result files whose names match, in the order of their names."""
    return [load(path) for path in sorted(RESULTS.glob(pattern))]


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows]]
    return "\n".join(lines)
