"""log Z(P, γ) as a differentiable function; its gradient is an engine's moments.

    ∂log Z/∂γ = E[h],     ∂log Z/∂P = −½ E[hhᵀ].

No iteration is differentiated. Mean field and EP are stationary in the quantities that they iterate, so the
derivative with those held fixed is the total derivative. Only first derivatives are correct: a second one
would ignore that the fixed point moves.

`estimate_log_z` and `estimate_moments` choose an engine; the former returns an error with log Z.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from tggm import settings as check
from tggm.gaussian import Moments, TruncatedGaussian
from tggm.inference._ep import ep, ep_log_z, ep_with_error, gaussian_sites, site_tolerance
from tggm.inference._exact import exact, exact_log_z, is_tractable
from tggm.inference._mean_field import SOLVERS, cyclic_moments, expected_energy, limit_energy, newton_moments
from tggm.inference._orthant import orthant
from tggm.precision import Diagonal
from tggm.runtime import full_precision

ENGINES = ("mean_field", "ep", "exact")


@full_precision
def log_partition(
    tg: TruncatedGaussian, *, engine: str = "ep", solver: str = "newton", n_cycles: ArrayLike = 10,
    max_iter: ArrayLike = 50, start: Array | None = None,
) -> Array:  # fmt: skip
    """Return log Z for each row, differentiable in `shift` and every parameter of the precision.

    The engine is "ep", "mean_field" (a lower bound) or "exact"; options of other engines are ignored.
    `n_cycles` and `max_iter` may be traced, and `start` holds means for mean field.
    """
    check.one_of("engine", engine, ENGINES)
    check.one_of("solver", solver, SOLVERS)
    rows = tg.rows()
    if engine == "exact" or isinstance(tg.precision, Diagonal):  # independent variables have a closed form
        value = exact_log_z(rows)
    elif engine == "ep":
        fixed, tol = jax.tree.map(lax.stop_gradient, rows), site_tolerance(rows.shift.dtype)
        value = ep_log_z(rows, gaussian_sites(fixed, jnp.asarray(max_iter, jnp.int32), tol))
    else:
        fixed = jax.tree.map(lax.stop_gradient, rows)
        begin = None if start is None else lax.stop_gradient(start).reshape(rows.shift.shape)
        if solver == "newton":
            q = newton_moments(fixed, begin, jnp.asarray(max_iter, jnp.int32))
        else:
            q = cyclic_moments(fixed, begin, jnp.asarray(n_cycles, jnp.int32))
        q = lax.stop_gradient(q)
        energy = expected_energy(rows, q.mean, q.var)  # its gradient under a fixed q is that of the bound
        if rows.limits is not None:
            energy = energy + limit_energy(rows, fixed.shift - fixed.precision.off_diagonal(q.mean))
        assert q.log_z is not None
        value = q.log_z + energy - lax.stop_gradient(energy)
    return value.reshape(tg.shift.shape[:-1])


ESTIMATORS = ("auto", "exact", "ep", "orthant")
_ROUNDING = 1e-12  # relative error of log Z by `exact`


class Estimate(NamedTuple):
    """Values, and their errors: a 99.9 % bound, or an estimate of the size of the error; inf if unknown."""

    value: Array
    error: Array


def choose_engine(tg: TruncatedGaussian, engine: str) -> str:
    """Return the engine for "auto": exact where it supports the problem, EP elsewhere.

    Independent variables always have a closed form.
    """
    check.one_of("engine", engine, ESTIMATORS)
    if engine != "auto" and not isinstance(tg.precision, Diagonal):
        return engine
    return "exact" if is_tractable(tg) else "ep"


def estimate_moments(tg: TruncatedGaussian, engine: str, **options: Any) -> Moments:
    """Return the moments of each row by the chosen engine."""
    chosen = choose_engine(tg, engine)
    if chosen == "exact":
        return exact(tg)
    return ep(tg, **options) if chosen == "ep" else orthant(tg, **options)


def estimate_log_z(tg: TruncatedGaussian, engine: str, **options: Any) -> Estimate:
    """Return log Z of each row; the error is rounding, a second-order term, or a spread over shifts."""
    chosen, rows = choose_engine(tg, engine), tg.rows()
    if chosen == "orthant":
        found = orthant(tg, **options)
        return Estimate(jnp.asarray(found.log_z), jnp.asarray(found.log_z_error))
    if chosen == "exact":
        moments = exact(rows)
        value = jnp.asarray(moments.log_z)
        error = jnp.where(moments.converged, jnp.asarray(moments.log_z_error), jnp.inf)
    else:
        tol = jnp.asarray(options.get("tol", 1e-9), tg.shift.dtype)
        value, error = ep_with_error(rows, jnp.int32(options.get("max_iter", 200)), tol)
    return Estimate(*(a.reshape(tg.shift.shape[:-1]) for a in (value, jnp.maximum(error, _ROUNDING))))
