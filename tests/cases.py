"""Cases of parametrised tests: `make test` runs some, `make test-all` runs all."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest


def few(values: Iterable[Any], *quick: str, name: Callable[[Any], str] = str) -> list[Any]:
    """Return all values, and mark those whose names are not in `quick` as slow."""
    values = list(values)
    missing = set(quick) - {name(value) for value in values}
    assert not missing, f"no such cases: {missing}"
    slow = pytest.mark.slow
    return [value if name(value) in quick else pytest.param(value, marks=slow) for value in values]
