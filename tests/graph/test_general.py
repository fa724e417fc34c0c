"""The general model against grids, closed forms and its own samples; the witnesses never call the engines."""

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal, skewnorm

from tggm import TGGM

P0 = np.array([[1.5, 0.7], [0.7, 1.2]])
P1 = np.array([[2.0, 0.5], [0.5, 1.0]])
W0, b0 = np.array([[1.0], [-0.5]]), np.array([0.2, -0.4])
W1, b1 = np.array([[1.0, -0.8], [0.3, 0.9]]), np.array([0.1, -0.2])
X = np.array([[-1.0], [0.4]])


@pytest.fixture(scope="module")
def two():
    return TGGM(W0, b0, W1, b1, P0, P1)


def latent_grid(P, mean, step=0.02, end=8.0):
    """Midpoints of [0, end]² and the normalised weights of N_T(mean, P⁻¹) on them, by brute force."""
    line = np.arange(step / 2, end, step)
    h = np.stack(np.meshgrid(line, line, indexing="ij"), -1).reshape(-1, 2)
    w = np.exp(-0.5 * np.einsum("ri,ij,rj->r", h - mean, P, h - mean))
    return h, w / w.sum()


def padded(*tables, rows=41 * 41):
    """The last row repeated: exact densities of all tests are one program."""
    return [np.pad(table, ((0, rows - len(table)), (0, 0)), "edge") for table in tables]


def test_paper_example_is_skew_normal():
    model = TGGM([[0.0]], [0.0], [[0.5]], [0.0], P0=1.0, P1=2.0)
    y = np.linspace(-6, 8, 57)
    found = model.log_density(np.zeros((57, 1)), y[:, None])
    # y = |u|/2 + v/√2 with u, v standard normal: scale √(1/4 + 1/2), slant (1/2)/√(1/2)
    want = skewnorm.logpdf(y, 0.5 * np.sqrt(2), 0, np.sqrt(0.75))
    assert_allclose(found.value, want, rtol=0, atol=1e-10)
    assert np.all(np.abs(found.value - want) <= found.error)


def test_density_against_a_grid_over_the_latents(two):
    Y = np.array([[0.5, -1.0], [2.0, 1.0]])
    found = two.log_density(*padded(X, Y))
    for row in range(2):
        h, w = latent_grid(P0, W0 @ X[row] + b0)
        given_h = multivariate_normal(np.zeros(2), np.linalg.inv(P1)).pdf(Y[row] - b1 - h @ W1.T)
        assert_allclose(found.value[row], np.log(w @ given_h), atol=1e-4)  # the midpoint rule's error, step²


def test_joint_density_at_points_of_the_grid(two):
    Y, H = np.array([[0.5, -1.0], [2.0, 1.0]]), np.array([[0.51, 0.31], [1.01, 0.11]])
    found = two.log_joint(X, H, Y).value
    for row in range(2):
        h, w = latent_grid(P0, W0 @ X[row] + b0)
        at = np.abs(h - H[row]).sum(1).argmin()
        given_h = multivariate_normal(np.zeros(2), np.linalg.inv(P1)).logpdf(Y[row] - b1 - H[row] @ W1.T)
        assert_allclose(found[row], np.log(w[at] / 0.02**2) + given_h, atol=1e-4)


def test_density_of_two_outputs_integrates_to_one_and_has_the_stated_moments(two):
    line = np.linspace(-8, 10, 41)  # trapezoidal rule on an entire function: geometric convergence
    Y = np.stack(np.meshgrid(line, line, indexing="ij"), -1).reshape(-1, 2)
    p = np.exp(two.log_density(np.repeat(X[:1], len(Y), 0), Y).value) * (line[1] - line[0]) ** 2
    assert_allclose(p.sum(), 1, atol=1e-9)
    mean = p @ Y
    assert_allclose(two.mean(X)[0], mean, atol=1e-9)
    assert_allclose(two.cov(X)[0], (p[:, None] * (Y - mean)).T @ (Y - mean), atol=1e-8)


@pytest.mark.slow  # one output of one variable, above; of several, predictive/test_exact.py
def test_density_of_one_output_integrates_to_one():
    W = np.array([[1.0, -0.5, 0.8]])
    model = TGGM(np.ones((3, 1)), [0.5, -1.0, 0.0], W, [0.3], P0=[1.0, 2.0, 0.5], P1=4.0)
    y = np.linspace(-6, 12, 181)
    p = np.exp(model.log_density(np.full((181, 1), 0.3), y[:, None]).value) * (y[1] - y[0])
    assert_allclose(p.sum(), 1, atol=1e-10)
    assert_allclose(model.mean([[0.3]])[0, 0], p @ y, atol=1e-9)
    assert_allclose(model.cov([[0.3]])[0, 0, 0], p @ (y - p @ y) ** 2, atol=1e-9)


def test_engines_agree_within_their_stated_errors(two):
    Y = np.array([[0.5, -1.0], [2.0, 1.0]])
    value, error = (a[:2] for a in two.log_density(*padded(X, Y), engine="exact"))
    orthant = two.log_density(X, Y, engine="orthant")
    assert np.all(orthant.error < 1e-3)
    # a spread over 8 shifts is Student's t with 7 degrees of freedom: 8 covers all but 1e-4
    assert np.all(np.abs(orthant.value - value) < 8 * orthant.error + error)
    ep = two.log_density(X, Y, engine="ep")
    assert np.all(ep.error < 5e-3)
    assert np.all(np.abs(ep.value - value) < 3 * ep.error)


