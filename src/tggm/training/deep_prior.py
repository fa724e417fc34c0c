"""How the prior's log Z of an undirected deep model enters its likelihood.

Mean field bounds the posterior's log Z from below. Subtracting a lower bound of the prior's too makes no
bound: the difference grows without limit as the prior gets harder to approximate, and training finds that
out. "bound" subtracts an upper bound, so that the objective stays below the log-likelihood; but then the gaps
of prior and posterior add up where they nearly cancelled, and what such a model learns is to have no hidden
couplings. "guarded" is mean field as long as the distance to the upper bound is small and follows that one
beyond: the objective can exceed the log-likelihood by a stated number of nats and no more.
"""

import jax
import jax.numpy as jnp
from jax import Array, lax

from tggm.inference.ep.layered import layered_ep
from tggm.inference.factor_bound import mean_field_log_z
from tggm.inference.mean_field.engine import cyclic_moments, expected_energy
from tggm.inference.mean_field.upper_bound import upper_bound
from tggm.models.deep import Undirected
from tggm.models.deep_energy import deep_prior
from tggm.models.directed_bound import forward_means

PRIORS = ("auto", "guarded", "same", "posterior", "bound")
GUARD = 0.1  # nats a unit by which "guarded" lets the objective exceed the log-likelihood
MAX_ITER = 30


def prior_log_z(
    params: Undirected,
    X: Array,
    s0: Array,
    *,
    prior: str,
    engine: str,
    solver: str,
    n_cycles: Array,
    posterior_mean: Array | None = None,
    after: Array | None = None,
) -> Array:
    """Log Z of the prior of each row, differentiable.

    Parameters
    ----------
    prior : {"guarded", "same", "posterior", "bound"}
        Mean field with a guard; what `engine` says; mean field by cycles that start from the posterior's
        means, as the paper advises (where a solver finds the optimum the start does not matter); an upper
        bound.
    engine, solver, n_cycles
        Who treats the posterior, and how.
    posterior_mean : Array, shape (rows, m), optional
        For "posterior".
    after : Array, optional
        What must have been computed before: on a CPU, batched factorisations that wait for threads of one
        pool must not run at the same time.
    """
    tg = deep_prior(params, X, s0)
    if after is not None:
        tg = tg.with_shift(tg.shift + 0.0 * lax.stop_gradient(after)[:, None])
    start = forward_means(lax.stop_gradient(params), X, s0)
    if prior in ("bound", "guarded"):
        upper = upper_bound(tg, s0, start=start, max_iter=jnp.int32(MAX_ITER))
        if prior == "bound":
            return upper
        lower = mean_field_log_z(tg, start, jnp.int32(MAX_ITER))
        return jnp.maximum(lower, upper - GUARD * tg.size)
    if engine == "ep":
        return layered_ep(tg, jnp.int32(MAX_ITER))
    if solver == "newton":
        return mean_field_log_z(tg, start, jnp.int32(MAX_ITER))
    begin = posterior_mean if prior == "posterior" and posterior_mean is not None else start
    fixed = jax.tree.map(lax.stop_gradient, tg)
    q = jax.tree.map(lax.stop_gradient, cyclic_moments(fixed, begin, n_cycles))
    energy = expected_energy(tg, q.mean, q.var)
    value: Array = q.log_z + energy - lax.stop_gradient(energy)
    return value
