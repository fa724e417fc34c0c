r"""Box probabilities and points in a box by quasi-Monte Carlo, with error estimates.

Computations are in logs and in float64: probabilities such as e⁻⁵⁰⁰ need no more time and have no larger
relative errors than others. The cost is O(points · m²) and O(m³) per row; m is up to a few hundred. `orthant`
is for rows that share a precision, `weighted_points` and `candidates` for a `MultivariateTruncatedNormal`.

**Separation of variables.**
With h = μ + L z, L the Cholesky factor of the covariance, the limits of h bound each z_k given the earlier
ones, so the probability is a nested integral of univariate normals. With each z_k drawn from its truncated
normal, it is the mean over the unit cube of a product of univariate probabilities. Free variables come last,
where they integrate to one.

**Minimax exponential tilting** draws z_k from N(μ_k, 1) instead, truncated to the same interval, with weight
exp ψ,

    ψ(z; μ) = Σ_k ½ μ_k² − μ_k z_k + log(Φ(u_k + t_k) − Φ(l_k + t_k)),      t = −L̃z − μ,

where L̃ is strictly lower triangular (the Cholesky factor with rows divided by its diagonal, minus I). Botev
(2017) takes the μ of the saddle point min_μ max_z ψ. Both z and μ can be eliminated. With θ = −t, h the mean
of N(θ, 1) in [l, u] and V its variance, r = h − θ, U = I + L̃ and Q = (UUᵀ)⁻¹, the saddle point is

    θ + (Q − I) h = Q (θ + r) − r = 0,

the minimum of a strictly convex function of h with Hessian diag(1/V − 1) + Q: mean field with unit precisions
and couplings Q − I. The same bounded Newton steps solve it. μ = L̃ᵀ r and z = μ + r.

The points are those of shifted lattices (`_lattice`).

A. Genz, Numerical computation of multivariate normal probabilities, J. Comp. Graph. Stat. 1 (1992); Z. I.
Botev, The normal law under linear restrictions: simulation and estimation via minimax tilting, JRSS B 79
(2017).
"""

import math
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.lax.linalg import cholesky, triangular_solve
from jax.scipy.special import logsumexp
from scipy.special import stdtrit

from tggm import settings as check
from tggm.arrays import Floats
from tggm.gaussian import Limits, Moments, TruncatedGaussian
from tggm.inference._common import full_limits, restore, warn_unconverged
from tggm.inference._lattice import EPS, generator, next_prime, tent_points
from tggm.inference._mean_field import bounded_step
from tggm.precision.protocol import is_concrete
from tggm.runtime import full_precision
from tggm.special import log_ndtr, truncated_mean
from tggm.special.box_kernels import BoxMoments, box_moments
from tggm.special.quantile import survival_quantile
from tggm.special.truncated import log_mass

_MAX_POINTS = 2**17  # per shift
_USABLE = 5e-2  # error of log Z that counts as converged when no `tol` is given
_LEAST_EFFECTIVE = 100  # number of points, effectively, below which errors are unknown: infinite
_TINY = 1e-300
_TILTED = 1e-6  # error of the tilt, in standard deviations, at which Newton's method ends
_ACCEPTED = 1e-3  # largest such error of a tilt that is used: estimates are unbiased for any tilt
_EPS_SINGLE = 2.0**-24
_LAST = 1e300  # score of a free variable
MAX_ITER = 50
PORTION = 512  # points of each shift that are computed together
# Within these limits float32 keeps the error of a probability below 1e-5.
_FAR, _STEEP, _NARROW = 32.0, 8.0, 0.1


