"""Data drawn from a known model: its probabilities are frequencies, and a fitted model finds them again."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from tggm import TGGMClassifier
from tggm.estimators.fitted import Fitted, Scales
from tggm.models import Model
from tggm.models.features import Identity
from tggm.models.hidden import Shallow
from tggm.models.likelihoods import Output, Probit
from tggm.streams.columns import Columns

D, M, N = 4, 20, 4


@pytest.fixture(scope="module")
def truth():
    """A classifier that holds the true parameters, and rows drawn from it."""
    rng = np.random.default_rng(11)
    hidden = Shallow(rng.standard_normal((1, M, D)), rng.standard_normal((1, M)), np.ones(1))
    output = Output(0.7 * rng.standard_normal((1, N, M)), 0.5 * rng.standard_normal((1, N)))
    model = TGGMClassifier((M,), n_members=1, dtype="float64")
    model.classes_, model.n_features_in_ = np.arange(N), D
    scales = Scales(Columns.unchanged(D), Columns.unchanged(N))
    model.adopt(Fitted(Model(Identity(), hidden, Probit(output)), scales, "moments"))
    X = rng.standard_normal((100_000, D))
    a = X @ hidden.W0[0].T + hidden.b0[0]
    h = stats.truncnorm.ppf(rng.uniform(size=a.shape), -a, np.inf, loc=a)
    z = h @ output.W1[0].T + output.b1[0] + rng.standard_normal((len(X), N))
    return model, X, z.argmax(1)


def calibration_error(p, label, bins=15):
    """Mean over rows of |confidence − accuracy| in the row's bin."""
    sure, right = p.max(1), p.argmax(1) == label
    which = np.minimum((sure * bins).astype(int), bins - 1)
    return sum(abs((sure - right)[which == b].sum()) for b in range(bins)) / len(label)


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


def test_a_fitted_model_is_close(truth):
    model, X, label = truth
    fitted = TGGMClassifier((M,), random_state=0, max_epochs=40, batch_size=250).fit(X[:8000], label[:8000])
    true, found = (m.predict_proba(X[-20_000:]) for m in (model, fitted))
    assert calibration_error(found, label[-20_000:]) < 0.025
    assert np.abs(true - found).mean() < 0.04
    best = np.log(true[np.arange(20_000), label[-20_000:]]).mean()
    assert_allclose(np.log(found[np.arange(20_000), label[-20_000:]]).mean(), best, atol=0.03)