def test_modulation_is_a_product_of_probabilities(two):
    Y = np.array([[0.5, -1.0], [2.0, 1.0]])
    log_gaussian, above, below = two.modulation(X, Y)
    cov = W1 @ np.linalg.inv(P0) @ W1.T + np.linalg.inv(P1)
    for row in range(2):
        a = W0 @ X[row] + b0
        want = multivariate_normal(W1 @ a + b1, cov).logpdf(Y[row])
        assert_allclose(log_gaussian[row], want, rtol=1e-12)
        # Pr(h ≥ 0) = Pr(−h ≤ 0)
        orthant = multivariate_normal(-a, np.linalg.inv(P0)).logcdf(np.zeros(2), rng=0)
        assert_allclose(below.value[row], orthant, atol=1e-7)
    assert np.all(np.asarray(above.value) < 0)


def test_activation_of_correlated_latents(two):
    found = two.activation(X)
    for row in range(2):
        h, w = latent_grid(P0, W0 @ X[row] + b0)
        assert_allclose(found[row], w @ h, atol=1e-4)
    alone = TGGM(W0, b0, W1, b1, np.diag(P0), P1).activation(X)
    assert np.abs(found - alone).max(1).min() > 0.1  # neighbours matter


def test_posterior_moments(two):
    Y = np.array([[0.5, -1.0], [2.0, 1.0]])
    found = two.latent_moments(X, Y)
    P = P0 + W1.T @ P1 @ W1
    for row in range(2):
        shift = P0 @ (W0 @ X[row] + b0) + W1.T @ P1 @ (Y[row] - b1)
        h, w = latent_grid(P, np.linalg.solve(P, shift), step=0.01, end=6.0)
        assert_allclose(found.mean[row], w @ h, atol=1e-4)
        assert_allclose(found.var[row], w @ (h - w @ h) ** 2, atol=1e-4)


@pytest.mark.slow  # the joint at points, and the marginal, above
def test_joint_density_integrates_to_the_marginal(two):
    Y = np.array([[0.5, -1.0], [2.0, 1.0]])
    nodes, weights = np.polynomial.legendre.leggauss(30)
    H = np.stack(np.meshgrid(4 * nodes + 4, 4 * nodes + 4, indexing="ij"), -1).reshape(-1, 2)
    H = np.append(H, [[-0.1, 1.0]], 0)
    joint = two.log_joint(np.repeat(X[:1], len(H), 0), H, np.repeat(Y[:1], len(H), 0))
    total = np.exp(joint.value[:-1]) @ np.outer(4 * weights, 4 * weights).ravel()
    assert_allclose(np.log(total), two.log_density(X, Y).value[0], atol=1e-8)
    assert joint.value[-1] == -np.inf


@pytest.mark.slow  # of the default engine: the moments of a density, above
def test_covariance_by_every_engine(two):
    h, w = latent_grid(P0, W0 @ X[0] + b0)
    mean = w @ h
    want = W1 @ ((w[:, None] * (h - mean)).T @ (h - mean)) @ W1.T + np.linalg.inv(P1)
    assert_allclose(two.cov(X)[0], want, atol=1e-4)
    assert_allclose(two.cov(X, engine="orthant", n_points=4000)[0], want, atol=1e-3)
    assert_allclose(two.cov(X, engine="ep")[0], want, atol=0.02)


@pytest.mark.parametrize(
    "precision", [P0, pytest.param(np.diag(P0), marks=pytest.mark.slow)], ids=["correlated", "independent"]
)
def test_samples_have_the_moments(precision):
    model = TGGM(W0, b0, W1, b1, precision, P1)
    draws = model.sample(X, 12_800, key=3)
    assert draws.shape == (12_800, 2, 2)
    mean, cov = model.mean(X), model.cov(X)
    # chains (or portions) of 200 are independent of each other: their spread tells the standard error
    chains = draws.reshape(-1, 64, 2, 2)
    product = (chains[..., 0] - mean[:, 0]) * (chains[..., 1] - mean[:, 1])
    for statistic, want in ((chains, mean), (product, cov[:, 0, 1])):
        each = statistic.mean(0)
        z = (each.mean(0) - want) / (each.std(0, ddof=1) / 8)
        assert np.abs(z).max() < 4.5, z


def test_latent_samples_given_y(two):
    draws = two.sample_latent(X[:1], 6400, Y=[[0.5, -1.0]], key=jax.random.key(1))[:, 0]
    assert draws.min() >= 0
    each = draws.reshape(-1, 64, 2).mean(0)
    want = two.latent_moments(X[:1], [[0.5, -1.0]]).mean[0]
    z = (each.mean(0) - want) / (each.std(0, ddof=1) / 8)
    assert np.abs(z).max() < 4.5


def test_errors_name_the_argument():
    with pytest.raises(ValueError, match=r"`W1` must have one column per latent variable"):
        TGGM(W0, b0, np.ones((1, 3)), [0.0])
    with pytest.raises(ValueError, match=r"`P0`: `matrix` must be positive definite"):
        TGGM(W0, b0, W1, b1, P0=[[1.0, 2.0], [2.0, 1.0]])
    with pytest.raises(ValueError, match=r"`P1` must be the precision of 2 variables; it has 1"):
        TGGM(W0, b0, W1, b1, P1=np.eye(1))
    model = TGGM(W0, b0, W1, b1)
    with pytest.raises(ValueError, match=r"`X` must have 1 columns"):
        model.mean(np.ones((2, 3)))
    with pytest.raises(ValueError, match=r"`engine` must be one of"):
        model.mean(X, engine="guess")
