"""What tests of estimators share."""

import pytest

from tggm.estimators import class_prediction, sources
from tggm.predictive import moments
from tggm.training import rows


@pytest.fixture
def few_shapes(monkeypatch, request):
    """Tables padded to 256 rows at least: those of different lengths need one program.

    Checks of invariance compare predictions of tables of different lengths, so these are left alone there.
    """
    usual = rows.bucket
    predicting = () if "invariance" in request.node.name else (class_prediction, moments)
    for module in (rows, sources, *predicting):
        monkeypatch.setattr(module, "bucket", lambda size: max(usual(size), 256))
