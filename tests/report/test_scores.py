"""Scores against scikit-learn, SciPy and definitions written out."""

import numpy as np
import pytest
from scipy import integrate, stats
from sklearn import metrics

from tggm.predictive.gaussian_mixture import GaussianMixture
from tggm.report.scores import calibration_error, class_scores, coverage, regression_scores


def by_key(scores):
    return {score.key: score.value for score in scores}


def test_regression_scores_of_a_normal(rng):
    mean, sd = rng.normal(size=300), 0.7
    y = mean + rng.normal(size=300)
    got = by_key(regression_scores(GaussianMixture(mean[None], np.full((1, 300), sd**2)), y))
    assert got["rmse"] == pytest.approx(metrics.root_mean_squared_error(y, mean))
    assert got["r2"] == pytest.approx(metrics.r2_score(y, mean))
    assert got["mae"] == pytest.approx(metrics.mean_absolute_error(y, mean))
    assert got["log_density"] == pytest.approx(stats.norm(mean, sd).logpdf(y).mean())
    for level, key in ((0.5, "cover50"), (0.9, "cover90")):
        low, high = stats.norm(mean, sd).interval(level)
        assert got[key] == pytest.approx(np.mean((y >= low) & (y <= high)))
    # CRPS = ∫ (F(t) − 1[t ≥ y])² dt
    crps = [
        sum(
            integrate.quad(lambda t, m=m, s=s: (stats.norm.cdf(t, m, sd) - s) ** 2, *ends)[0]
            for s, ends in ((0, (m - 8, at)), (1, (at, m + 8)))
        )
        for m, at in zip(mean[:5], y[:5], strict=True)
    ]
    five = GaussianMixture(mean[None, :5], np.full((1, 5), sd**2))
    assert by_key(regression_scores(five, y[:5]))["crps"] == pytest.approx(np.mean(crps), rel=1e-6)


def test_class_scores_agree_with_scikit_learn(rng):
    p = rng.dirichlet((1, 1, 1), size=200)
    label = rng.integers(3, size=200)
    got = by_key(class_scores(np.log(p), label))
    assert got["accuracy"] == pytest.approx(metrics.accuracy_score(label, p.argmax(1)))
    assert got["balanced"] == pytest.approx(metrics.balanced_accuracy_score(label, p.argmax(1)))
    assert got["log_loss"] == pytest.approx(metrics.log_loss(label, p))
    assert got["auc"] == pytest.approx(metrics.roc_auc_score(label, p, multi_class="ovr"))
    assert "average_precision" not in got
    one_hot = np.eye(3)[label]
    assert got["brier"] == pytest.approx(np.mean(np.sum((p - one_hot) ** 2, axis=1)))


def test_ranks_of_two_classes_and_of_one(rng):
    p = rng.dirichlet((1, 1), size=100)
    label = rng.integers(2, size=100)
    got = by_key(class_scores(np.log(p), label))
    assert got["auc"] == pytest.approx(metrics.roc_auc_score(label, p[:, 1]))
    assert got["average_precision"] == pytest.approx(metrics.average_precision_score(label, p[:, 1]))
    assert "auc" not in by_key(class_scores(np.log(p), np.zeros(100, int)))  # nothing to put in order


def test_the_calibration_error_by_hand():
    sure = np.array([0.55, 0.58, 0.95, 0.97, 1.0])
    right = np.array([True, False, True, True, False])
    # bins of width 0.1: two rows with accuracy 0.5, three with accuracy 2/3
    expected = (2 * abs(0.5 - 0.565) + 3 * abs(2 / 3 - (0.95 + 0.97 + 1) / 3)) / 5
    assert calibration_error(sure, right, bins=10) == pytest.approx(expected)


def test_coverage_and_width_of_a_normal():
    y = stats.norm.ppf((np.arange(1000) + 0.5) / 1000)
    dist = GaussianMixture(np.zeros((1, 1000)), np.ones((1, 1000)))
    for level, inside, width in coverage(dist, y):
        assert inside == pytest.approx(level, abs=1.1e-3)
        assert width == pytest.approx(2 * stats.norm.ppf(0.5 + level / 2), rel=1e-6)
