"""Fixtures of the tests of estimators."""

import pytest

from tests.conftest import PREDICTION, TRAINING, USUAL


@pytest.fixture
def one_shape(monkeypatch, request):
    """Pad tables to at least 256 rows, and to 512 in predictions, so that checks share compiled programs.

    Checks of invariance compare predictions of tables of different lengths; these are padded as in use.
    """
    for module in TRAINING:
        monkeypatch.setattr(module, "bucket", lambda size: max(USUAL(size), 256))
    least = 0 if "invariance" in request.node.name else 512
    for module in PREDICTION:
        monkeypatch.setattr(module, "bucket", lambda size: max(USUAL(size), least))