def orthant(
    tg: TruncatedGaussian, *, n_points: int = 1000, n_shifts: int = 8, key: Array | int = 0,
    tol: float | None = None,
) -> Moments:  # fmt: skip
    r"""Estimate log Z with its standard error, and means and variances from the same weighted points.

    .. math::
        \log Z = \tfrac m2 \log 2\pi - \tfrac12 \log\det P + \tfrac12 \gamma^T P^{-1} \gamma
                 + \log \Pr(l_k \le h_k \le u_k), \qquad h \sim N(P^{-1}\gamma, P^{-1}).

    Free variables are integrated out exactly. All rows use the same points, so differences between rows have
    smaller errors.

    Parameters
    ----------
    tg : TruncatedGaussian
        Rows that share a precision matrix.
    n_points : int
        Lattice points per random shift; rounded up to a prime.
    n_shifts : int
        Independent random shifts, at least 2: their spread gives the error estimate.
    key : Array or int
        Random key, or a seed.
    tol : float, optional
        Double `n_points` until the error of log Z is below `tol` on every row.

    Returns
    -------
    Moments
        With kind "estimate", and 99.9 % bounds `log_z_error` and `mean_error` from the spread over shifts and
        rounding; infinite if few points carry the weight. A row has converged when the error of log Z is
        below `tol` (0.05 if not given); `n_iter` counts points.
    """
    check.count("n_points", n_points)
    check.count("n_shifts", n_shifts, least=2)
    if tol is not None:
        check.number("tol", tol, above=0)
    if not is_concrete(*jax.tree.leaves(tg)) and jnp.result_type(float) != jnp.float64:
        raise ValueError(
            "orthant needs float64, which cannot be enabled inside a program traced in 32 bits. "
            "Call it outside of jit, or call the jitted function inside `with jax.enable_x64(True):`."
        )
    largest = _USABLE if tol is None else tol
    with jax.enable_x64(True):
        random = jax.random.key(key) if isinstance(key, int) else key
        while True:
            n = next_prime(n_points)
            result: Moments = _rows(tg, generator(n, tg.size), random, largest, n, n_shifts)
            if tol is None or bool(result.converged.all()) or 2 * n_points > _MAX_POINTS:
                break
            n_points *= 2
    limit = "" if tol is None else f" with the largest number of points ({_MAX_POINTS} per shift)"
    warn_unconverged(
        result, f"orthant: the error of log Z is above {largest:g} on {{}} of {len(tg.rows())} rows"
        f"{limit}; raise `n_points` or `n_shifts`, or use ep."
    )  # fmt: skip
    return result


class SeparatedBox(NamedTuple):
    """A box with its variables in the order of integration, relative to one finite limit of each.

    The width of a narrow box is then not rounded.
    """

    U: Array  # (m, m) Cholesky factor of the covariance, rows divided by its diagonal
    scale: Array  # (m,) that diagonal
    mean: Array  # (m,) divided by scale
    limits: Limits  # (m,) of (U z)_k
    tilt: Array  # (m,) mean of the normal that z_k is drawn from
    peak: Array  # logarithm of the largest weight a point can have; infinite if no tilt was found
    truncated: Array  # (m,) bool
    order: Array  # (m,) index of the variable
    anchor: Array  # (m,) the limits, in the variables' own order and units


class _Tilt(NamedTuple):
    theta: Array  # (m,)
    scale: Array  # length of the next step, as a fraction of a Newton step
    residual: Array  # largest error of an equation, relative to the standard deviation of its variable
    n_iter: Array


