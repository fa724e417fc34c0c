"""What tests of estimators share."""

import pytest

from tggm.estimators import sources
from tggm.training import rows


@pytest.fixture
def few_shapes(monkeypatch):
    """Tables padded to 256 rows at least: those of different lengths are trained by one program."""
    usual = rows.bucket
    for module in (rows, sources):
        monkeypatch.setattr(module, "bucket", lambda size: max(usual(size), 256))
