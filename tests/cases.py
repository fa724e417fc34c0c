"""Cases of a parametrised test, of which `make test` runs a few; `make test-all` runs the others, too."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest


def few(values: Iterable[Any], *quick: str, name: Callable[[Any], str] = str) -> list[Any]:
    """All values; those whose names are not among `quick` are marked as slow."""
    values = list(values)
    missing = set(quick) - {name(value) for value in values}
    assert not missing, f"no such cases: {missing}"
    slow = pytest.mark.slow
    return [value if name(value) in quick else pytest.param(value, marks=slow) for value in values]
