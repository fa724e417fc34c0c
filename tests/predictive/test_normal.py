"""Densities of several outputs, where covariances are sound and where rounding made them singular."""

import numpy as np
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal

from tggm.predictive.normal import factors, log_densities

rng = np.random.default_rng(0)


def test_sound_covariances_are_factorised_as_they_are():
    A = rng.normal(size=(4, 3, 3))
    C = A @ A.transpose(0, 2, 1) + 0.1 * np.eye(3)
    errors = rng.normal(size=(4, 3))
    expected = [multivariate_normal(cov=c).logpdf(e) for c, e in zip(C, errors, strict=True)]
    assert_allclose(log_densities(errors, factors(C)), expected, rtol=1e-10)


def test_singular_ones_are_changed_little():
    w = np.array([[1.0, 1e10], [1e-5, 3.0]])
    C = w[:, :, None] * w[:, None, :]  # two outputs of one unit without noise
    L = factors(C)
    assert_allclose(L @ L.transpose(0, 2, 1), C, rtol=1e-8)
    assert np.isfinite(log_densities(np.ones((2, 2)), L)).all()
    assert np.isfinite(log_densities(np.full((2, 2), 1e200), L)).all()


def test_no_variance_at_all():
    assert np.isfinite(log_densities(np.zeros((1, 2)), factors(np.zeros((1, 2, 2))))).all()
