"""Mean field for an undirected deep model whose class is known: all hidden layers and z."""

import jax
import jax.numpy as jnp
from jax import Array, lax

from tggm.gaussian import TruncatedGaussian
from tggm.inference.factor_bound import Factors, best_factors, bound
from tggm.inference.mean_field.cyclic import cyclic
from tggm.models.deep import Undirected
from tggm.models.deep_terms import Score, class_term, class_value
from tggm.models.directed_bound import class_gaussian, forward_means
from tggm.special import standard_moments


def class_factors(
    params: Undirected, X: Array, s0: Array, expand: Score, steps: Array, solver: str
) -> Factors:
    """Factors q of every row by Newton's method, or by so many of the paper's cycles over h and then z."""
    tg = class_gaussian(params, X, s0)
    start = forward_means(params, X, s0)
    if solver == "newton":
        return best_factors(tg, class_term(params, expand), start, steps)
    return _cycles(params, tg, expand, start, steps)


def _cycles(
    params: Undirected, tg: TruncatedGaussian, expand: Score, start: Array, n_cycles: Array
) -> Factors:
    root = jnp.sqrt(tg.precision.diagonal())[None, :]
    term = class_term(params, expand)

    def cycle(_: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        mean, _ = carry
        known = tg.with_shift(tg.shift + term(mean).gradient)  # E[z] held fixed during a cycle
        theta = cyclic(known, mean, jnp.int32(1))
        return standard_moments(theta / root)[0] / root, theta

    mean, theta = lax.fori_loop(jnp.int32(0), n_cycles, cycle, (start, tg.shift))
    omega2 = standard_moments(theta / root)[1]
    rows = len(tg)
    return Factors(theta, mean, omega2, jnp.zeros(rows, bool), jnp.zeros(rows, jnp.int32) + n_cycles)


def undirected_class_bound(
    params: Undirected, X: Array, s0: Array, expand: Score, steps: Array, solver: str
) -> tuple[Array, Array]:
    """Lower bound on log Z of h and z given the class, differentiable, and the means of h that give it."""
    q = class_factors(lax.stop_gradient(params), X, s0, expand, steps, solver)
    mean = jax.tree.map(lax.stop_gradient, q.mean)
    return bound(class_gaussian(params, X, s0), q, class_value(params, mean, expand)), mean
