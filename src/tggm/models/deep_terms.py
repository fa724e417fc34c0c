"""The terms T of `tggm.inference.factor_bound`: normalisers of a directed model, and the class of a row."""

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from tggm.inference.factor_bound import Term, Terms
from tggm.models.deep import Deep
from tggm.models.deep_energy import at_top, layer_sizes, top
from tggm.special import hazard, log_ndtr
from tggm.special.probit_bound import Expansion

Score = Callable[[Array], Expansion]  # η (rows, n) to S_c and its derivatives


def _split(params: Deep, v: Array) -> list[Array]:
    return list(jnp.split(v, np.cumsum(layer_sizes(params))[:-1].tolist(), axis=-1))


def normalisers(params: Deep, s0: Array, mean: Array) -> Array:
    """−Σ log Φ(E_q[u]/σ0) over the units of all layers above the first, (rows,)."""
    layers = _split(params, mean)[:-1]
    total = jnp.zeros(mean.shape[0], mean.dtype)
    for m, W, b in zip(layers, params.W, params.b, strict=True):
        total = total - log_ndtr((m @ W.T + b[None, :]) / jnp.sqrt(s0)).sum(-1)
    return total


def directed_term(params: Deep, s0: Array) -> Terms:
    """The normalisers as a term, without their curvature."""
    sigma0 = jnp.sqrt(s0)

    def term(mean: Array) -> Term:
        pulls = []
        for m, W, b in zip(_split(params, mean)[:-1], params.W, params.b, strict=True):
            pulls.append(-hazard((m @ W.T + b[None, :]) / sigma0) @ W / sigma0)
        gradient = jnp.concatenate([*pulls, jnp.zeros_like(top(params, mean))], axis=-1)
        return Term(normalisers(params, s0, mean), gradient, jnp.zeros_like)

    return term


def class_value(params: Deep, mean: Array, expand: Score) -> Array:
    """S_c(W1 m + b1) + ½‖W1 m‖², differentiable in the parameters for fixed means."""
    z = top(params, mean) @ params.W1.T
    eta = z + params.b1[None, :]
    found = expand(lax.stop_gradient(eta))
    step = (found.gradient * (eta - lax.stop_gradient(eta))).sum(-1)
    return found.value + step + 0.5 * (z**2).sum(-1)


def class_term(params: Deep, expand: Score) -> Terms:
    """The class as a term, with its curvature."""
    W1 = params.W1

    def term(mean: Array) -> Term:
        z = top(params, mean) @ W1.T
        found = expand(z + params.b1[None, :])

        def bend(x: Array) -> Array:
            along = top(params, x) @ W1.T
            return at_top(params, (along + jnp.einsum("bij,bj->bi", found.hessian, along)) @ W1)

        value = found.value + 0.5 * (z**2).sum(-1)
        return Term(value, at_top(params, (found.gradient + z) @ W1), bend)

    return term


def both(first: Terms, second: Terms) -> Terms:
    """The sum of two terms."""

    def term(mean: Array) -> Term:
        a, b = first(mean), second(mean)
        return Term(a.value + b.value, a.gradient + b.gradient, lambda x: a.bend(x) + b.bend(x))

    return term
