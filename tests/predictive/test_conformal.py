"""Conformal intervals have the guaranteed coverage for any predictions of the members."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from tggm.predictive import conformal


def members(rng, x, K=4):
    """A fixed model with wrong means and wrong widths, both depending on x."""
    mean = 0.5 * x + 0.3 * np.sin(np.arange(K)[:, None] + x)
    return mean, np.tile(0.01 + 0.2 * x**2, (K, 1))


@pytest.mark.parametrize("noise", ["standard_normal", "standard_cauchy", "standard_exponential"])
@pytest.mark.parametrize(("n", "level"), [(20, 0.9), (50, 0.8), (200, 0.95)])
def test_coverage_of_new_rows_is_as_guaranteed(n, level, noise):
    """Repeat with n calibration rows and one new one: the rank of its score is uniform."""
    rng = np.random.default_rng(n)
    R = 1000
    inside = np.empty(R, bool)
    for r in range(R):
        x = rng.standard_normal(n + 1)
        y = np.sin(x) + np.exp(x / 2) * getattr(rng, noise)(n + 1)
        mean, var = members(rng, x)
        scores = conformal.sorted_scores(conformal.scores_of(mean[:, :n], var[:, :n], y[:n])[None])[0]
        centre, width = conformal.centre_and_width(mean[:, n:], var[:, n:])
        inside[r] = abs(y[n] - centre[0]) <= conformal.quantile(scores, level) * width[0]
    exact = np.ceil((n + 1) * level - 1e-9) / (n + 1)  # of scores without ties
    assert level <= exact <= level + 1 / (n + 1)
    assert abs(inside.mean() - exact) < 4 * np.sqrt(exact * (1 - exact) / R)  # four binomial errors


def test_scores_are_distances_in_deviations():
    mean, var = np.array([[0.0, 1.0], [2.0, 1.0]]), np.array([[1.0, 4.0], [3.0, 4.0]])
    centre, width = conformal.centre_and_width(mean, var)
    assert_allclose(centre, [1.0, 1.0])
    assert_allclose(width**2, [2 + 0.5 * 2, 4.0])  # variances of means 0 and 2: 2
    assert_allclose(conformal.scores_of(mean, var, np.array([1 - np.sqrt(3), 5.0])), [1.0, 2.0])
    assert_allclose(conformal.centre_and_width(mean[:1], var[:1])[1], np.sqrt(var[0]))


def test_quantile_rank_includes_the_new_row():
    scores = np.arange(1.0, 10.0)  # nine: just enough for 0.9
    assert conformal.quantile(scores, 0.9) == 9
    assert conformal.quantile(scores, 0.5) == 5
    assert conformal.quantile(np.append(scores, np.nan), 0.9) == 9
    with pytest.raises(ValueError, match=r"at most 0.9 for 9 calibration rows; .* 19 are needed"):
        conformal.quantile(scores, 0.95)
    with pytest.raises(ValueError, match="`level` must be between 0 and 1"):
        conformal.quantile(scores, 1.0)


@pytest.mark.parametrize("level", [0.5, 0.8, 0.9, 0.95, 0.99])
def test_fewest_rows_is_the_smallest_sufficient_number(level):
    M = conformal.fewest_rows(level)
    assert np.isfinite(conformal.quantile(np.ones(M), level))
    with pytest.raises(ValueError, match="calibration rows"):
        conformal.quantile(np.ones(M - 1), level)


def test_the_score_of_a_class_is_the_probability_of_more_probable_ones(rng):
    p = rng.dirichlet(np.ones(4), 50).round(1)  # many ties
    expected = [[row[row > one].sum() for one in row] for row in p]
    assert_allclose(conformal.class_scores(p), expected, atol=1e-12)


@pytest.mark.parametrize("sharpness", [0.3, 1.0, 3.0])
def test_sets_of_classes_hold_the_level(rng, sharpness):
    """The model is under- or overconfident, or right; sets are those of its own probabilities."""
    level, n, R, inside, size = 0.9, 40, 4000, 0, 0.0
    for _ in range(R):
        truth = rng.dirichlet(np.full(5, 0.5), n + 1)
        label = (truth.cumsum(1) > rng.random((n + 1, 1))).argmax(1)
        p = truth**sharpness + 1e-12
        p /= p.sum(1, keepdims=True)
        scores = conformal.sorted_scores(conformal.class_scores(p[:n])[np.arange(n), label[:n]][None])[0]
        found = conformal.class_set(p[n:], scores, level)[0]
        assert found[p[n].argmax()]
        inside, size = inside + found[label[n]], size + found.sum()
    error = np.sqrt(level * (1 - level) / R)
    assert level - 4 * error < inside / R < level + 1 / (n + 1) + 0.03 + 4 * error  # scores of 0 are ties
    assert size / R < 3.5


def test_invalid_scores_in_files_are_rejected():
    for wrong in ([[0.0, 1.1]], [[0.0, np.nan]], [[0.0], [0.0]]):
        with pytest.raises(ValueError, match="scores of classes must be one list of numbers from 0 to 1"):
            conformal.checked_scores(wrong, classes=True)
    assert_allclose(conformal.checked_scores([[0.0, 1.0, np.nan]]), [[0.0, 1.0, np.nan]])
    assert_allclose(conformal.checked_scores([[0.0, np.inf, np.inf]]), [[0.0, np.inf, np.inf]])
    for wrong in ([[1.0, 0.5]], [[-1.0, 0.5]], [[0.1, np.nan, 0.5]]):
        with pytest.raises(ValueError, match="must be ascending, not negative, and missing ones last"):
            conformal.checked_scores(wrong)
