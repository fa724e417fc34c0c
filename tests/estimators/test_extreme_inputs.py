"""Extreme arrays: predictions are finite, or an error names the remedy."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose

from tests.estimators.small import PLAIN
from tggm import TGGMClassifier, TGGMRegressor

RNG = np.random.default_rng(5)
X = RNG.normal(size=(16, 3))
Y = X[:, 0] + 0.1 * RNG.normal(size=16)
OUT_X, OUT_Y = X.copy(), Y.copy()
OUT_X[3, 1], OUT_Y[3] = 1e15, 1e12
SUMS = r"column 0 has values up to 1.8e\+308, whose sums overflows?; divide it"
SQUARE = "`y` has a standard deviation of .*, whose square "
TOO_LARGE = "overflows?; divide it|on the scale of the model .* use standardize=True, or divide them"
CASES = {  # inputs, targets, error
    "huge": (X * 1e300, Y, None),
    "largest": (np.sign(X) * np.finfo(float).max, Y, SUMS),
    "every size": (X * np.array([[1e300, 1, 1e-300]]), Y, None),
    "denormal": (X * 1e-310, Y, None),
    "constant": (np.ones_like(X), Y, None),
    "nearly constant": (np.full_like(X, 0.998), Y, None),
    "equal rows": (np.repeat(X[:1], 16, 0), Y, None),
    "equal columns": (np.repeat(X[:, :1], 3, 1), Y, None),
    "collinear": (X[:, :1] * np.array([[1, 2, -1e8]]), Y, None),
    "outlier": (OUT_X, Y, None),
    "far away": (X + 1e15, Y, None),
    "one row": (X[:1], Y[:1], "has 1 sample; pass more rows|one class only"),
    "wide": (X[:2], Y[:2], None),
    "equal targets": (X, np.full(16, 7.0), None),
    "equal huge targets": (X, np.full(16, 1e300), r"mean of 1e\+300, whose square overflows; divide it"),
    "huge targets": (X, Y * 1e300, SQUARE + "overflows; divide it"),
    "large targets": (X, Y * 1e140, None),
    "small targets": (X, Y * 1e-140, None),
    "tiny targets": (X, Y * 1e-160, SQUARE + "vanishes; multiply it"),
    "denormal targets": (X, Y * 1e-310, SQUARE + "vanishes"),
    "outlying target": (X, OUT_Y, None),
    "far targets": (X, Y + 1e15, None),
}
TINY = {"hidden": 2, "n_members": 1, "max_epochs": 20, "random_state": 0}


def fitted(model, A, target, message=None):
    """Return the fitted model, or None after the expected error."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "invalid value encountered in reduce")  # scikit-learn sums X
        warnings.filterwarnings("ignore", "`y` has the same value in every row")
        if message is None:
            return model.fit(A, target)
        with pytest.raises(ValueError, match=message):
            model.fit(A, target)
    return None


@pytest.mark.parametrize("name", CASES)
def test_a_regressor_is_finite_or_rejects(name):
    A, b, message = CASES[name]
    model = fitted(TGGMRegressor(**TINY), A, b, message)
    if model is None:
        return
    mean, std = model.predict(A, return_std=True)
    assert np.isfinite(mean).all()
    assert (np.isfinite(std) & (std > 0)).all()
    assert (np.abs(mean - b.mean()) <= 10 * np.ptp(b) + 1e-9 * abs(b.mean()) + 10).all()
    assert np.isfinite(model.predict_interval(A[:1])).all()
    assert all(np.isfinite(getattr(model, a)).all() for a in ("W0_", "b0_", "W1_", "b1_", "noise_"))


@pytest.mark.parametrize("name", [name for name in CASES if "target" not in name])
def test_a_classifier_is_finite_or_rejects(name):
    A, _, message = CASES[name]
    model = fitted(TGGMClassifier(**TINY), A, np.arange(len(A)) % 2, message)
    if model is not None:
        p = model.predict_proba(A)
        assert np.isfinite(p).all()
        assert_allclose(p.sum(1), 1.0, rtol=1e-6)


@pytest.mark.parametrize("name", ["huge", "largest", "outlier", "equal huge targets", "outlying target"])
def test_large_values_without_standardisation_are_rejected(name):
    A, b, _ = CASES[name]
    settings = {**TINY, **PLAIN, "standardize": False}
    assert fitted(TGGMRegressor(**settings), A, b, TOO_LARGE) is None
    if "target" not in name:
        assert fitted(TGGMClassifier(**settings), A, np.arange(16) % 2, TOO_LARGE) is None


@pytest.mark.filterwarnings("ignore:`X` has values more than one range")
@pytest.mark.parametrize("bounded", [True, False])
def test_new_rows_far_away_are_finite_if_features_are_bounded_or_rejected(bounded):
    settings = TINY if bounded else {**TINY, **PLAIN}
    regressor = TGGMRegressor(**settings).fit(X, Y)
    classifier = TGGMClassifier(**settings).fit(X, X[:, 0] > 0)
    for predict in (regressor.predict, regressor.predict_interval, classifier.predict_proba):
        assert np.isfinite(predict(X[:1] * 1e7)).all()
        if bounded:
            assert_allclose(predict(X[:1] * 1e300), predict(X[:1] * 1e290))
        else:
            with pytest.raises(ValueError, match=r"`X` has .* leave out rows that are so far from the"):
                predict(X[:1] * 1e300)
