"""Relevance of columns: kernel ridge regression against direct solutions, factors, and fits that use them."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import make_friedman1
from sklearn.gaussian_process.kernels import Matern

from tggm import TGGMRegressor
from tggm.estimators import _relevance as relevance
from tggm.estimators._relevance import Rows, choose_weighing, weigh
from tggm.estimators._settings import REGRESSION, Settings
from tggm.models import Bounded, Network, Periodic


@pytest.fixture(scope="module")
def friedman():
    """Return 200 rows with ten columns, of which five are relevant."""
    X, y = make_friedman1(200, noise=0.5, random_state=0)
    return (X - 0.5) * np.sqrt(12), (y - y.mean())[:, None] / y.std()


def test_errors_and_derivatives_are_those_of_kernel_ridge_regression(monkeypatch):
    rng = np.random.default_rng(0)
    X, s, weight = rng.standard_normal((12, 3)), np.array([1.0, 0.5, 0.1]), rng.uniform(0.5, 1.5, 12)
    rows = Rows(X, np.sin(X[:, :2]), weight / weight.mean())
    monkeypatch.setattr(relevance, "PENALTIES", np.array([0.3]))
    error, derivatives = relevance._fit(rows, s, 2.0)
    Z = X * s
    unit = 2.0 * np.sqrt(((Z[:, None] - Z[None]) ** 2).sum(2).mean() / 2)
    kernel = Matern(unit, nu=2.5)

    def fitted(part, places):
        """Weigh the rows by dividing the penalty."""
        alpha = np.diag(0.3 / rows.weight[part])
        solution = np.linalg.solve(kernel(Z[part]) + alpha, rows.Y[part])
        return kernel(places * s, Z[part]) @ solution

    left = [fitted(np.arange(12) != i, X[i : i + 1])[0] - rows.Y[i] for i in range(12)]
    assert_allclose(error, rows.weight @ (np.square(left).sum(1)) / 12, rtol=1e-8)
    whole, h = np.arange(12), 1e-5
    steps = [(fitted(whole, X + h * e) - fitted(whole, X - h * e)) / (2 * h) for e in np.eye(3)]
    assert_allclose(derivatives, [rows.weight @ (d**2).sum(1) / 12 for d in steps], rtol=1e-6)


def test_relevant_columns_keep_their_weight(friedman):
    X, Y = friedman
    chosen = choose_weighing(X, Y, np.ones(200))
    assert chosen is not None
    assert chosen.rounds > 0
    assert chosen.smooth
    factors = chosen.factors(X, Y, np.ones(200))
    assert factors.max() == 1
    assert factors[:5].min() > 0.3
    assert factors[5:].max() < 0.1


def test_columns_without_any_relation_are_not_weighed():
    rng = np.random.default_rng(1)
    X, Y, weight = rng.standard_normal((200, 5)), rng.standard_normal((200, 1)), np.ones(200)
    chosen = choose_weighing(X, Y, weight)
    assert chosen is not None
    assert chosen.rounds == 0
    assert not chosen.smooth


def test_small_large_and_discrete_tables_are_not_weighed(friedman):
    X, Y = friedman
    assert choose_weighing(X[:29], Y[:29], np.ones(29)) is None
    assert choose_weighing(*(np.tile(a, (11, 1)) for a in (X, Y)), np.ones(2200)) is None
    assert choose_weighing(np.round(X), Y, np.ones(200)) is None


@pytest.mark.parametrize("features", [Bounded, Periodic])
def test_weighed_members_are_members_of_weighed_columns(features):
    """Within the bound of the inputs; sums of waves depend on columns through the frequencies."""
    rng = np.random.default_rng(0)
    X, factors = rng.uniform(-2, 2, (6, 3)), np.array([[1.0, 0.3, 0.01], [0.5, 1.0, 0.1]])
    drawn = Network((4,), features=features).draw(rng, 3, 1, members=2)
    model = drawn.with_arrays({"likelihood.output.A": rng.standard_normal((2, 1, 3))})
    found = weigh(model, factors)
    for k in range(2):
        member, weighed = (m.replaced({n: a[k] for n, a in m.arrays().items()}) for m in (model, found))
        (likelihood, latent), (other, moments) = member.at(X * factors[k]), weighed.at(X)
        assert_allclose(other.variances(moments)[0], likelihood.variances(latent)[0], rtol=2e-5, atol=1e-6)


def test_a_fit_of_a_smooth_target_ignores_irrelevant_columns(friedman):
    X, Y = friedman
    model = TGGMRegressor(hidden=(6,), n_members=2, max_epochs=40, random_state=0).fit(X, Y[:, 0])
    assert model.fitted_.network.features is Bounded
    size = np.abs(model.fitted_.model.arrays()["hidden.W0"]).mean((0, 1))
    assert size[5:].max() < 0.2 * size[:5].min()
    assert_allclose(model.partial_fit(X, Y[:, 0]).predict(X), Y[:, 0], atol=3)


@pytest.mark.parametrize(
    "given", [{"features": "periodic"}, {"network": Network((6,))}, {"standardize": False}]
)
def test_columns_are_not_weighed_if_the_user_chose_features(given):
    settings = Settings.checked(TGGMRegressor(**given).get_params(), REGRESSION)
    assert not settings.weighs_columns
