"""Models of classes for the tests of mean field and EP, with the truth by brute force for two hidden units.

z = W h + b + ε; the class is the largest z. The truth integrates the class's probability given h over a grid
of quantiles of the independent h_k ~ N_T(γ_k/p, 1/p).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.stats import truncnorm

from tggm.gaussian import TruncatedGaussian
from tggm.inference import log_partition
from tggm.precision import Diagonal, Layered, LowRank
from tggm.special.probit import log_probit


class Problem(NamedTuple):
    d: jnp.ndarray  # (m,) precision of h
    shift: jnp.ndarray  # (rows, m)
    W: jnp.ndarray  # (n, m)
    b: jnp.ndarray  # (n,)
    label: jnp.ndarray  # (rows,)


def problem(rng, rows=6, m=2, n=4, scale=1.0):
    shapes = (rows, m), (n, m), (n,)
    shift, W, b = (jnp.asarray(scale * rng.standard_normal(s)) for s in shapes)
    return Problem(jnp.asarray(np.full(m, 1 / 0.7)), shift / 0.7, W, b, jnp.asarray(rng.integers(0, n, rows)))


def prior(p):
    return TruncatedGaussian(Diagonal(p.d), p.shift)


def with_weights(p):
    """The same with WᵀW in the precision."""
    return TruncatedGaussian(LowRank(p.d, p.W), p.shift)


def above_a_layer(rng, p, weights=False):
    """The units of p as the upper of two layers that do not act on each other, and log Z of the lower."""
    below = TruncatedGaussian(Diagonal(np.full(3, 1.5)), rng.standard_normal((len(p.label), 3)))
    top = jnp.diag(p.d) + (p.W.T @ p.W if weights else 0)
    P = Layered([jnp.diag(below.precision.values), top], [jnp.zeros((len(p.d), 3))])
    joined = TruncatedGaussian(P, jnp.concatenate([below.shift, p.shift], axis=1))
    return joined, log_partition(below, engine="exact")


def true_log_probability(p, nodes=80):
    """Log of the probability of each row's class, for two hidden units."""
    t, w = np.polynomial.legendre.leggauss(nodes)
    u, w = (t + 1) / 2, w / 2
    result = []
    for shift, c in zip(np.asarray(p.shift), np.asarray(p.label), strict=True):
        sd = np.asarray(p.d) ** -0.5
        mu = shift * sd**2
        h = [truncnorm.ppf(u, -m / s, np.inf, loc=m, scale=s) for m, s in zip(mu, sd, strict=True)]
        grid = np.stack([part.ravel() for part in np.meshgrid(*h, indexing="ij")], axis=1)
        eta = jnp.asarray(grid @ np.asarray(p.W).T + np.asarray(p.b)[None, :])
        chance = np.exp(log_probit(eta, jnp.ones_like(eta), jnp.full(len(eta), c)))
        result.append(np.log((chance * np.outer(w, w).ravel()).sum()))
    return np.array(result)


def assert_gradient(value, parameters, rng, rtol=1e-6):
    """Reverse mode against central differences, along one direction for every leaf; one program for both."""
    leaves, tree = jax.tree.flatten(parameters)
    both = jax.jit(jax.value_and_grad(value))
    gradient = jax.tree.leaves(both(parameters)[1])
    for i, (leaf, g) in enumerate(zip(leaves, gradient, strict=True)):
        direction = rng.standard_normal(leaf.shape)
        ends = [
            both(jax.tree.unflatten(tree, [*leaves[:i], leaf + t * direction, *leaves[i + 1 :]]))[0]
            for t in (1e-5, -1e-5)
        ]
        np.testing.assert_allclose((g * direction).sum(), (ends[0] - ends[1]) / 2e-5, rtol=rtol, atol=1e-6)
