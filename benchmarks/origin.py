"""What made the figures of a table, in a sentence below it."""

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
Figures = dict[str, dict[str, Any]]


class Read(dict[str, dict[str, Any]]):
    """Figures, and the names of those that were asked for."""

    def __init__(self, figures: Figures) -> None:
        super().__init__(figures)
        self.names: dict[str, None] = {}

    def __getitem__(self, name: str) -> dict[str, Any]:
        self.names[name] = None
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        """As a dictionary does."""
        self.names |= dict.fromkeys({name} & self.keys())
        return super().get(name, default)


def _line(paths: Iterable[Path]) -> str:
    """As experiments/origins.py tells it; that folder comes last, as both have a render.py and a wide.py."""
    sys.path.append(str(ROOT / "experiments"))
    from origins import line

    sys.path.pop()
    return line(paths)


def with_origin(make: Callable[[Figures], str], figures: Figures) -> str:
    """A table, and below it what made its figures, unless it says so itself or has them from many files."""
    read = Read(figures)
    text = make(read)
    if "commit" in text or not 0 < len(read.names) < 5:
        return text
    folder = ROOT / "benchmarks" / "results"
    return f"{text}\n\n{_line(folder / f'{name}.json' for name in read.names)}"
