"""Several hidden layers through the estimators."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from tggm import TGGMClassifier, TGGMRegressor, load, save


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((160, 2))
    return X, np.abs(X[:, 0]) - np.abs(X[:, 1]) + 0.05 * rng.standard_normal(160)


@pytest.fixture(scope="module")
def regressor(table):
    X, y = table
    return TGGMRegressor(
        (12, 10), n_members=2, max_epochs=150, batch_size=40, random_state=0, early_stopping=False
    ).fit(X, np.column_stack([y, 3 * y + X[:, 0]]))


def test_regression_learns_and_round_trips(table, regressor, tmp_path):
    X, y = table
    assert regressor.score(X, np.column_stack([y, 3 * y + X[:, 0]])) > 0.9
    assert [W.shape for W, _ in regressor.between_] == [(2, 10, 12)]
    save(regressor, tmp_path / "deep.tggm")
    again = load(tmp_path / "deep.tggm")
    assert again.hidden == (12, 10)
    for got, want in zip(
        again.predict(X, return_std=True), regressor.predict(X, return_std=True), strict=True
    ):
        assert_array_equal(got, want)


def test_predictive_of_several_outputs(table, regressor):
    """Mean and covariance of draws, and a joint density that is the product of conditionals."""
    X, _ = table
    dist = regressor.predict_dist(X[:3])
    draws = dist.rvs(40_000, random_state=0)
    spread = dist.std()
    assert_allclose((draws.mean(0) - dist.mean()) / spread, 0, atol=5 / 200)
    for i, cov in enumerate(dist.cov()):
        assert_allclose(np.cov(draws[:, i].T), cov, rtol=0.05, atol=0.05 * spread[i].prod())
    assert_allclose(dist.mean(), regressor.predict(X[:3]), rtol=1e-4)
    assert np.isfinite(dist.logpdf(np.full((3, 2), 1e9))).all()
    for j in range(2):
        q = dist.marginal(j).ppf(0.9)
        assert_allclose(dist.marginal(j).cdf(q), 0.9, atol=1e-9)


def test_densities_are_finite_everywhere(regressor):
    dist = regressor.predict_dist(np.array([[1e6, -1e6], [0, 0]])).marginal(0)
    assert np.isfinite(dist.logpdf(np.array([[-1e30, 0, 1e30]]))).all()
    assert np.isfinite(dist.interval(0.999)).all()


@pytest.mark.slow  # classes by two layers: test_defaults.py; files of classes: test_classifier.py
def test_classes_round_trip(table, tmp_path):
    X, y = table
    label = np.where(y > 0, "up", "down")
    model = TGGMClassifier((12, 10), max_epochs=100, batch_size=40, weight_decay=0.1, random_state=0)
    assert model.fit(X, label).score(X, label) > 0.9
    save(model, tmp_path / "deep.tggm")
    assert_array_equal(load(tmp_path / "deep.tggm").predict_proba(X), model.predict_proba(X))


@pytest.mark.usefixtures("usual_shapes")  # mean field takes its time for each row
def test_undirected_learns_and_predicts_as_it_was_trained(table, tmp_path):
    X, y = table
    model = TGGMRegressor(
        (5, 5),
        method="meanfield",
        deep="undirected",
        prior="same",
        n_members=1,
        max_epochs=40,
        batch_size=16,
        random_state=0,
    ).fit(X, y)
    assert model.score(X, y) > 0.4
    assert np.isfinite(model.score_samples(X, y)).all()
    told = model.predict(X)
    model.set_params(method="ep", hidden=5, deep="directed")  # for a later fit
    assert_array_equal(model.predict(X), told)
    save(model, tmp_path / "deep.tggm")
    assert_array_equal(load(tmp_path / "deep.tggm").predict(X), told)
