"""The Gaussian process of small tables: scikit-learn, refits and finite differences are the witnesses."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import approx_fprime
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, DotProduct, Matern, WhiteKernel

from tggm.predictive import gaussian_process
from tggm.predictive.calibration import HeldOut

D = 3


@pytest.fixture
def rows(rng):
    X = rng.uniform(-2, 2, (40, D))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * rng.standard_normal(40), rng.uniform(0.5, 2.0, 40)


def kernel(u, noise=True):
    """Return the kernel of scikit-learn with these log lengths and deviations."""
    smooth, linear, white = np.exp(2 * u[D:])
    found = ConstantKernel(smooth) * Matern(np.exp(u[:D]), nu=2.5) + ConstantKernel(1.0)
    found += ConstantKernel(linear / D) * DotProduct(1e-9)
    return found + WhiteKernel(white + 1e-8) if noise else found


def test_the_evidence_is_that_of_scikit_learn(rows, rng):
    X, y, _ = rows
    evidence = gaussian_process.Evidence(X, y, np.ones(40))
    points = evidence.centre + 0.3 * rng.standard_normal((2, D + 3))
    values = []
    for u in points:
        other = GaussianProcessRegressor(kernel(u), alpha=0.0, optimizer=None).fit(X, y)
        prior = 0.5 * np.sum(((u - evidence.centre) / evidence.deviation) ** 2)
        values.append(evidence(u)[0] + other.log_marginal_likelihood_value_ - prior)
    assert_allclose(values[0], 0.5 * -40 * np.log(2 * np.pi), rtol=1e-8)  # the constant
    assert_allclose(values[1], values[0], rtol=1e-8)


def test_the_gradient_of_the_evidence(rows):
    evidence = gaussian_process.Evidence(*rows)
    u = evidence.centre + 0.2
    assert_allclose(evidence(u)[1], approx_fprime(u, lambda u: evidence(u)[0], 1e-6), rtol=1e-4, atol=1e-3)


def test_the_mean_is_that_of_scikit_learn_and_linear_far_out(rows, rng):
    X, y, weight = rows
    u = gaussian_process.hyper_parameters(X, y, weight, np.random.default_rng(0).permutation(40))
    noise = np.exp(2 * u[-1]) / weight + 1e-8
    other = GaussianProcessRegressor(kernel(u, noise=False), alpha=noise, optimizer=None).fit(X, y)
    found, Z = gaussian_process.fit_process(X, y, weight, 0.5), rng.uniform(-3, 3, (8, D))
    assert_allclose(found.mean(np, Z), other.predict(Z), rtol=1e-8, atol=1e-8)
    members = rng.standard_normal((2, 8, 1))
    moved = gaussian_process.shifted(found, Z, members)
    assert_allclose(moved.mean(0)[:, 0], 0.5 * (members.mean(0)[:, 0] + found.mean(np, Z)), rtol=1e-10)
    assert_allclose(moved[1] - moved[0], members[1] - members[0], rtol=1e-10, atol=1e-12)
    far = 1e5 * np.ones((1, D)) * [[1], [-1]]
    x = gaussian_process.bounded(np, far)
    assert_allclose(found.mean(np, far) - x @ found.slopes, found.constant, rtol=0.05)


def test_left_out_rows_are_predicted_as_without_them(rows):
    X, y, weight = rows
    found, order = gaussian_process.cross_fitted(X, y, weight), np.random.default_rng(0).permutation(40)
    folds = np.array_split(order, 10)
    u = gaussian_process.hyper_parameters(X, y, weight, np.concatenate(folds[1:]))
    for i in folds[0][:2]:
        rest = np.arange(40) != i
        noise = np.exp(2 * u[-1]) / weight[rest] + 1e-8
        other = GaussianProcessRegressor(kernel(u, noise=False), alpha=noise, optimizer=None)
        assert_allclose(found[i], other.fit(X[rest], y[rest]).predict(X[i : i + 1])[0], rtol=1e-6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"process.rates": np.ones(2)}, "wrong shapes"),
        ({"process.slopes": np.full(D, np.inf)}, "sizes"),
        ({"process.rates": -np.ones(D)}, "positive"),
    ],
)
def test_damaged_arrays_are_refused(rows, change, message):
    arrays = gaussian_process.fit_process(*rows, 0.5).arrays("float32")
    assert gaussian_process.checked_process(arrays, [0.5, 0.1], D).share == 0.5
    assert gaussian_process.checked_process({}, None, D) is None
    with pytest.raises(ValueError, match=message):
        gaussian_process.checked_process(arrays | change, [0.5, 0.1], D)
    with pytest.raises(ValueError, match="weight"):
        gaussian_process.checked_process(arrays, [1.5, 0.1], D)


@pytest.mark.parametrize("good", [True, False])
def test_the_better_model_has_the_larger_weight(rng, good):
    """Ten members hold out a tenth of the rows each; their predictions are good or useless."""
    y = rng.standard_normal(300)
    other = y + (2.0 if good else 0.1) * rng.standard_normal(300)
    mask = np.arange(10)[:, None] == np.arange(300)[None, :] % 10
    scatter = (0.05 if good else 2.0) * rng.standard_normal((10, 300))
    held = HeldOut((y if good else 0 * y) + scatter, np.full((10, 300), 0.5), mask, y, np.ones(300))
    share, gain = gaussian_process.held_out_share(held, other)
    assert (share < 0.05 and gain < 2) if good else (share > 0.9 and gain > 2)


def test_the_gain_is_in_standard_errors(rng):
    """All rows are held out by all members, which agree: the weights of rows are equal."""
    y, step = rng.standard_normal(200), rng.standard_normal(200)
    held = HeldOut(np.zeros((2, 200)), np.ones((2, 200)), np.ones((2, 200), bool), y, np.ones(200))
    share, gain = gaussian_process.held_out_share(held, 0.3 * y + step)
    blended = share * (0.3 * y + step)
    assert_allclose(share, np.clip(y @ blended / (blended @ blended) * share, 0, 1), rtol=1e-10)
    less = y**2 - (y - blended) ** 2
    assert_allclose(gain, np.sqrt(200) * less.mean() / less.std(), rtol=1e-10)
