"""Scores of survival functions, against a loop over pairs, scikit-survival and means without censoring."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from tggm.censored import censored_scores, concordance_index, integrated_brier_score
from tggm.predictive import GaussianMixture


def draw(n, seed=4):
    rng = np.random.default_rng(seed)
    return rng.exponential(2, n), rng.random(n) < 0.6, rng.uniform(0.2, 0.8, n)


def test_concordance_counts_pairs():
    T, died, rate = draw(30)
    T, rate = np.round(T), np.round(rate, 1)  # ties of both
    pairs = [(i, j) for i in range(30) for j in range(30) if i != j and died[i]]
    pairs = [(i, j) for i, j in pairs if T[i] < T[j] or (T[i] == T[j] and not died[j])]
    right = [1.0 if rate[i] > rate[j] else 0.5 * (rate[i] == rate[j]) for i, j in pairs]
    assert_allclose(concordance_index(T, died, rate), np.mean(right), rtol=1e-12)
    assert np.isnan(concordance_index(T, np.zeros(30), rate))


def test_the_brier_score_is_that_of_scikit_survival():
    """scikit-survival 0.28: integrated_brier_score(y, y, S, t), and its concordance index."""
    (T, died, rate), t = draw(30), np.array([0.5, 1.0, 2.0, 3.0])
    S = np.exp(-np.outer(rate, t))
    assert_allclose(integrated_brier_score(T, died, S, t), 0.2679777008361944, rtol=1e-12)
    assert_allclose(concordance_index(T, died, -S.mean(1)), 0.45555555555555555, rtol=1e-12)
    plain = np.mean(((T[:, None] > t) - S) ** 2, axis=0)
    assert_allclose(integrated_brier_score(T, np.ones(30), S, t), np.trapezoid(plain, t) / 2.5, rtol=1e-12)
    with pytest.raises(ValueError, match="`times` must be before the last time, 2; got 3"):
        integrated_brier_score([1.0, 2.0], [True, False], S[:2], t)


def test_scores_of_distributions_with_limits():
    T, died, rate = draw(200)
    law = GaussianMixture(1 / rate[None], np.ones((1, 200)))
    found = censored_scores(law, T, np.where(died, 0, 1))
    want = np.where(died, law.logpdf(T), law.logsf(T)).mean()
    assert_allclose(found["log_density"], want, rtol=1e-12)
    assert set(found) == {"log_density", "concordance", "brier"}
    left = censored_scores(law, T, np.where(died, 0, -1))
    assert_allclose(left["log_density"], np.where(died, law.logpdf(T), law.logcdf(T)).mean(), rtol=1e-12)
    assert set(left) == {"log_density"}
