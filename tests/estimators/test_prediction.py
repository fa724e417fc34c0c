"""What a fitted regressor says about new rows."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import integrate, special, stats

from tests.estimators.small import SMALL
from tests.models.sampling import truncated_draws
from tggm import TGGMRegressor
from tggm.predictive import Predictive

QUICK = {**SMALL, "max_epochs": 60}


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(7)
    X = rng.standard_normal((60, 3))
    return X, 50 + 10 * (np.abs(X[:, 0]) + 0.5 * X[:, 1] + 0.3 * rng.standard_normal(60))


@pytest.fixture(scope="module")
def fitted(table):
    return TGGMRegressor(**QUICK).fit(*table)


def test_density_is_that_of_the_learned_parameters(table):
    """One hidden unit, in the units of the data, by quadrature over it."""
    X, y = table
    model = TGGMRegressor(**{**QUICK, "hidden": (1,), "sigma0": 1.0}).fit(X, y)
    got = model.score_samples(X[:4], y[:4])
    for i in range(4):
        density = 0.0
        for W0, b0, W1, b1, s1 in zip(model.W0_, model.b0_, model.W1_, model.b1_, model.noise_, strict=True):
            a = (X[i] @ W0.T + b0)[0]

            def joint(h, i=i, a=a, w=W1[0, 0], b=b1[0], s=s1[0]):
                return stats.norm.pdf(h, a) / special.ndtr(a) * stats.norm.pdf(y[i], w * h + b, np.sqrt(s))

            density += integrate.quad(joint, 0, max(a, 0) + 10, epsabs=1e-14, limit=200)[0] / 2
        assert_allclose(got[i], np.log(density), atol=1e-5)
    assert np.isfinite(model.score_samples(X[:4], np.full(4, 1e6))).all()  # and far out


def test_moments_of_the_distribution_are_those_predicted(table, fitted):
    X, _ = table
    mean, std = fitted.predict(X, return_std=True)
    dist = fitted.predict_dist(X)
    assert_allclose(dist.mean(), mean, rtol=1e-5)
    assert_allclose(dist.std(), std, rtol=1e-4)


def test_intervals_and_quantiles_hold_what_they_say(table, fitted):
    X, _ = table
    dist = fitted.predict_dist(X)
    lower, upper = fitted.predict_interval(X, level=0.8)
    assert_allclose([dist.cdf(lower), dist.cdf(upper)], [[0.1] * 60, [0.9] * 60], atol=1e-8)
    quantiles = fitted.predict_quantiles(X, [0.1, 0.5, 0.9])
    assert quantiles.shape == (60, 3)
    assert_allclose(quantiles[:, [0, 2]], np.column_stack([lower, upper]), rtol=1e-10)
    with pytest.raises(ValueError, match="`level` must be between 0 and 1; got 90"):
        fitted.predict_interval(X, level=90)
    with pytest.raises(ValueError, match="`quantiles` must be a list"):
        fitted.predict_quantiles(X, [[0.5]])


def test_samples_have_the_moments_predicted(table, fitted):
    X, _ = table
    mean, std = fitted.predict(X, return_std=True)
    draws = fitted.sample(X, 2000, random_state=1)
    assert draws.shape == (2000, 60)
    assert np.abs((draws.mean(0) - mean) / std).max() < 5 / np.sqrt(2000)  # 60 z-scores, five sigma
    assert_array_equal(draws, fitted.sample(X, 2000, random_state=1))
    with pytest.raises(ValueError, match="`n_samples` must be an integer of at least 1; got 0"):
        fitted.sample(X, 0)


def test_column_target_keeps_its_shape(table):
    X, y = table
    model = TGGMRegressor(**QUICK).fit(X, y[:, None])
    assert model.predict(X).shape == (60, 1)
    assert model.predict_interval(X)[0].shape == (60, 1)
    assert model.predict_quantiles(X).shape == (60, 1, 3)
    assert model.sample(X, 4, random_state=0).shape == (4, 60, 1)
    assert model.score_samples(X, y[:, None]).shape == (60,)


# several layers: test_laws.py and test_deep.py
@pytest.mark.parametrize("hidden", [(6,), pytest.param((6, 6), marks=pytest.mark.slow)])
def test_several_outputs_have_marginals_and_a_joint_density(table, hidden):
    """Of members as they are, and of calibrated ones."""
    X, y = table
    model = TGGMRegressor(**{**QUICK, "hidden": hidden}).fit(X, np.column_stack([y, X[:, 2]]))
    assert {each.kind for each in model.fitted_.calibration} == {"linear" if len(hidden) == 1 else "student"}
    dist = model.predict_dist(X)
    mean, std = model.predict(X, return_std=True)
    assert_allclose(dist.mean(), mean, rtol=1e-4, atol=1e-4)
    assert_allclose(dist.std(), std, rtol=1e-4)
    lower, _ = model.predict_interval(X, level=0.9)
    tolerance = 1e-8 if len(hidden) == 1 else 1e-6  # moments of several layers are in single precision
    assert_allclose(dist.marginal(1).cdf(lower[:, 1]), 0.05, atol=tolerance)
    assert model.predict_quantiles(X, [0.5]).shape == (60, 2, 1)
    assert model.sample(X, 3, random_state=0).shape == (3, 60, 2)
    # integrating the joint density of one row over the second output gives the marginal of the first
    t = np.linspace(-8, 8, 401) * std[0, 1] + mean[0, 1]
    point = np.column_stack([np.full(401, mean[0, 0]), t])
    joint = np.exp(model.score_samples(np.repeat(X[:1], 401, axis=0), point))
    assert_allclose(joint.sum() * (t[1] - t[0]), dist.marginal(0).pdf(mean[:, 0])[0], rtol=0.01)


class Truth:
    """A known model with two inputs and five hidden units."""

    def __init__(self, rng):
        self.W0, self.b0, self.W1 = (
            rng.standard_normal((5, 2)),
            rng.standard_normal(5),
            rng.standard_normal(5),
        )

    def draw(self, rng, n):
        X = rng.standard_normal((n, 2))
        a = X @ self.W0.T + self.b0[None, :]
        h = truncated_draws(rng, a, 1.0)
        return X, h @ self.W1 + 0.3 + np.sqrt(0.05) * rng.standard_normal(n)

    def dist(self, X):
        return Predictive((X @ self.W0.T + self.b0[None, :])[None], self.W1[None], 0.3, 1.0, 0.05)


@pytest.mark.slow  # its own draws: predictive/test_exact.py; others' draws: inference/exact/test_fourier.py
def test_pit_is_uniform_under_the_truth():
    rng = np.random.default_rng(5)
    truth = Truth(rng)
    X, y = truth.draw(rng, 4_000)
    assert stats.kstest(truth.dist(X).cdf(y), "uniform").pvalue > 0.01


@pytest.mark.slow  # defaults are as sure as they should be in test_defaults.py
@pytest.mark.parametrize(("rows", "most"), [(2_000, 0.04), (5_000, 0.02)])
def test_fit_recovers_the_conditional_density(rows, most):
    """Mean KL divergence of a fit; 2,000 new rows estimate it within 0.006 or so."""
    rng = np.random.default_rng(5)
    truth = Truth(rng)
    X, y = truth.draw(rng, rows)
    model = TGGMRegressor.one_layer(
        hidden=(8,), method="ep", n_members=1, max_epochs=60, batch_size=rows // 20, random_state=0
    )
    model.fit(X, y)
    X, y = truth.draw(rng, 2_000)
    assert np.mean(truth.dist(X).logpdf(y) - model.score_samples(X, y)) < most
