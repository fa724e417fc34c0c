"""Distances from the training rows, for members whose means are known functions."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from tggm.predictive import novelty as module
from tggm.predictive.calibration import Calibration
from tggm.predictive.gaussian_process import fit_kernel, gaps_of

SLOPES = np.array([1.0, 1.4])  # of two members, along the first column


def neighbourhood(function=lambda x: SLOPES[:, None] * x[None, :], rows=500):
    """Return rows in [−1, 1]² whose second column has no effect; z is the first column."""
    Z = np.random.default_rng(0).uniform(-1, 1, (rows, 2))
    train = module.TrainingRows(np.array([-1.0, -1.0]), np.array([1.0, 1.0]), Z, gaps_of(Z), np.zeros((0, 5)))
    return module.Neighbourhood(train, lambda Z: (function(Z[:, 0])[:, :, None], np.stack(2 * [Z[:, :1]])))


def at(*values):
    return np.array([[value, 0.0] for value in values])


def test_inside_nothing_is_added():
    around = neighbourhood()
    Z = around.train.rows[around.novelty(around.train.rows) <= 1]
    assert len(Z) > 0.85 * len(around.train.rows)
    assert_allclose(around.variance(Z), 0)


def test_beyond_the_range_the_variance_is_that_of_the_formula():
    around, e = neighbourhood(), 0.5
    relevance = around.relevance(np.array([0, 1]))[:, 0]
    V = 1.2**2 * around.train.rows[:, 0].var()
    assert_allclose(relevance, [V / (V + module.WEAK), 0], atol=0.02)  # by 64 rows
    wanted = (1.25 * e) ** 2 * SLOPES.var(ddof=1)  # straight lines: no change of slope
    assert_allclose(around.variance(at(1.0 + e)), relevance[0] ** 2 * wanted, rtol=1e-9)
    curved = neighbourhood(lambda x: np.stack([x**2, x**2]))
    rho = curved.relevance(np.array([0]))[0, 0]
    last, change = 1.5, 1.0  # secants over h = 1/2 are 1.5, 0.5, -0.5, -1.5, which is not a line
    q = 1 + last * e + change * e / 2 * (e / 0.5 + 1)
    wanted = (last * e) ** 2 + (0.6 * (q - (1 + e) ** 2)) ** 2
    assert_allclose(curved.variance(at(-1.0 - e)), rho**2 * wanted, rtol=1e-9)


def test_the_width_grows_and_never_falls_back():
    around = neighbourhood()
    Z = at(1.0, 1.01, 1.5, 2, 1 + 2 * module.FAR, 1.01 + 2 * module.FAR, 20, 1e4)
    variance = around.variance(Z)[:, 0]
    assert (np.diff(variance) > 0).all()
    again = neighbourhood(lambda x: np.stack(2 * [np.where(x < 6, np.minimum(x, 1), x)]))  # a line, or none
    assert (np.diff(again.variance(Z)[:, 0]) > 0).all()
    novelty = around.novelty(Z)
    assert (np.diff(novelty) > 0).all()
    assert_allclose(novelty[2], 1.25, atol=0.02)  # a quarter of the range beyond
    irrelevant = np.array([[0.0, 50.0]])
    assert around.variance(irrelevant) < 1e-9
    assert around.novelty(irrelevant) < 1.1
    assert_allclose(module.moved_inside(around, irrelevant, [None]), [[0.0, 1.0]], atol=0.5)
    assert_allclose(module.moved_inside(around, Z, [None]), Z)


def test_a_gap_between_the_rows_widens():
    rng = np.random.default_rng(0)
    Z = rng.uniform(0.5, 1, (400, 2)) * np.where(np.arange(400) % 2, 1, -1)[:, None]
    u = fit_kernel(Z, np.sin(3 * Z[:, 0]) + 0.1 * rng.standard_normal(400))
    train = module.TrainingRows(Z.min(0), Z.max(0), Z, gaps_of(Z), u[None])
    around = module.Neighbourhood(train, lambda Z: (Z[None, :, :1], Z[None, :, :1]))
    doubt = module.Doubt(u, Z)
    between = np.array([[0.0, 0.75]])
    found = around.variance(np.concatenate([Z[:50], between]))[:, 0]
    assert_allclose(found[:-1], 0)
    wanted = doubt.variance(between) - doubt.own.max()
    assert_allclose(found[-1], wanted[0], rtol=1e-9)
    own = np.array([around.novelty(train.rows) <= 1]).mean()
    assert own == pytest.approx(1.0, abs=1.1 * (1 - module.EDGE))


def test_gaps_are_wider_than_usual():
    Z = np.array([[0, 0], [1, 5], [2, 5], [7, 0], [8, 0], [9, 5.0]])
    # both columns; the others are outside
    assert_allclose(gaps_of(Z)[[1, 4], 1:], [[3, 6], [0, 5]], atol=1e-4)
    assert gaps_of(Z)[:, 0].tolist() == [0, 0, 0, 1, 1, 1]


def test_doubt_is_the_variance_of_the_process():
    rng = np.random.default_rng(0)
    X, x, u = rng.standard_normal((30, 2)), rng.standard_normal((4, 2)), np.log([0.7, 2.0, 0.9, 0.5, 0.3])
    both = np.concatenate([X, x])
    r = np.sqrt(5 * (((both[:, None] - both[None]) / [0.7, 2.0]) ** 2).sum(2))
    K = 0.81 * (1 + r + r**2 / 3) * np.exp(-r) + 0.25 * both @ both.T / 2 + 1
    whole = K[:30, :30] + (0.09 + 1e-6 * np.diagonal(K)[:30].mean()) * np.eye(30)
    wanted = np.diagonal(K[30:, 30:] - K[30:, :30] @ np.linalg.solve(whole, K[:30, 30:]))
    assert_allclose(module.Doubt(u, X).variance(x), wanted, rtol=1e-8)
    others = module.Doubt(u, X[1:]).variance(X[:1])[0]
    assert_allclose(module.Doubt(u, X).own[0], others, rtol=1e-3)  # the term for rounding differs


def test_added_variance_is_that_of_the_pooled_width():
    around, Z = neighbourhood(), at(0.0, 3.0)
    f = 0.5
    pools = (Calibration("student", (f, 2.0, 0.1)),)
    assert_allclose(f**2 * module.added_variance(around, Z, 1, pools), around.variance(Z))
    assert_allclose(module.added_variance(around, Z, 1, ()), 0)  # the plain mixture of members
    log = (Calibration("scales", (f, 2.0, 0.0, 1.0)),)
    variance = around.variance(Z)
    assert_allclose(f**2 * module.added_variance(around, Z, 1, log), variance / (1 + variance))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"low": [2.0, 0.0]}, "ranges must not be empty"),
        ({"rows": [[np.nan, 0.0]]}, "must be finite"),
        ({"rows": np.zeros((501, 2))}, "501 training rows are stored, .*; at most 500"),
        ({"kernels": np.full((1, 5), 16.0)}, "kernels of size 16; .* and 15 are possible"),
        ({"gaps": [[2.0, 0.0, 1.0]]}, "gaps must have a column"),
    ],
)
def test_stored_rows_are_checked(change, sentence):
    parts = {"low": np.zeros(2), "high": np.ones(2), "rows": np.zeros((3, 2))}
    parts |= {"gaps": np.zeros((0, 3)), "kernels": np.zeros((0, 5))}
    module.checked_rows(*parts.values())
    with pytest.raises(ValueError, match=sentence):
        module.checked_rows(*(parts | change).values())
