"""Covariances of linear combinations z = W h of truncated Gaussian variables.

Engines report variances of single variables; models need the covariance of their outputs. Three ways:

- "exact": with f(t) = log Z(P, γ + Wᵀt), Cov[z] = ∇²f(0), where `tggm.inference.exact` knows log Z.
- "ep": W Σ Wᵀ with Σ the covariance of EP's Gaussian, walls replaced by their sites.
- "orthant": variances of the sums z_i + z_j, each entered as a free variable of known noise, and polarised.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from tggm.gaussian import TruncatedGaussian
from tggm.inference.exact.engine import exact_log_z
from tggm.inference.factors import scaled, standardised
from tggm.inference.linear import linear_moments
from tggm.inference.orthant.engine import orthant
from tggm.precision import Dense, Diagonal
from tggm.products import full_precision

ENGINES = ("exact", "ep", "orthant")


@full_precision
def covariance(tg: TruncatedGaussian, weights: Array, *, engine: str = "ep", **options: int) -> Array:
    """Covariance of W h for each row.

    Parameters
    ----------
    tg : TruncatedGaussian
        Rows that share a precision matrix.
    weights : Array, shape (n, m)
        W; the identity gives the covariance of h itself.
    engine : {"ep", "exact", "orthant"}
        "exact" is for what `tggm.inference.exact` takes.
    **options
        `n_points`, `n_shifts` and `key` of `orthant`.

    Returns
    -------
    Array, shape (rows, n, n)
    """
    if engine not in ENGINES:
        raise ValueError(f"`engine` must be one of {ENGINES}; got {engine!r}.")
    rows = tg.rows()
    found: Array
    if engine == "orthant":
        found = _polarised(rows, weights, **options)
    elif engine == "ep":
        found = _of_sites(rows, weights)
    elif isinstance(rows.precision, Diagonal):
        found = _independent(rows, weights)
    else:
        found = _curvature(rows, weights)
    return found


@jax.jit
def _curvature(tg: TruncatedGaussian, W: Array) -> Array:
    def row(shift: Array) -> Array:
        def f(t: Array) -> Array:
            return exact_log_z(tg.with_shift((shift + t @ W)[None, :]))[0]

        hessian: Array = jax.jacfwd(jax.grad(f))(jnp.zeros(W.shape[0], W.dtype))
        return hessian

    out: Array = jax.lax.map(row, tg.shift)
    return out


@jax.jit
def _independent(tg: TruncatedGaussian, W: Array) -> Array:
    d = tg.precision.diagonal()[None, :]
    omega2 = standardised(tg.shift / jnp.sqrt(d), scaled(tg.walls(), jnp.sqrt(d)))[1]
    return jnp.einsum("ik,bk,jk->bij", W, omega2 / d, W)


@jax.jit
def _of_sites(tg: TruncatedGaussian, W: Array) -> Array:
    return linear_moments(tg, W, engine="ep")[1]


def _polarised(tg: TruncatedGaussian, W: Array, **options: int) -> Array:
    """Cov[z_i, z_j] = (Var[z_i + z_j] − Var[z_i] − Var[z_j]) / 2, all from one set of points."""
    i, j = np.tril_indices(W.shape[0])
    C = jnp.where((i == j)[:, None], W[i], W[i] + W[j])
    m, k = tg.size, len(i)
    P = tg.precision.dense()
    s = (C @ jnp.linalg.inv(P) * C).sum(1)  # noise as large as what it is added to: well conditioned
    U = C / jnp.sqrt(s)[:, None]
    top = jnp.concatenate([P + U.T @ U, -U.T / jnp.sqrt(s)[None, :]], 1)
    low = jnp.concatenate([-U / jnp.sqrt(s)[:, None], jnp.diag(1 / s)], 1)
    shift = jnp.pad(tg.shift, ((0, 0), (0, k)))
    P_joint = Dense(jnp.concatenate([top, low]))
    if tg.limits is None:
        joint = TruncatedGaussian(P_joint, shift, jnp.concatenate([tg.truncated, jnp.zeros(k, bool)]))
    else:
        free = [(0, 0)] * (tg.limits.lower.ndim - 1) + [(0, k)]
        lower = jnp.pad(tg.limits.lower, free, constant_values=-jnp.inf)
        joint = TruncatedGaussian(
            P_joint, shift, lower, jnp.pad(tg.limits.upper, free, constant_values=jnp.inf)
        )
    var = orthant(joint, **options).var[:, m:] - s[None, :]
    out = jnp.zeros((len(tg), W.shape[0], W.shape[0]), var.dtype).at[:, i, j].set(var).at[:, j, i].set(var)
    single = jnp.diagonal(out, axis1=1, axis2=2)
    crossed = (out - single[:, :, None] - single[:, None, :]) / 2
    return jnp.where(jnp.eye(W.shape[0], dtype=bool)[None], out, crossed)
