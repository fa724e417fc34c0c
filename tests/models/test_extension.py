"""Add a feature map, a hidden layer and a likelihood as a user would: one class each, nothing else."""

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.special import gammaln
from numpy.testing import assert_array_equal
from sklearn.base import clone

import tggm
from tggm import TGGMClassifier, TGGMRegressor
from tggm.models import Features, Hidden, Latent, Likelihood, Network, Output, part
from tggm.models.network import PARTS


@part
class Squared(Features):
    """ψ(x) = (x, c x²) with learned c."""

    c: jax.Array  # (d,)
    linear: ClassVar = False

    def __call__(self, X):
        return jnp.concatenate([X, self.c[None, :] * X**2], axis=1)

    @classmethod
    def width(cls, n_inputs):
        return 2 * n_inputs

    @classmethod
    def draw(cls, rng, n_inputs):
        return cls(np.ones(n_inputs))


@part
class Exact(Latent):
    """Units without noise."""

    h: jax.Array

    def covariance(self, W):
        return self.h, jnp.zeros((len(self.h), len(W), len(W)), self.h.dtype)


@part
class Rectified(Hidden):
    """One layer of units without noise: h = max(0, W0 ψ + b0)."""

    W0: jax.Array
    b0: jax.Array
    s0: jax.Array

    def moments(self, psi):
        return Exact(jax.nn.relu(psi @ self.W0.T + self.b0[None, :]))

    @classmethod
    def draw(cls, rng, W0, b0, s0, units):
        return cls(W0, b0, np.asarray(s0))


@part
class StudentT(Likelihood):
    """y given x has a t distribution with 4 degrees of freedom and the moments of y."""

    output: Output
    log_variance: jax.Array
    init: ClassVar = "small"

    def variances(self, latent):
        h, var = latent.variances(self.output.W1)
        return self.output.of(h), var + jnp.exp(self.log_variance)[None, :]

    def moments(self, latent):
        mean, var = self.variances(latent)
        return mean, var[:, :, None] * jnp.eye(var.shape[1], dtype=var.dtype)[None]

    def log_density(self, y, latent):
        mean, var = self.variances(latent)
        scale2 = 0.5 * var  # the variance is twice the squared scale
        constant = gammaln(2.5) - gammaln(2.0) - 0.5 * jnp.log(4 * jnp.pi)
        return (constant - 0.5 * jnp.log(scale2) - 2.5 * jnp.log1p((y - mean) ** 2 / scale2 / 4)).sum(1)

    @classmethod
    def draw(cls, output):
        return cls(output, np.zeros(np.shape(output.b1)))


ALL = {"features": Squared, "layers": Rectified, "likelihood": StudentT}
NEW = {"all": ALL, **{name: {name: kind} for name, kind in ALL.items()}}


def curve(n=300):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2))
    return X, X[:, 0] ** 2 + 0.1 * rng.normal(size=n)


@pytest.mark.parametrize("name", NEW)
def test_a_new_part_is_fitted_cloned_saved_and_loaded(name, tmp_path):
    X, y = curve()
    network = Network((8,), **NEW[name])
    model = TGGMRegressor(network=network, n_members=2, max_epochs=120, learning_rate=0.03, random_state=0)
    model.fit(X, y)
    assert model.score(*curve(100)) > 0.7  # a linear model has a score of 0
    again = clone(model)
    assert again.network == network
    assert_array_equal(again.fit(X, y).predict(X), model.predict(X))
    tggm.save(model, tmp_path / "m")
    loaded = tggm.load(tmp_path / "m")
    assert loaded.fitted_.network == model.fitted_.network
    assert_array_equal(loaded.predict(X), model.predict(X))
    assert_array_equal(loaded.predict_dist(X).logpdf(y), model.predict_dist(X).logpdf(y))


def test_a_new_likelihood_starts_as_it_defines():
    X, _ = curve()
    model = TGGMRegressor(network=Network((4,), likelihood=StudentT), max_epochs=1, random_state=0)
    assert np.std(model.fit(X, X[:, 0]).fitted_.model.hidden.W0) < 0.2  # "small"


def test_new_parts_work_for_several_outputs_and_classes():
    X, y = curve()
    settings = {"n_members": 2, "max_epochs": 20, "learning_rate": 0.03, "random_state": 0}
    both = TGGMRegressor(network=Network((8,), **ALL), **settings).fit(X, np.column_stack([y, -y]))
    assert np.isfinite(both.predict_dist(X).logpdf(np.column_stack([y, -y]))).all()
    classifier = TGGMClassifier(network=Network((8,), Squared, Rectified), **settings).fit(X, y > 0.5)
    assert classifier.score(X, y > 0.5) > 0.8


def test_a_file_with_a_part_that_is_not_imported_is_rejected(tmp_path, monkeypatch):
    X, y = curve(60)
    model = TGGMRegressor(network=Network((2,), layers=Rectified), n_members=1, max_epochs=1)
    tggm.save(model.fit(X, y), tmp_path / "m")
    monkeypatch.delitem(PARTS, "Rectified")
    with pytest.raises(tggm.ModelFileError, match=r"'Rectified' is an unknown part; import its module"):
        tggm.load(tmp_path / "m")
