"""A new feature map, likelihood, unit or method is one class and a line in a table: each is added here."""

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.special import gammaln
from numpy.testing import assert_allclose
from scipy import stats
from tggm.models.hidden.base import Hidden
from tggm.models.hidden.shallow import Independent
from tggm.models.likelihoods.base import Likelihood, Output
from tggm.models.part import part
from tggm.training.methods import METHODS, Method, MomentMatching, Rows
from tggm.training.state import Plan, hyper_parameters
from tggm.training.training import train

from tggm import TGGMRegressor
from tggm.models import Architecture, Model
from tggm.models.features import FEATURES, Features
from tggm.models.hidden import HIDDEN
from tggm.models.likelihoods import LIKELIHOODS
from tggm.training.layout import Layout
from tggm.training.rows import Blocks, RowBlock, hold_out, membership


@part
class Squared(Features):
    """ψ(x) = (x, c x²), c learned."""

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

    @classmethod
    def template(cls, zeros, n_inputs):
        return cls(zeros(n_inputs))


@part
class StudentT(Likelihood):
    """y given x is a t distribution of 4 degrees of freedom with the moments of y, trained by them."""

    output: Output
    log_noise: jax.Array

    offers: ClassVar = frozenset({"moments"})
    judged_by_moments: ClassVar = True

    def by_moments(self, y, latent):
        h, var = latent.variances(self.output.W1)
        scale2 = 0.5 * (var + jnp.exp(self.log_noise)[None, :])  # the variance is twice its square
        z2 = (y - self.output.of(h)) ** 2 / scale2
        constant = gammaln(2.5) - gammaln(2.0) - 0.5 * jnp.log(4 * jnp.pi)
        return (constant - 0.5 * jnp.log(scale2) - 2.5 * jnp.log1p(z2 / 4)).sum(1)

    def by_mean(self, y, mean):
        raise NotImplementedError

    def by_engine(self, y, hidden, psi, engine):
        raise NotImplementedError

    @classmethod
    def draw(cls, output, noise):
        return cls(output, np.log(np.broadcast_to(noise, np.shape(output.b1))))

    @classmethod
    def template(cls, zeros, output):
        return cls(output, output.b1)


@part
class Rectified(Hidden):
    """Units without noise: h = max(0, W0 ψ + b0), a ReLU."""

    W0: jax.Array
    b0: jax.Array
    s0: jax.Array

    offers: ClassVar = frozenset({"moments", "mean"})
    by_moments: ClassVar = True

    @property
    def gauge(self):
        return jax.lax.stop_gradient(self.s0)

    def moments(self, psi, engine):
        h = jax.nn.relu(psi @ self.W0.T + self.b0[None, :])
        return Independent(h, jnp.zeros_like(h))

    def mean(self, psi, W, engine):
        return self.moments(psi, engine).mean @ W.T

    @classmethod
    def draw(cls, rng, ends, s0, layers, **own):
        return cls(*ends, np.asarray(s0))

    @classmethod
    def template(cls, zeros, width, layers, lateral):
        return cls(zeros(layers[0], width), zeros(layers[0]), zeros())


@dataclass(frozen=True)
class Absolute(Method):
    """The absolute error of E[y | x]."""

    needs: ClassVar = "mean"

    def __call__(self, model: Model, rows: Rows, progress):
        return -jnp.abs(rows.y - model.mean(rows.X, None)).sum(1)


@pytest.fixture
def tables(monkeypatch):
    monkeypatch.setitem(FEATURES, "squared", Squared)
    monkeypatch.setitem(LIKELIHOODS, "student", StudentT)
    monkeypatch.setitem(HIDDEN, "rectified", Rectified)
    monkeypatch.setitem(METHODS, "absolute", Absolute)


def bent(n=200):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2)).astype(np.float32)
    y = X[:, :1] ** 2 + 0.1 * rng.normal(size=(n, 1))
    return X, ((y - y.mean()) / y.std()).astype(np.float32)


def trained(architecture, method, epochs=60):
    """A model trained for some epochs, its first score and its last."""
    X, y = bent()
    rng = np.random.default_rng(1)
    model = architecture.members(rng, 1, "float32", init="scaled")
    members = membership([hold_out(rng, np.arange(len(X)), 0.2)])
    blocks = Blocks.of(RowBlock(members, Rows(X, y), np.ones(len(X), np.float32)))
    layout = Layout.of(model, axes=1)
    hyper = hyper_parameters(
        1, layout.rates(["hidden.s0"]), "float32", learning_rate=0.03, total_steps=epochs * blocks.steps(40)
    )
    result = train(Plan(layout, 40, 64), method, model, blocks, hyper, max_epochs=epochs)
    return jax.tree.map(lambda a: np.asarray(a)[0], result.params), result.held[0]


def test_a_feature_map(tables):
    model, held = trained(Architecture(2, (8,), 1, features="squared"), MomentMatching())
    assert model.hidden.W0.shape == (8, 4)
    assert not np.allclose(model.features.c, 1)  # it learns
    assert held[-1] > held[0] + 0.3


def test_a_likelihood(tables):
    model, held = trained(Architecture(2, (8,), 1, "student"), MomentMatching())
    assert held[-1] > held[0] + 0.3
    X, y = bent(5)
    latent = model.latent(X, None)
    h, var = latent.variances(model.likelihood.output.W1)
    scale = np.sqrt(0.5 * (np.asarray(var) + np.exp(model.likelihood.log_noise)))
    wanted = stats.t(4, np.asarray(model.likelihood.output.of(h)), scale).logpdf(y)[:, 0]
    assert_allclose(model.likelihood.by_moments(y, latent), wanted, rtol=1e-4, atol=1e-4)


def test_a_unit(tables):
    model, held = trained(Architecture(2, (8,), 1, form="rectified"), MomentMatching())
    X, _ = bent(5)
    relu = np.maximum(X @ model.hidden.W0.T + model.hidden.b0, 0) @ model.likelihood.output.W1.T
    assert_allclose(model.mean(X, None), relu + model.likelihood.output.b1, rtol=1e-4, atol=1e-5)
    assert held[-1] > held[0] + 0.3


def test_a_method(tables):
    X, y = bent()
    model = TGGMRegressor.one_layer(
        hidden=(8,), method="absolute", n_members=1, max_epochs=60, random_state=0
    ).fit(X, y[:, 0])
    assert np.abs(model.predict(X) - y[:, 0]).mean() < 0.5 * np.abs(y[:, 0] - np.median(y)).mean()


def test_what_a_likelihood_does_not_offer_is_refused(tables):
    assert Architecture(2, (8,), 1, "student").offers == {"moments"}
    assert Architecture(2, (8,), 1, "student", form="rectified").offers == {"moments"}
