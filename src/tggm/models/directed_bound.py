"""The mean-field bound of a directed deep model, for numbers and for classes: a true lower bound."""

import math

import jax
import jax.numpy as jnp
from jax import Array, lax

from tggm.gaussian import TruncatedGaussian
from tggm.inference.factor_bound import Factors, best_factors, bound
from tggm.models.deep import Deep, Directed, shallow
from tggm.models.deep_energy import deep_posterior, deep_precision, deep_shift, output_constant
from tggm.models.deep_moments import layer_moments
from tggm.models.deep_terms import Score, both, class_term, class_value, directed_term, normalisers
from tggm.models.shallow import prior_log_z


def forward_means(params: Deep, X: Array, s0: Array) -> Array:
    """Means of all hidden layers given x as a directed model propagates them, (rows, m_1 + … + m_L)."""
    return jnp.concatenate([layer.mean for layer in layer_moments(params, X, s0)], axis=1)


def _constant(params: Directed, X: Array, s0: Array) -> Array:
    """What normalises the layers besides Φ: log Z of the first, ½ log 2π s0 and b²/2 s0 a unit above it."""
    total = prior_log_z(shallow(params), X, s0)
    for b in params.b:
        total = total + 0.5 * (b**2).sum() / s0 + 0.5 * b.shape[0] * jnp.log(2 * math.pi * s0)
    return total


def directed_bound(params: Directed, X: Array, Y: Array, s0: Array, max_iter: Array) -> Array:
    """Lower bound on log p(y | x) for each row, differentiable."""
    fixed = lax.stop_gradient(params)
    start = forward_means(fixed, X, s0)
    q = best_factors(deep_posterior(fixed, X, Y, s0), directed_term(fixed, s0), start, max_iter)
    mean = lax.stop_gradient(q.mean)
    value = bound(deep_posterior(params, X, Y, s0), q, normalisers(params, s0, mean))
    return value - _constant(params, X, s0) - output_constant(params, Y)


def class_gaussian(params: Deep, X: Array, s0: Array) -> TruncatedGaussian:
    """The energy of all hidden layers with W1ᵀW1 in the last: what a known class leaves quadratic."""
    return TruncatedGaussian(deep_precision(params, s0, params.W1), deep_shift(params, X, s0))


def directed_class_bound(params: Directed, X: Array, s0: Array, expand: Score, max_iter: Array) -> Array:
    """Lower bound on log p(class | x) for each row, differentiable."""
    fixed = lax.stop_gradient(params)
    terms = both(directed_term(fixed, s0), class_term(fixed, expand))
    q: Factors = best_factors(class_gaussian(fixed, X, s0), terms, forward_means(fixed, X, s0), max_iter)
    mean = jax.tree.map(lax.stop_gradient, q.mean)
    value = normalisers(params, s0, mean) + class_value(params, mean, expand)
    return bound(class_gaussian(params, X, s0), q, value) - _constant(params, X, s0)
