"""Scores and scorers against scikit-learn and sums written out."""

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import mean_pinball_loss
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tests.estimators.small import abs_table, small_classifier, small_regressor, three_classes
from tggm.metrics import SCORERS, cost_threshold, crps, interval_score
from tggm.predictive import GaussianMixture, MultivariateGaussianMixture

X, Y = abs_table()


def test_the_interval_score_is_a_sum_of_two_pinball_losses(rng):
    y, low = rng.normal(size=(2, 50))
    high = low + rng.gamma(1.0, size=50)
    for level in (0.5, 0.9):
        alpha = 1 - level
        losses = [mean_pinball_loss(y, q, alpha=a) for q, a in ((low, alpha / 2), (high, 1 - alpha / 2))]
        assert interval_score(y, low, high, level) == pytest.approx(2 / alpha * sum(losses))


def test_the_crps_of_normals(rng):
    y, mean = rng.normal(size=(2, 30, 2))
    z = y - mean  # Gneiting and Raftery (2007), section 4.2
    each = z * (2 * stats.norm.cdf(z) - 1) + 2 * stats.norm.pdf(z) - 1 / np.sqrt(np.pi)
    one = GaussianMixture(mean[None, :, 0], np.ones((1, 30)))
    weight = rng.uniform(size=30)
    assert crps(y[:, 0], one, weight) == pytest.approx(np.average(each[:, 0], weights=weight), rel=1e-6)
    both = MultivariateGaussianMixture(mean[None], np.tile(np.eye(2), (1, 30, 1, 1)))
    assert crps(y, both) == pytest.approx(each.mean(), rel=1e-6)


def test_scorers_work_in_searches_and_pipelines():
    model, settings = small_regressor(max_epochs=5), {"scoring": SCORERS, "refit": "neg_crps", "cv": 2}
    found = GridSearchCV(model, {"learning_rate": [0.03, 0.01]}, **settings).fit(X, Y).cv_results_
    half = small_regressor(max_epochs=5).fit(X[30:], Y[30:])
    dist, y = half.predict_dist(X[:30]), Y[:30]
    want = [dist.logpdf(y).mean(), -dist.crps(y).mean(), -interval_score(y, *dist.interval(0.9))]
    assert [found[f"split0_test_{name}"][0] for name in SCORERS] == pytest.approx(want)
    line = make_pipeline(StandardScaler(with_mean=False, with_std=False), model)
    scores = cross_val_score(line, X, Y, scoring=SCORERS["neg_crps"], cv=2)
    assert scores[0] == pytest.approx(want[1])
    A, label = three_classes()
    classifier = small_classifier(max_epochs=5).fit(A, label)
    log_p = classifier.predict_log_proba(A)[np.arange(60), np.searchsorted(classifier.classes_, label)]
    assert SCORERS["log_likelihood"](classifier, A, label) == pytest.approx(log_p.mean())


@pytest.mark.parametrize(("false_alarm", "miss"), [(1.0, 1.0), (1.0, 20.0), (5.0, 1.0)])
def test_the_threshold_of_lowest_cost_is_found(rng, false_alarm, miss):
    p = rng.uniform(size=200).round(2)
    positive = rng.uniform(size=200) < p**2  # the probabilities are too high

    def cost(threshold):
        alarm = p >= threshold
        return (false_alarm * (alarm & ~positive) + miss * (~alarm & positive)).mean()

    threshold, lowest = cost_threshold(positive, p, false_alarm=false_alarm, miss=miss)
    assert cost(threshold) == pytest.approx(lowest)
    assert lowest == pytest.approx(min(map(cost, np.linspace(0, 1.01, 405))))
    calibrated = np.array([0.1, 0.1, 0.9, 0.9])  # every threshold between 0.1 and 0.9 is without errors
    wanted = np.clip(false_alarm / (false_alarm + miss), 0.1, 0.9)
    got, _ = cost_threshold(calibrated > 0.5, calibrated, false_alarm=false_alarm, miss=miss)
    assert got == pytest.approx(wanted if wanted > 0.1 else 0.5)
    with pytest.raises(ValueError, match="`miss` must be finite and greater than 0; got 0"):
        cost_threshold(positive, p, false_alarm=1, miss=0)
