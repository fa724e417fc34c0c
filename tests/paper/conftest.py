"""Fixtures of the tests of `tggm.paper`."""

import pytest

from tggm.paper import _estimators
from tggm.training import rows


@pytest.fixture(autouse=True)
def few_shapes(monkeypatch):
    """Pad small tables to the same sizes, so that tests share compiled programs."""
    usual = rows.bucket
    for module in (_estimators, rows):
        monkeypatch.setattr(module, "bucket", lambda size: max(usual(size), 256))