@partial(jax.jit, static_argnames=("n", "n_shifts"))
def _rows(given: TruncatedGaussian, z: Array, key: Array, tol: Array, n: int, n_shifts: int) -> Moments:
    """Run one compiled program: for small problems the overhead of several would dominate."""
    tg = jax.tree.map(lambda a: a if a.dtype == bool else a.astype(jnp.float64), given.rows())
    m = tg.size
    L = cholesky(tg.precision.dense())
    root = triangular_solve(L, jnp.eye(m, dtype=L.dtype), left_side=True, lower=True)
    covariance = root.T @ root
    whitened = tg.shift @ root.T
    log_volume = m * math.log(2 * math.pi) / 2 - jnp.log(jnp.diagonal(L)).sum() + (whitened**2).sum(-1) / 2

    rows_at_once, shifts_at_once = _portions(len(tg), n_shifts, n * m)
    shifts = jax.random.uniform(key, (n_shifts // shifts_at_once, shifts_at_once, m), dtype=L.dtype)
    log_u = jnp.log(jax.vmap(partial(tent_points, z, n))(shifts))

    def row(given: tuple[Array, Limits]) -> tuple[Array, ...]:
        average = partial(_average, separate(covariance, *given), tg.precision.dense(), shifts_at_once)
        return _pool(*(a.reshape(n_shifts, *a.shape[2:]) for a in lax.map(average, log_u)))

    centre = whitened @ root
    log_p, error, mean, var, off = lax.map(row, (centre, full_limits(tg)), batch_size=rows_at_once)
    points = jnp.full(len(tg), n * n_shifts, jnp.int32)
    log_z = log_volume + log_p
    size = jnp.abs(centre) @ jnp.abs(tg.precision.dense())  # |P| |Σ γ|, of which log_volume is a difference
    error = error + EPS * (16 * jnp.abs(log_z) + 8 * (size * jnp.abs(centre)).sum(-1))
    found = Moments(mean, var, log_z, error <= tol, points, "estimate", error, off)
    found = restore(found, given)
    dtype = given.shift.dtype
    same: Moments = jax.tree.map(lambda a: a.astype(dtype) if a.dtype == jnp.float64 else a, found)
    return same


def _average(box: SeparatedBox, P: Array, n_sets: int, log_u: Array) -> tuple[Array, ...]:
    """Return results of each set of points u, given log u, (m, n_sets * n).

    They are log probability, means, variances, effective number of points, and the effects of rounding.
    """
    log_w, h = conditional_draws(box, log_u)
    log_w, h = log_w.reshape(n_sets, -1), h.reshape(h.shape[0], n_sets, -1)
    top = log_w.max(-1, keepdims=True)
    w = jnp.exp(log_w - top)
    log_p = top[:, 0] + jnp.log(w.mean(-1))
    w = w / w.sum(-1, keepdims=True)
    mean = jnp.einsum("msn,sn->sm", h, w)
    of_free = jnp.where(box.truncated[None, :], 0, box.U**2).sum(1)  # given the truncated variables
    var = jnp.einsum("msn,sn->sm", (h - mean.T[:, :, None]) ** 2, w) + of_free[None, :]
    back, scale = jnp.argsort(box.order), box.scale[None, :]
    off, sd = ((h - box.mean[:, None, None]) * box.scale[:, None, None])[back], (box.U**2).sum(1) ** 0.5
    rounded = [rounding_error(P, (sd * box.scale)[back], w[k], off[:, k]) for k in range(n_sets)]
    moments = (mean * scale)[:, back] + box.anchor[None, :], (var * scale * scale)[:, back]
    return log_p, *moments, 1 / (w**2).sum(-1), jnp.stack([jnp.stack(pair) for pair in rounded])


def rounding_error(P: Any, sd: Any, w: Any, off: Any) -> tuple[Any, Any]:
    """Estimate the effect of relative rounding errors of the covariance, for NumPy or JAX.

    On log Pr it is ½ tr(dΣ (E[vvᵀ] − P)), v = P (h − μ), and on a mean, in standard deviations, it is bounded
    by the spread of vᵀ dΣ v / 2. `w` are weights of points with sum one, `off` their h − μ, (m, n).
    """
    v = P @ off
    first = (v * w[None, :]).sum(1)
    spread = ((v - first[:, None]) ** 2 * w[None, :]).sum(1) ** 0.5
    second = abs((v * w[None, :]) @ v.T - P)
    slope, width = sd @ abs(first), sd @ spread
    eps = 16 * EPS
    return eps * (len(P) + sd @ second @ sd), eps * (1 + (slope + width) * width)


def shift_bound(n_shifts: int) -> float:
    """Return the 99.9 % bound of Student's law, in standard errors from that many shifts."""
    return float(stdtrit(n_shifts - 1, 0.9995))


def log_bound(relative: Any, xp: Any = jnp) -> Any:
    """Return the bound of a logarithm for a bound of the relative error: infinite from 1 on."""
    return xp.where(relative < 1, -xp.log1p(-xp.minimum(relative, 1 - EPS)), xp.inf)


def _pool(log_p: Array, mean: Array, var: Array, effective: Array, rounded: Array) -> tuple[Array, ...]:
    """Average over shifts; return log probability, its error, mean, variance, and the error of the mean."""
    n_shifts = log_p.shape[0]
    top = log_p.max()
    p = jnp.exp(log_p - top)
    bound = shift_bound(n_shifts)
    error = bound * p.std(ddof=1) / p.mean() / math.sqrt(n_shifts)
    w = p / p.sum()
    pooled = w @ mean
    off = mean - pooled[None, :]
    var = w @ (var + off**2)
    enough = 1 / (w**2 / effective).sum() >= _LEAST_EFFECTIVE
    of_mean = bound * jnp.sqrt(((w[:, None] * off) ** 2).sum(0) * n_shifts / (n_shifts - 1))
    of_mean = of_mean + jnp.sqrt(var) * rounded[:, 1].max() + 8 * EPS * jnp.abs(pooled)
    errors = [jnp.where(enough, x, jnp.inf) for x in (log_bound(error) + rounded[:, 0].max(), of_mean)]
    return top + jnp.log(p.mean()), errors[0], pooled, var, errors[1]


def _portions(n_rows: int, n_shifts: int, size: int) -> tuple[int | None, int]:
    """Choose how many rows and shifts fit into a CPU's caches or a GPU's memory."""
    on_cpu = jax.default_backend() == "cpu"
    budget = 2**18 if on_cpu else 2**27
    fitting = [k for k in range(1, n_shifts + 1) if n_shifts % k == 0 and k * size <= budget]
    shifts_at_once = max(fitting, default=1)
    rows_at_once = None if on_cpu else min(n_rows, max(1, budget // (n_shifts * size)))
    return rows_at_once, shifts_at_once


def separate(covariance: Array, mean: Array, limits: Limits) -> SeparatedBox:
    """Order the variables, factorise, and find the tilt; shapes (m, m), (m,), (m,)."""
    finite = limits.map(jnp.isfinite)
    anchor = lax.stop_gradient(jnp.where(finite.lower, limits.lower, limits.upper))
    anchor = jnp.where(finite.lower | finite.upper, anchor, 0)
    limits, mean = limits.map(lambda a: a - anchor), mean - anchor
    L, order = ordered_cholesky(covariance, mean, limits)
    scale = jnp.diagonal(L)
    U, mean = L / scale[:, None], mean[order] / scale
    finite, limits = (both.map(lambda a: a[order]) for both in (finite, limits))
    # infinite limits have no derivative by the scale
    limits = Limits(
        *(jnp.where(f, jnp.where(f, a, 0) / scale, a) for f, a in zip(finite, limits, strict=True))
    )
    tilt, peak = minimax_tilt(U, mean, limits)
    truncated = finite.lower | finite.upper
    return SeparatedBox(U, scale, mean, limits, tilt, peak, truncated, order, anchor)


def ordered_cholesky(covariance: Array, mean: Array, limits: Limits) -> tuple[Array, Array]:
    """Return L with L Lᵀ = Σ[order][:, order], and the order of integration, (m,) indices of variables.

    At each step the variable with the smallest probability to be in its interval, given that the earlier ones
    are at their truncated means, is taken next (Gibson, Glasbey and Elston, 1994): the first integrals then
    carry most of the variation. Free variables come last.
    """
    m = covariance.shape[0]
    free = ~(jnp.isfinite(limits.lower) | jnp.isfinite(limits.upper))
    fixed = lax.stop_gradient(limits)

    def step(k: Array, state: tuple[Array, ...]) -> tuple[Array, ...]:
        columns, order, left, var, drift = state
        root = jnp.sqrt(var)
        _, sides = box_moments(*lax.stop_gradient((drift, root)), *fixed)
        score = jnp.where(free, _LAST, sides.log_mass)
        p = jnp.argmin(jnp.where(left, score, jnp.inf)).astype(jnp.int32)
        column = covariance[p] - columns[:, p] @ columns
        column = jnp.where(left, column, 0) / root[p]
        expected = sides.mean[p]
        var, drift = jnp.maximum(var - column * column, _TINY), drift + expected * column
        return columns.at[k].set(column), order.at[k].set(p), left.at[p].set(False), var, drift

    first = jnp.zeros_like(covariance), jnp.zeros(m, jnp.int32), jnp.ones(m, bool)
    columns, order, *_ = lax.fori_loop(0, m, step, (*first, jnp.diagonal(covariance), mean))
    return columns.T[order], order


def minimax_tilt(U: Array, mean: Array, limits: Limits) -> tuple[Array, Array]:
    """Return the tilt μ of the saddle point, shape (m,), and ψ there, the largest value that any point has.

    If Newton's method does not reach the saddle point, μ is zero, which is always valid, and ψ infinite.
    """
    eye, ones = jnp.eye(U.shape[0], dtype=U.dtype), jnp.ones_like(mean)

    def equations(theta: Array, r: Array, U: Array) -> Array:
        root = triangular_solve(U, eye, left_side=True, lower=True, unit_diagonal=True)
        return root.T @ (root @ (theta + r)) - r

    fixed = lax.stop_gradient((U, mean, limits))

    def evaluate(theta: Array) -> tuple[BoxMoments, Array]:
        _, s = box_moments(fixed[1] + theta, ones, *fixed[2])
        return s, equations(theta, s.mean, fixed[0])

    def solve(s: BoxMoments, F: Array) -> Array:
        root = triangular_solve(fixed[0], jnp.diag(jnp.sqrt(s.var)), left_side=True, lower=True)
        G = cholesky(jnp.diag(1 - jnp.minimum(s.var, 1)) + root.T @ root)
        w = triangular_solve(G, -(jnp.sqrt(s.var) * F)[:, None], left_side=True, lower=True)
        return jnp.sqrt(s.var) * triangular_solve(G, w, left_side=True, lower=True, transpose_a=True)[:, 0]

    def unfinished(state: _Tilt) -> Array:
        return (state.residual > _TILTED) & (state.n_iter < MAX_ITER)

    def step(state: _Tilt) -> _Tilt:
        s, F = evaluate(state.theta)
        delta = state.scale * solve(s, F)
        move = bounded_step(delta, s.var, jnp.zeros_like(delta), ones, Limits(-s.low, s.high))
        s_new, F_new = evaluate(state.theta + move)
        path = move + s_new.mean - s.mean
        slope, new_slope = F @ path, F_new @ path
        good = new_slope <= -0.5 * slope  # false for NaN
        shrink = jnp.clip(-slope / (new_slope - slope), 0.1, 0.5)
        scale = jnp.where(good, jnp.minimum(1, 2 * state.scale), state.scale * shrink)
        residual = jnp.where(good, jnp.abs(F_new * jnp.sqrt(s_new.var)).max(), state.residual)
        return _Tilt(jnp.where(good, state.theta + move, state.theta), scale, residual, state.n_iter + 1)

    start = _Tilt(jnp.zeros_like(mean), ones[0], jnp.inf * ones[0], jnp.int32(0))
    end = lax.while_loop(unfinished, step, lax.stop_gradient(start))
    reached, (s, _) = end.residual <= _ACCEPTED, evaluate(end.theta)
    # the derivative of the solution is that of one more Newton step
    r = _excess(mean, limits, end.theta, s.mean)
    F = equations(end.theta, r, U)
    theta = end.theta + solve(s, F - lax.stop_gradient(F)) / s.var
    r = _excess(mean, limits, theta, s.mean)
    tilt = jnp.where(reached, U.T @ r - r, 0)
    peak = s.log_mass.sum() - (tilt * (tilt / 2 + s.mean)).sum()
    slack = 2 * _ACCEPTED**2 + 1e-14 * (tilt * tilt + jnp.abs(tilt * s.mean)).sum()
    return tilt, jnp.where(reached, peak + slack, jnp.inf)


def _excess(mean: Array, limits: Limits, theta: Array, value: Array) -> Array:
    """Return `value` with the derivatives of r, the mean in the box less the mean without it."""
    centre = mean + theta
    r = truncated_mean(centre, jnp.ones_like(centre), *limits) - centre
    return value + (r - lax.stop_gradient(r))


def conditional_draws(box: SeparatedBox, log_u: Array, total: Any = None) -> tuple[Array, Array]:
    """Return log weights (n,) and values / scale (m, n) of points u (m, n); for free variables, the means.

    Computes in the dtype of `log_u`, and sums log weights in the dtype `total`, by default the same.
    """
    m = log_u.shape[0]
    below = box.U - jnp.eye(m, dtype=log_u.dtype)

    def variable(state: Any, given: Any) -> tuple[Any, Array]:
        Z, log_w, k = state
        row, mean, lower, upper, tilt, truncated, log_u_k = given
        drift = mean + row @ Z
        centre = drift + tilt
        inside = log_mass(*jnp.broadcast_arrays(centre, lower, upper))
        low, high = lower - centre, upper - centre
        z = jnp.where(truncated, _interval_quantile(low, high, inside, log_u_k) + tilt, 0)
        log_w = log_w + jnp.where(truncated, inside + tilt * (tilt / 2 - z), 0).astype(log_w.dtype)
        return (lax.dynamic_update_index_in_dim(Z, z, k, 0), log_w, k + 1), drift + z

    start = (jnp.zeros_like(log_u), jnp.zeros_like(log_u[0], dtype=total), jnp.int32(0))
    given = (below, box.mean, *box.limits, box.tilt, box.truncated, log_u)
    (_, log_w, _), h = lax.scan(variable, start, given)
    return log_w, h


@jax.custom_jvp
def _interval_quantile(low: Array, high: Array, inside: Array, log_u: Array) -> Array:
    """Return the quantile of a standard normal in [low, high], to the rounding error of the larger limit.

    The box is mirrored so that a is the limit nearer to zero; the quantile is exceeded with probability Φ(−a)
    minus u times the mass. (`truncated_quantile` is accurate in narrow boxes, too, but slower; weights do not
    need it.)
    """
    flipped = -low > high
    a = jnp.where(flipped, -high, low)
    u = jnp.exp(log_u)
    log_tail = log_ndtr(-a)
    share = jnp.where(flipped, 1 - u, u) * jnp.exp(jnp.minimum(inside - log_tail, 0))
    x = survival_quantile(-(log_tail + jnp.log1p(-jnp.minimum(share, 1 - EPS))))
    return jnp.clip(jnp.where(flipped, -x, x), low, high)


@_interval_quantile.defjvp
def _(primals: tuple[Array, ...], tangents: tuple[Array, ...]) -> tuple[Array, Array]:
    low, high, u, z = *primals[:2], jnp.exp(primals[3]), _interval_quantile(*primals)
    parts = ((1 - u, low, tangents[0]), (u, high, tangents[1]))  # φ(z) dz = (1 − u) φ(l) dl + u φ(h) dh
    change = [share * jnp.exp(jnp.minimum((z - a) * (z + a) / 2, 600)) * da for share, a, da in parts]
    return z, change[0] + change[1]


@partial(jax.jit, static_argnames=("n", "n_shifts"))
@full_precision
def log_probabilities(
    covariance: Array, mean: Array, limits: Limits, z: Array, key: Array, n: int, n_shifts: int
) -> tuple[Array, Array]:
    """Return log probabilities of boxes, (rows,), differentiable, and their 99.9 % bounds of error.

    Shapes are (rows, m, m) and (rows, m). Tilts and points are differentiated, too, so that derivatives are
    those of the estimate itself.
    """
    m = mean.shape[1]
    log_u = jnp.log(tent_points(z, n, jax.random.uniform(key, (n_shifts, m), dtype=mean.dtype)))
    sets = jnp.moveaxis(log_u.reshape(m, n_shifts, n), 1, 0)

    @jax.checkpoint
    def row(given: tuple[Array, Array, Limits]) -> tuple[Array, Array]:
        box = separate(*given)
        log_w, h = lax.map(jax.checkpoint(lambda log_u: conditional_draws(box, log_u)), sets)
        log_p = logsumexp(log_w, axis=1) - math.log(n)
        weights = jnp.exp(log_w - logsumexp(log_w, axis=1, keepdims=True))
        off, back = (h - box.mean[None, :, None]) * box.scale[None, :, None], jnp.argsort(box.order)
        P = jnp.linalg.inv(given[0])
        sd = jnp.sqrt(jnp.diagonal(given[0]))
        rounded = [rounding_error(P, sd, weights[k], off[k][back]) for k in range(n_shifts)]
        empty = jnp.zeros((n_shifts, m), mean.dtype)
        effective = 1 / (weights**2).sum(1)
        both = jnp.stack([jnp.stack(pair) for pair in rounded])
        error = _pool(*lax.stop_gradient((log_p, empty, empty, effective, both)))[1]
        value = logsumexp(log_p) - math.log(n_shifts)
        return value, error + 16 * EPS * jnp.abs(lax.stop_gradient(value))

    found: tuple[Array, Array] = lax.map(row, (covariance, mean, limits))
    return found


class Points(NamedTuple):
    """Weighted points of several random shifts, n points each."""

    log_w: Floats  # (sets, n); the mean of w over a set estimates the probability
    h: Floats  # (sets, n, m)


def weighted_points(
    covariance: Array, mean: Array, limits: Limits, *, n_points: int, n_shifts: int, seed: int,
    single: bool = False,
) -> Points:  # fmt: skip
    """Return weighted points of the box in float64; call inside ``jax.enable_x64(True)``.

    Points are computed in portions, so that one program serves any number of points and its arrays stay in
    the cache. `single` allows float32, three times as fast, where limits and tilt are of moderate size.
    """
    n, m = next_prime(n_points), len(mean)
    shifts, noise = jax.random.split(jax.random.key(seed))
    z, shift = jnp.asarray(generator(n, m)), jax.random.uniform(shifts, (n_shifts, m), dtype=mean.dtype)
    box = jax.jit(separate)(covariance, mean, limits)
    if single and bool(_fits_float32(box)):
        box = jax.tree.map(lambda a: a.astype(jnp.float32) if a.dtype == jnp.float64 else a, box)
    portions = [
        _portion(box, limits, z, shift, jax.random.fold_in(noise, first), float(first))
        for first in range(0, n, PORTION)
    ]
    log_w, h = (np.concatenate(parts, axis=1)[:, :n] for parts in zip(*portions, strict=True))
    return Points(log_w, h)


@jax.jit
def _fits_float32(box: SeparatedBox) -> Array:
    """Return whether float32 is accurate enough: no far limits, narrow boxes or near singularities."""
    ends = jnp.concatenate([jnp.where(jnp.isfinite(a), jnp.abs(a), 0) for a in (*box.limits, box.mean)])
    steep = jnp.maximum(jnp.abs(box.U).max(), jnp.abs(box.tilt).max())
    width = (box.limits.upper - box.limits.lower).min()
    return (ends.max() <= _FAR) & (steep <= _STEEP) & (width >= _NARROW)


@jax.jit
@full_precision
def _portion(
    box: SeparatedBox, limits: Limits, z: Array, shift: Array, noise: Array, first: float
) -> tuple[Array, Array]:
    """Compute some points of every shift of the lattice: weights (shifts, n) and places (shifts, n, m)."""
    n_shifts, m = shift.shape
    u = tent_points(z, PORTION, shift, first).astype(box.U.dtype)
    least = _EPS_SINGLE if u.dtype == jnp.float32 else EPS
    log_w, h = conditional_draws(box, jnp.log(jnp.clip(u, least, 1 - least)), z.dtype)
    h = _reorder(box, limits, h.astype(z.dtype), noise)
    return log_w.reshape(n_shifts, PORTION), h.reshape(m, n_shifts, PORTION).transpose(1, 2, 0)


def _reorder(box: SeparatedBox, limits: Limits, h: Array, noise: Array) -> Array:
    """Return values in the order and units of the variables, and inside the box."""

    def complete(h: Array) -> Array:
        free = ~box.truncated[:, None]
        z = jnp.where(free, jax.random.normal(noise, h.shape, h.dtype), 0)
        return h + jnp.where(free, box.U.astype(z.dtype) @ z, 0)

    h = lax.cond(box.truncated.all(), lambda h: h, complete, h)  # `h` has the means of free variables
    h = (h * box.scale[:, None].astype(h.dtype))[jnp.argsort(box.order)] + box.anchor[:, None]
    return jnp.clip(h, limits.lower[:, None], limits.upper[:, None])


@partial(jax.jit, static_argnames="n")
def candidates(covariance: Array, mean: Array, limits: Limits, key: Array, n: int) -> tuple[Array, Array]:
    """Propose n points, (n, m), from the tilted normal; return them and whether each is accepted.

    A point is accepted with the probability weight / largest weight (Botev, 2017); without a bound, never.
    """
    points, noise, coin = jax.random.split(key, 3)
    u = jax.random.uniform(points, (mean.shape[0], n), dtype=mean.dtype, minval=EPS)
    box = separate(covariance, mean, limits)
    log_w, h = conditional_draws(box, jnp.log(u))
    chance = jnp.log(jax.random.uniform(coin, (n,), dtype=mean.dtype, minval=EPS))
    h = _reorder(box, limits, h, noise)
    return h.T, chance <= log_w - box.peak
