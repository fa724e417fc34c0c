"""Probabilities against simulation, and those of known models: frequencies, found again by a fit."""

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from tggm.estimators.fitted import Fitted

from tests.estimators.small import quick, three_classes
from tests.models.sampling import truncated_draws
from tggm import TGGMClassifier
from tggm.data.standardise import Columns, Scales
from tggm.models import Model
from tggm.models.features import Identity
from tggm.models.hidden import Shallow
from tggm.models.likelihoods import Output, Probit

D, M, N = 4, 20, 4


@pytest.fixture(scope="module")
def truth():
    """A classifier that holds the true parameters, and rows drawn from it."""
    rng = np.random.default_rng(11)
    hidden = Shallow(rng.standard_normal((1, M, D)), rng.standard_normal((1, M)), np.ones(1))
    output = Output(0.7 * rng.standard_normal((1, N, M)), 0.5 * rng.standard_normal((1, N)))
    model = TGGMClassifier.one_layer(hidden=(M,))
    model.classes_, model.n_features_in_ = np.arange(N), D
    scales = Scales(Columns.unchanged(D), Columns.unchanged(N))
    true = jax.tree.map(np.float32, Model(Identity(), hidden, Probit(output)))
    model.adopt(Fitted(true, scales, "moments"))
    X = rng.standard_normal((100_000, D))
    a = X @ hidden.W0[0].T + hidden.b0[0]
    h = truncated_draws(rng, a, 1.0)
    z = h @ output.W1[0].T + output.b1[0] + rng.standard_normal((len(X), N))
    return model, X, z.argmax(1)


def calibration_error(p, label, bins=15):
    """Mean over rows of |confidence − accuracy| in the row's bin."""
    sure, right = p.max(1), p.argmax(1) == label
    which = np.minimum((sure * bins).astype(int), bins - 1)
    return sum(abs((sure - right)[which == b].sum()) for b in range(bins)) / len(label)


@pytest.mark.slow  # against simulation, below
def test_probabilities_under_the_true_parameters_are_frequencies(truth):
    model, X, label = truth
    p = model.predict_proba(X)
    assert calibration_error(p, label) < 0.01
    for c in range(
        N
    ):  # and class by class, in tenths of probability; five standard errors and the moments' own
        for low in np.arange(0, 1, 0.1):
            rows = (p[:, c] >= low) & (p[:, c] < low + 0.1)
            if rows.sum() > 500:
                error = np.sqrt(0.25 / rows.sum())
                assert abs((label[rows] == c).mean() - p[rows, c].mean()) < 5 * error + 0.02


@pytest.mark.slow  # of a regressor: test_fit_recovers_the_conditional_density of test_prediction.py
def test_a_fitted_model_is_close(truth):
    model, X, label = truth
    fitted = TGGMClassifier.one_layer(hidden=(M,), random_state=0, max_epochs=40, batch_size=250).fit(
        X[:8000], label[:8000]
    )
    true, found = (m.predict_proba(X[-20_000:]) for m in (model, fitted))
    assert calibration_error(found, label[-20_000:]) < 0.025
    assert np.abs(true - found).mean() < 0.04
    best = np.log(true[np.arange(20_000), label[-20_000:]]).mean()
    assert_allclose(np.log(found[np.arange(20_000), label[-20_000:]]).mean(), best, atol=0.03)


@pytest.fixture(scope="module")
def table():
    return three_classes()


@pytest.fixture(scope="module")
def fitted(table):
    return quick().fit(*table)


def test_probabilities(table, fitted):
    X, y = table
    far = np.r_[X, 1e3 * X, 1e8 * X]
    p = fitted.predict_proba(far)
    assert p.shape == (180, 3)
    assert np.all((p > 0) & (p < 1))
    assert_allclose(p.sum(1), 1, rtol=1e-12)
    log_p = fitted.predict_log_proba(far)
    assert np.isfinite(log_p).all()
    assert_allclose(log_p[:60], np.log(p[:60]), rtol=1e-5)
    assert_array_equal(fitted.predict(far), fitted.classes_[p.argmax(1)])
    assert_array_equal(fitted.decision_function(far).argmax(1), p.argmax(1))
    picked = log_p[np.arange(60), np.searchsorted(fitted.classes_, y)]
    assert_allclose(fitted.label_log_proba(X, y), picked, rtol=1e-5)


def test_probabilities_are_those_of_the_model(table, fitted):
    """Simulation of h and z with the learned attributes; moments err by a few thousandths here."""
    X, _ = table
    rng = np.random.default_rng(1)
    p = np.zeros((10, 3))
    for W0, b0, W1, b1 in zip(fitted.W0_, fitted.b0_, fitted.W1_, fitted.b1_, strict=True):
        a = (X[:10] @ W0.T + b0[None, :])[None]
        h = truncated_draws(rng, np.broadcast_to(a, (20_000, 10, 6)), fitted.sigma0**2)
        z = h @ W1.T + b1 + rng.standard_normal((20_000, 10, 3))
        p += np.eye(3)[z.argmax(-1)].mean(0) / 2
    assert_allclose(fitted.predict_proba(X[:10]), p, atol=0.025)


def test_an_ensemble_is_the_mixture_of_its_members(table, fitted):
    single = clone(fitted)
    p = []
    for k in range(2):
        single.set_params(n_members=1)
        single.classes_, single.n_features_in_ = fitted.classes_, 3
        member = jax.tree.map(lambda a, k=k: a[k : k + 1], fitted.fitted_.model)
        single.adopt(fitted.fitted_._replace(model=member))
        p.append(single.predict_proba(table[0]))
    assert_allclose(fitted.predict_proba(table[0]), np.mean(p, axis=0), rtol=1e-5)


@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize("exponent", [3, 8, 12, 20, 37])
def test_rows_far_away_get_probabilities(fitted, sign, exponent):
    far = sign * 10.0**exponent * np.eye(3)[:1]
    p = fitted.predict_proba(far)
    assert_allclose(p.sum(), 1, rtol=1e-6)
    assert_array_equal(fitted.predict(far), fitted.classes_[p.argmax(1)])


@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize("exponent", [60, 300])
def test_rows_beyond_that_get_an_error(fitted, sign, exponent):
    with pytest.raises(ValueError, match="`X` has values too large"):
        fitted.predict_proba(sign * 10.0**exponent * np.eye(3)[:1])


def test_logarithms_are_finite_however_far_away(table):
    X, y = table[0], np.arange(60) % 3
    model = quick(weight_decay=0.0, max_epochs=60).fit(X, y)
    assert np.isfinite(model.predict_log_proba(1e8 * X)).all()
