"""The logarithm of Pr(h ≥ 0) under a Gaussian, by any engine, with an error estimate.

    log Pr(h ≥ 0) = log Z(P, γ) − ½ (m log 2π − log det P + γᵀP⁻¹γ),

the numerator and the denominator of the factor that modulates a Gaussian into the density of the model.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from tggm.gaussian import Moments, TruncatedGaussian
from tggm.inference import ep, exact, orthant
from tggm.inference.ep.correction import ep_with_error
from tggm.inference.exact.engine import exact_log_z, require_tractable
from tggm.precision import Diagonal

ENGINES = ("auto", "exact", "ep", "orthant")
_LOG_2PI = math.log(2 * math.pi)
_ROUNDING = 1e-12  # what `exact` promises of log Z, relative


class Estimate(NamedTuple):
    """Numbers, and how far off they may be: one standard error, or an estimate of the error's size."""

    value: Array
    error: Array


def chosen(tg: TruncatedGaussian, engine: str) -> str:
    """The engine that "auto" stands for: exact where there is an exact answer, EP elsewhere.

    Independent variables are never worth more than their closed form.
    """
    if engine not in ENGINES:
        raise ValueError(f"`engine` must be one of {ENGINES}; got {engine!r}.")
    if engine != "auto" and not isinstance(tg.precision, Diagonal):
        return engine
    try:
        require_tractable(tg)
    except ValueError:
        return "ep"
    return "exact"


def moments(tg: TruncatedGaussian, engine: str, **options: Any) -> Moments:
    """What the chosen engine finds out about each row."""
    return _ASKED[chosen(tg, engine)][0](tg, **options)


def log_z(tg: TruncatedGaussian, engine: str, **options: Any) -> Estimate:
    """Log Z of each row: rounding error for "exact", second-order terms for "ep", spread for "orthant"."""
    return _ASKED[chosen(tg, engine)][1](tg, **options)


def _exact_log_z(tg: TruncatedGaussian, **_: Any) -> Estimate:
    value = exact_log_z(tg).reshape(tg.shift.shape[:-1])
    return Estimate(value, _ROUNDING * jnp.maximum(jnp.abs(value), 1))


def _ep_log_z(tg: TruncatedGaussian, *, max_iter: int = 200, tol: float = 1e-9, **_: Any) -> Estimate:
    rows, shape = tg.rows(), tg.shift.shape[:-1]
    value, error = ep_with_error(rows, jnp.int32(max_iter), jnp.asarray(tol, rows.shift.dtype))
    return Estimate(value.reshape(shape), jnp.maximum(error, _ROUNDING).reshape(shape))


def _orthant_log_z(tg: TruncatedGaussian, **options: Any) -> Estimate:
    found = orthant(tg, **options)
    return Estimate(jnp.asarray(found.log_z), jnp.asarray(found.log_z_error))


_ASKED: dict[str, tuple[Callable[..., Moments], Callable[..., Estimate]]] = {
    "exact": (lambda tg, **_: exact(tg), _exact_log_z),  # has no options
    "ep": (ep, _ep_log_z),
    "orthant": (orthant, _orthant_log_z),
}


def log_orthant(tg: TruncatedGaussian, engine: str, **options: Any) -> Estimate:
    """Log Pr(h_k ≥ 0 for the truncated k), or of the box, for each row under N(P⁻¹γ, P⁻¹)."""
    found = log_z(tg, engine, **options)
    return Estimate(found.value - _log_volume(tg), found.error)


@jax.jit
def _log_volume(tg: TruncatedGaussian) -> Array:
    """Log Z, were nothing truncated."""
    rows = tg.rows()
    factor = tg.precision.factor(jnp.zeros_like(rows.shift))
    quadratic = (rows.shift * factor.solve(rows.shift)).sum(-1)
    value = 0.5 * (tg.size * _LOG_2PI - factor.log_det() + quadratic)
    return value.reshape(tg.shift.shape[:-1])
