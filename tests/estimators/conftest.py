"""What tests of estimators share."""

import pytest

from tggm.estimators import recipe
from tggm.training import membership


@pytest.fixture
def few_shapes(monkeypatch):
    """Tables padded to 256 rows at least: those of different lengths are trained by one program."""
    usual = membership.bucket
    for module in (membership, recipe):
        monkeypatch.setattr(module, "bucket", lambda size: max(usual(size), 256))
