"""Mixtures over unknown inputs, against closed forms and draws."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from tggm.predictive import GaussianMixture, StudentPredictive
from tggm.predictive.gaussian_mixture import LognormalMixture
from tggm.predictive.joint import MultivariateGaussianMixture
from tggm.predictive.marginal import DRAWS, Marginal, MarginalJoint, averages, fill_unknown
from tggm.predictive.novelty import Neighbourhood, TrainingRows
from tggm.predictive.observed import Observed

STARTS = np.array([0, 1, 4])  # the first row is known, the second has three draws
MEAN, STD = np.array([0.5, -1.0, 0.0, 3.0]), np.array([0.3, 0.2, 1.0, 0.5])


def gaussian():
    """Return the marginal, and the same mixtures of Gaussians row by row."""
    inner = GaussianMixture(MEAN[None], STD[None] ** 2, loc=2.0, scale=3.0)
    parts = slice(0, 1), slice(1, 4)
    rows = [GaussianMixture(MEAN[k, None], STD[k, None] ** 2, loc=2.0, scale=3.0) for k in parts]
    return Marginal(inner, STARTS), rows


@pytest.mark.parametrize("method", ["mean", "std", "pdf", "logpdf", "cdf", "logcdf", "logsf", "ppf", "crps"])
def test_it_is_a_mixture_of_gaussians(method):
    law, rows = gaussian()
    at = {"ppf": np.array([[0.01, 0.5, 0.9]])}.get(method, np.array([[-4.0, 2.2, 40.0]]))
    arguments = () if method in ("mean", "std") else (at,)
    wanted = np.concatenate([getattr(row, method)(*arguments) for row in rows])
    tolerance = 1e-4 if method == "crps" else 1e-9
    assert_allclose(getattr(law, method)(*arguments), wanted, rtol=tolerance, atol=tolerance)


def test_quantiles_of_a_lattice_are_its_points():
    """Q(q) is the smallest y of 0, 0.1, ... with P(Z ≤ y + 0.05) ≥ q, for a latent mixture Z of Gaussians."""
    law = Marginal(Observed(GaussianMixture(MEAN[None], STD[None] ** 2), 0.0, None, 0.1), STARTS)
    q, grid = np.array([[0.02, 0.5, 0.77, 0.99]]), np.arange(100) / 10
    cdf = stats.norm.cdf(grid[:, None] + 0.05, MEAN[1:], STD[1:]).mean(1)
    assert_allclose(law.ppf(q)[1], grid[(cdf[None] < q.T).sum(1)], atol=1e-12)


def test_rows_are_selected_with_their_draws():
    law, rows = gaussian()
    assert_allclose(law[np.array([1, 0, 1])].mean(), np.concatenate([rows[k].mean() for k in (1, 0, 1)]))
    assert_allclose(law[1:].ppf(0.3), rows[1].ppf(0.3))


@pytest.mark.parametrize(
    "inner",
    [StudentPredictive(MEAN, STD, 0.1), LognormalMixture(GaussianMixture(MEAN[None], STD[None] ** 2))],
)
def test_draws_have_the_quantiles_and_crps_of_the_law(inner):
    law, n = Marginal(inner, STARTS), 100_000
    draws = law.rvs(n, random_state=0)
    q = law.ppf(np.array([[0.1, 0.5, 0.95]]))
    share = (draws[:, :, None] <= q[None]).mean(0)
    assert_allclose(share, np.broadcast_to([0.1, 0.5, 0.95], (2, 3)), atol=4 * 0.5 / np.sqrt(n))
    y = q[:, 1]
    apart = np.abs(draws - y), np.abs(draws - np.roll(draws, 1, axis=0))
    error = 4 * sum(a.std(0) for a in apart) / np.sqrt(n)
    assert (np.abs(law.crps(y) - apart[0].mean(0) + 0.5 * apart[1].mean(0)) < error).all()
    assert (law.ppf(1.0) == np.inf).all()


def test_joint_laws_are_mixtures():
    rng = np.random.default_rng(0)
    mean, root = rng.normal(size=(1, 4, 2)), rng.normal(size=(1, 4, 2, 2))
    cov = root @ root.transpose(0, 1, 3, 2) + np.eye(2)
    law = MarginalJoint(MultivariateGaussianMixture(mean, cov), STARTS)
    whole = MultivariateGaussianMixture(mean[0, 1:, None], cov[0, 1:, None])  # the second row
    y = np.array([[0.2, -0.4], [1.0, 0.3]])
    assert_allclose(law.logpdf(y)[1], whole.logpdf(y[1:])[0])
    assert_allclose(law.cov()[1], whole.cov()[0])
    assert_allclose(law.marginal(1).mean()[1], whole.mean()[0, 1])
    draws = law.rvs(20_000, random_state=1)
    assert_allclose(np.cov(draws[:, 1].T), whole.cov()[0], atol=0.15)


def test_unknown_inputs_are_drawn_from_the_nearest_rows():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(500, 3))
    rows[:, 1] = rows[:, 0]  # equal columns: the unknown one is near the known one
    Z = np.array([[0.1, 0.2, 0.3], [1.0, np.nan, 0.0], [np.nan, np.nan, np.nan]])
    train = TrainingRows(rows.min(0), rows.max(0), rows, np.empty((0, 3)), np.empty((0, 6)))
    around = Neighbourhood(train, lambda Z: (np.stack(2 * [Z]), np.stack(2 * [Z])))
    full, starts = fill_unknown(Z, around)
    assert starts.tolist() == [0, 1, 1 + DRAWS, 1 + 2 * DRAWS]
    assert np.isfinite(full).all()
    assert (full[0] == Z[0]).all()
    assert (full[1 : 1 + DRAWS, 0] == 1.0).all()
    assert np.abs(full[1 : 1 + DRAWS, 1] - 1.0).max() < 0.7
    assert_allclose(averages(full, starts)[0], Z[0])
    assert fill_unknown(Z[:1], around) == (pytest.approx(Z[:1]), None)
    filled, none = fill_unknown(Z, None)
    assert none is None
    assert (filled[2] == 0).all()
