"""Fixtures of the tests of `tggm.paper`."""

import pytest

from tggm.paper import _data, _prediction
from tggm.training import rows


@pytest.fixture(autouse=True)
def few_shapes(monkeypatch):
    """Pad small tables to the same sizes, so that tests share compiled programs."""
    usual = rows.bucket
    for module in (_data, _prediction, rows):
        monkeypatch.setattr(module, "bucket", lambda size: max(usual(size), 256))
