"""Means of h and covariances of W h for the last units of a truncated Gaussian.

Mean field gives means m; covariances are its linear response, ∂m/∂γ = (diag(1/v) + P̃)⁻¹, which includes
correlations that a factorised q does not have. EP uses the covariance of its Gaussian.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jax import Array, lax

from tggm import settings as check
from tggm.gaussian import TruncatedGaussian
from tggm.inference._common import map_blocks
from tggm.inference._ep import gaussian_sites, site_tolerance
from tggm.inference._mean_field import Point, newton, point_at, solve
from tggm.runtime import full_precision

BLOCK = 512  # rows computed at once: EP holds several matrices per row
NEWTON_STEPS = 50
SWEEPS = 200


@full_precision
def linear_moments(
    tg: TruncatedGaussian, W: Array, *, engine: str, start: Array | None = None
) -> tuple[Array, Array]:
    """Return the means of the last units and the covariance of W times them, for each row.

    W (n, m) acts on the last m units; `start` holds means for mean field. Shapes (rows, m) and (rows, n, n).
    """
    check.one_of("engine", engine, ("ep", "mean_field"))

    def block(part: tuple[Array, Array | None]) -> tuple[Array, Array]:
        rows = tg.with_shift(part[0])
        if engine == "ep":
            sites = gaussian_sites(rows, jnp.int32(SWEEPS), site_tolerance(rows.shift.dtype))
            inverse = rows.precision.factor(sites.precision).solve
            means = inverse(rows.shift + sites.shift)
        else:
            q = _factors(rows, part[1])
            means, inverse = q.mean, partial(solve, rows, _curvature(rows, q))

        def column(w: Array) -> Array:
            r = jnp.pad(w, (rows.size - len(w), 0))
            return inverse(jnp.broadcast_to(r[None, :], rows.shift.shape))

        return _last_units(means, W), jnp.einsum("ik,jbk->bij", W, _last_units(jax.vmap(column)(W), W))

    return map_blocks(block, (tg.shift, start), BLOCK)


@full_precision
def linear_mean(tg: TruncatedGaussian, W: Array, start: Array | None = None) -> Array:
    r"""Return W E[h] of the last units by mean field, shape (rows, n), differentiable in all arguments.

    At the solution m of r(m) = θ(m) + P̃m − γ = 0 a Newton step −H⁻¹ r is zero. Its derivative by the
    parameters, with m and H held fixed, is that of m. (θ(m) depends on them through P_kk.)
    """
    held = jax.tree.map(lax.stop_gradient, tg)
    q = lax.stop_gradient(_factors(held, start))
    extra = _curvature(held, q)
    scale = held.precision.diagonal()[None, :] / q.omega2  # 1/v
    residual = tg.precision.off_diagonal(q.mean) - tg.shift - point_at(tg, q.theta).mean * scale
    step = lax.custom_linear_solve(
        lambda x: held.precision.off_diagonal(x) + scale * x,
        residual - lax.stop_gradient(residual),
        lambda _, r: solve(held, extra, r),
        symmetric=True,
    )
    mean: Array = _last_units(q.mean - step, W)
    return mean @ W.T


def _last_units(v: Array, W: Array) -> Array:
    return v[..., v.shape[-1] - W.shape[1] :]


def _factors(tg: TruncatedGaussian, start: Array | None) -> Point:
    means = point_at(tg, tg.shift).mean if start is None else lax.stop_gradient(start)
    return newton(tg, tg.shift - tg.precision.off_diagonal(means), jnp.int32(NEWTON_STEPS)).point


def _curvature(tg: TruncatedGaussian, q: Point) -> Array:
    """Return 1/v − P_kk, the diagonal that the Hessian adds to P."""
    return tg.precision.diagonal()[None, :] * (1 / q.omega2 - 1)
