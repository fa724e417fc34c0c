"""What tests of estimators share."""

import pytest

from tests.conftest import PREDICTION, TRAINING, USUAL


@pytest.fixture
def one_shape(monkeypatch, request):
    """Tables padded to 256 rows at least, 512 to be predicted: checks of tables of one width share programs.

    Checks of invariance compare predictions of tables of different lengths: these are padded as users' are.
    """
    predicting = () if "invariance" in request.node.name else PREDICTION
    for module in PREDICTION:
        monkeypatch.setattr(module, "bucket", USUAL)
    for module in predicting:
        monkeypatch.setattr(module, "bucket", lambda size: max(USUAL(size), 512))
    for module in TRAINING:
        monkeypatch.setattr(module, "bucket", lambda size: max(USUAL(size), 256))
