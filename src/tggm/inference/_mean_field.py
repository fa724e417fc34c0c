"""Mean-field inference for truncated Gaussians.

Approximates p(h) ∝ exp(−½ hᵀPh + γᵀh) in its box by q = Π N_T(θ_k/P_kk, 1/P_kk), which minimises KL(q ‖ p).
With m and v the means and variances of q and P̃ = P − diag P, this is the minimum of

    f(m) = Σ A_k*(m_k) + ½ mᵀP̃m − γᵀm − T(m),    gradient r = θ + P̃m − γ − T',
    Hessian diag(1/v) + P̃ − T″,

where T is zero, or the term of a row's class, with P − T″ positive definite. f is strictly convex, because
v_k ≤ 1/P_kk, so that diag(1/v) + P̃ adds a nonnegative diagonal to P. −f is a lower bound on log Z, exact
when P is diagonal, and loose when P has strong off-diagonals: see docs/choosing-an-engine.md.

A Newton step solves H δm = −r and moves θ by δm / v. The squared Newton decrement −rᵀδm is twice the number
of nats that the bound can still gain; the iteration stops when it is small. A step is accepted when the
derivative of f along the step falls to a tenth of its size, or when f itself decreases by a fraction of the
decrement. After a rejected step the row tries a shorter one; the length doubles after every success.

Problems in float64 are solved in float32 first: a double-precision step costs three times as much.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.tree_util import Partial
from jax.typing import ArrayLike

from tggm import settings as check
from tggm.gaussian import Limits, Moments, TruncatedGaussian, Walls
from tggm.inference import _gpu_kernel
from tggm.inference._common import (
    STEP_TOLERANCE,
    conjugate_gradient,
    log_normaliser,
    map_blocks,
    restore,
    unit_moments,
    warn_unconverged,
)
from tggm.precision import Dense, Diagonal, LowRank, Precision, rounding
from tggm.runtime import full_precision

SOLVERS = ("newton", "cyclic")
FACTOR_UP_TO = 64  # variables; for more, conjugate gradients are faster than one factorisation per row
# Squared residual at which conjugate gradients may stop, by bytes per number. In double precision inexact
# steps are slower in total on difficult problems.
ENOUGH = {4: 1e-8, 8: None}
BLOCK = 2**14  # variables times rows of a block: its arrays fit the cache of one core
SINGLE_STEPS = 20  # largest number of float32 steps before a float64 problem continues in float64
UNROLL = 8  # coordinate updates compiled together on a GPU


def mean_field(
    tg: TruncatedGaussian, *, solver: str = "newton", max_iter: int = 100, n_cycles: int = 10,
    start: ArrayLike | None = None,
) -> Moments:  # fmt: skip
    r"""Compute means, variances and a lower bound on log Z under the best factorised approximation.

    .. math::
        \log Z \ge \sum_k A_k(\theta_k) + (\gamma - \theta)^T m - \tfrac12 m^T \tilde P m,

    with m the means of q and A_k the univariate log-normalisers; at the optimum θ = γ − P̃m.

    Parameters
    ----------
    tg : TruncatedGaussian
        Rows that share a precision matrix.
    solver : {"newton", "cyclic"}
        Newton's method to convergence, or the paper's Algorithm 1 for `n_cycles` cycles.
    max_iter : int
        Largest number of Newton steps, rejected ones included; float64 problems may add 20 steps in float32.
    n_cycles : int
        Cycles of the cyclic solver.
    start : array_like, shape of the shift, optional
        Means to start from, within the limits; for example an earlier result for the same rows.

    Returns
    -------
    Moments
        With kind "bound". `converged` is per row; for the cyclic solver it is true if the last cycle moved no
        mean by more than a thousandth of its standard deviation.
    """
    check.one_of("solver", solver, SOLVERS)
    check.count("n_cycles", n_cycles)
    rows = tg.rows()
    begin = None if start is None else jnp.asarray(start, rows.shift.dtype).reshape(rows.shift.shape)
    if solver == "cyclic":
        return restore(cyclic_moments(rows, begin, jnp.int32(n_cycles)), tg)
    result = newton_moments(rows, begin, jnp.int32(max_iter))
    warn_unconverged(
        result, f"mean_field did not converge on {{}} of {len(rows)} rows in {max_iter} steps (see "
        "Moments.converged); raise `max_iter`, or use float64 if couplings are strong."
    )  # fmt: skip
    return restore(result, tg)


@jax.jit
@full_precision
def newton_moments(tg: TruncatedGaussian, start: Array | None, max_iter: Array) -> Moments:
    """Run Newton's method for all rows; `start` holds means."""

    def block(rows: tuple[Array, Array | None]) -> Moments:
        part = tg.with_shift(rows[0])
        state = newton(part, _start_theta(part, rows[1]), max_iter)
        return factor_moments(part, state.point.theta, state.done, state.n_iter)

    def general(tg: TruncatedGaussian, max_iter: Array) -> Moments:
        rows, m = tg.shift.shape
        small = isinstance(tg.precision, LowRank) and tg.limits is None and jax.default_backend() == "cpu"
        return map_blocks(block, (tg.shift, start), max(1, BLOCK // m) if small else rows)

    if start is None and _gpu_kernel.is_supported(tg):
        kernel = partial(_gpu_kernel.run, _gpu_kernel.mean_field_row, "bound")
        return lax.platform_dependent(tg, max_iter, cuda=kernel, default=general)
    return general(tg, max_iter)


def _start_theta(tg: TruncatedGaussian, start: Array | None) -> Array:
    """Return θ = γ − P̃m at the starting means; by default θ of the Gaussian without truncation."""
    if start is not None:
        return tg.shift - tg.precision.off_diagonal(start)
    mean = solve(tg, jnp.zeros_like(tg.shift), tg.shift)
    positive = mean * tg.precision.diagonal()[None, :]
    if tg.limits is not None:
        return positive
    # θ of a unit with a negative mean excludes the low-rank part of P_kk
    return jnp.where(
        (mean > 0) | ~tg.truncated[None, :], positive, mean * uncoupled_precision(tg.precision)[None, :]
    )


def uncoupled_precision(P: Precision) -> Array:
    """Return the diagonal of P without the contribution of its low-rank part, shape (m,)."""
    return P.base if isinstance(P, LowRank) else P.diagonal()


def factor_moments(tg: TruncatedGaussian, theta: Array, converged: Array, n_iter: Array) -> Moments:
    """Return the moments of q and its bound, which is valid for any θ."""
    p = tg.precision.diagonal()[None, :]
    walls = tg.walls()
    mean, omega2 = unit_moments(theta, p, walls)
    energy = ((tg.shift - theta - tg.precision.off_diagonal(mean) / 2) * mean).sum(-1)
    log_z = log_normaliser(theta, p, walls).sum(-1) + energy
    return Moments(mean, omega2 / p, log_z, converged, n_iter, "bound")


def expected_energy(tg: TruncatedGaussian, mean: Array, var: Array) -> Array:
    """Return E_q[−½ hᵀPh + γᵀh] for a factorised q with these means and variances."""
    P = tg.precision
    second = P.off_diagonal(mean) * mean + P.diagonal()[None, :] * (mean**2 + var)
    return (tg.shift * mean - second / 2).sum(-1)


def limit_energy(tg: TruncatedGaussian, theta: Array) -> Array:
    """Return a term whose derivatives by the limits are those of the bound: the densities of q there."""
    p = lax.stop_gradient(tg.precision.diagonal())[None, :]
    return log_normaliser(lax.stop_gradient(theta), p, tg.walls()).sum(-1)


class Term(NamedTuple):
    """T at given means."""

    value: Array  # (rows,)
    gradient: Array  # (rows, m)
    hessian: Partial  # x ↦ T″ x, (rows, m); holds arrays with an axis of rows only


Terms = Callable[[Array], Term]


class Point(NamedTuple):
    """q of each row, with the gradient of f and the parts of T that a step needs."""

    theta: Array  # (rows, m) natural parameters
    mean: Array  # (rows, m)
    omega2: Array  # (rows, m) variance times P_kk
    residual: Array  # (rows, m) gradient r of f
    term: Array  # (rows,) T
    hessian: Partial


class NewtonState(NamedTuple):
    """A point and the progress of each row."""

    point: Point
    length: Array  # (rows,) fraction of the step to try next
    done: Array  # (rows,)
    n_iter: Array  # (rows,)


def no_term(mean: Array) -> Term:
    """Return T = 0."""
    return Term(jnp.zeros(mean.shape[0], mean.dtype), jnp.zeros_like(mean), Partial(jnp.zeros_like))


def newton(tg: TruncatedGaussian, start: Array, max_iter: Array, term: Terms = no_term) -> NewtonState:
    """Minimise f for every row from natural parameters `start`; see the docstring of the module."""
    if start.dtype != jnp.float64 or term is not no_term:
        return _iterate(tg, start, max_iter, term)
    single, rough = jax.tree.map(lambda a: a if a.dtype == bool else a.astype(jnp.float32), (tg, start))
    found = _iterate(single, rough, jnp.minimum(max_iter, SINGLE_STEPS), term)
    theta = found.point.theta.astype(start.dtype)
    state = _iterate(tg, jnp.where(jnp.isfinite(theta).all(-1)[:, None], theta, start), max_iter, term)
    return state._replace(n_iter=found.n_iter + state.n_iter)


def _iterate(tg: TruncatedGaussian, start: Array, max_iter: Array, term: Terms) -> NewtonState:
    p = tg.precision.diagonal()[None, :]
    tol = STEP_TOLERANCE[p.dtype.itemsize]
    rows, walls = len(tg), tg.walls()

    def unfinished(carry: tuple[Array, NewtonState]) -> Array:
        i, state = carry
        return (i < max_iter) & ~state.done.all()

    def step(carry: tuple[Array, NewtonState]) -> tuple[Array, NewtonState]:
        i, (old, length, done, n_iter) = carry
        hessian = None if term is no_term else old.hessian
        delta = -solve(tg, p * (1 / old.omega2 - 1), old.residual, hessian, ENOUGH[p.dtype.itemsize])
        decrement = -(old.residual * delta).sum(-1)
        last = jnp.abs(decrement) <= jnp.maximum(tol, _noise(tg, old, p))
        length = jnp.where(last, 1, length)
        # bounded after it is shortened, so that a short step goes downhill
        move = bounded_step(length[:, None] * delta, old.omega2 / p, old.mean, jnp.sqrt(p), walls)
        new = point_at(tg, old.theta + move, term)
        path = new.mean - old.mean
        slope, new_slope = (old.residual * path).sum(-1), (new.residual * path).sum(-1)
        small = last | (jnp.abs(new_slope) <= 0.1 * length * decrement)  # false for NaN

        def decreases(_: None) -> Array:
            most = _loss(tg, old) - 1e-4 * length * decrement + _loss_noise(tg, old)
            return small | (_loss(tg, new) <= most)

        good = lax.cond((small | done).all(), lambda _: small, decreases, None)
        accept = good & ~done
        point = jax.tree.map(lambda a, b: jnp.where(accept.reshape(-1, *(1,) * (a.ndim - 1)), a, b), new, old)
        # the fraction at which the derivative along the step would be zero if it were linear
        shrink = jnp.clip(jnp.where(new_slope > slope, -slope / (new_slope - slope), 0.5), 0.1, 0.5)
        length = jnp.where(good, jnp.minimum(1, 2 * length), length * shrink)
        return i + 1, NewtonState(point, length, done | (good & last), n_iter + (~done).astype(jnp.int32))

    length, done, n_iter = jnp.ones(rows, start.dtype), jnp.zeros(rows, bool), jnp.zeros(rows, jnp.int32)
    first = NewtonState(point_at(tg, start, term), length, done, n_iter)
    return lax.while_loop(unfinished, step, (jnp.int32(0), first))[1]


def _noise(tg: TruncatedGaussian, point: Point, p: Array) -> Array:
    """Bound the rounding error of the squared decrement."""
    noise = 4 * rounding(p.dtype) * (jnp.abs(tg.shift) + jnp.abs(point.theta))
    return (noise**2 * point.omega2 / p).sum(-1)


def _loss(tg: TruncatedGaussian, point: Point) -> Array:
    """Return f for each row."""
    p, coupling = tg.precision.diagonal()[None, :], tg.precision.off_diagonal(point.mean)
    parts = log_normaliser(point.theta, p, tg.walls()) + (tg.shift - point.theta - coupling / 2) * point.mean
    return -parts.sum(-1) - point.term


def _loss_noise(tg: TruncatedGaussian, point: Point) -> Array:
    """Bound the rounding error of f."""
    terms = (jnp.abs(tg.shift - point.theta) + jnp.abs(point.theta)) * jnp.abs(point.mean)
    return 8 * rounding(terms.dtype) * (terms.sum(-1) + jnp.abs(_loss(tg, point)))


def point_at(tg: TruncatedGaussian, theta: Array, term: Terms = no_term) -> Point:
    """Compute the moments of q and the gradient of f at θ."""
    mean, omega2 = unit_moments(theta, tg.precision.diagonal()[None, :], tg.walls())
    T = term(mean)
    residual = theta + tg.precision.off_diagonal(mean) - tg.shift - T.gradient
    return Point(theta, mean, omega2, residual, T.value, T.hessian)


def bounded_step(delta: Array, var: Array, mean: Array, root: Array, walls: Walls) -> Array:
    """Return the step of θ for a step of the mean: along the tangent, with a bound on its length.

    The mean is a convex function of θ, so the tangent of a unit near zero overestimates the step. With x = m
    √p the inverse function is close to √p (x − 1/x); twice its secant bounds the step. Between two limits it
    is close to √p (x − 1/(x − l) + 1/(u − x)), and the same bound applies.
    """
    least = float(np.finfo(mean.dtype).tiny) ** 0.5
    x, dx = mean * root, delta * root
    if not isinstance(walls, Limits):
        x = jnp.maximum(x, least)
        secant = root * dx * (1 + 1 / (x * (x + jnp.maximum(dx, 0))))
        return jnp.where(dx > 0, jnp.minimum(delta / var, 2 * secant), delta / var)
    low, high = x - walls.lower * root, walls.upper * root - x
    behind = jnp.maximum(jnp.where(dx > 0, low, high), least)
    ahead = jnp.maximum(jnp.where(dx > 0, high, low), least)
    size = jnp.minimum(jnp.abs(dx), 0.9 * ahead)  # a mean cannot leave the box
    secant = root * size * (1 + 1 / (behind * (behind + size)) + 1 / (ahead * (ahead - size)))
    return jnp.sign(dx) * jnp.minimum(jnp.abs(dx) / (root * var), 2 * secant)


def solve(
    tg: TruncatedGaussian, extra: Array, r: Array, hessian: Callable[[Array], Array] | None = None,
    enough: float | None = None,
) -> Array:  # fmt: skip
    """Solve (P + diag(extra) − T″) x = r; with `enough`, only as accurately as a Newton step needs.

    Uses the precision's own factorisation where that is cheap and T = 0, and conjugate gradients elsewhere.
    For a `LowRank` P with n rows in U and T a function of U m, P − T″ is diagonal plus rank n, which bounds
    the number of steps.
    """
    P = tg.precision
    cheap = isinstance(P, LowRank | Diagonal) or (isinstance(P, Dense) and P.size <= FACTOR_UP_TO)
    if hessian is None and cheap:
        return P.factor(extra).solve(r)
    scale = extra + P.diagonal()[None, :]

    def product(x: Array) -> Array:
        flat = P.off_diagonal(x) + scale * x
        return flat if hessian is None else flat - hessian(x)

    return conjugate_gradient(product, r, extra + uncoupled_precision(P)[None, :], enough)


@jax.jit
@full_precision
def cyclic_moments(tg: TruncatedGaussian, start: Array | None, n_cycles: Array) -> Moments:
    """Run the paper's Algorithm 1 from means `start`."""
    if start is None:
        start, _ = unit_moments(tg.shift, tg.precision.diagonal()[None, :], tg.walls())
    theta = cyclic(tg, start, n_cycles)
    result = factor_moments(tg, theta, jnp.zeros(len(tg), bool), jnp.full(len(tg), n_cycles))
    drift = theta + tg.precision.off_diagonal(result.mean) - tg.shift
    still = (jnp.abs(drift) * jnp.sqrt(result.var)).max(-1) <= 1e-3
    return Moments(result.mean, result.var, result.log_z, still, result.n_iter, "bound")


def cyclic(tg: TruncatedGaussian, start: Array, n_cycles: Array) -> Array:
    """Run Algorithm 1 of the paper: update one coordinate after the other, for a number of cycles.

    A cycle over a `LowRank` precision keeps s = U m up to date and costs O(mn) per row; other structures use
    the rows of the dense matrix. Returns natural parameters θ, shape (rows, m).
    """
    P = tg.precision
    low_rank = isinstance(P, LowRank)
    U = P.weights if isinstance(P, LowRank) else P.dense()
    p, walls = P.diagonal(), tg.walls()
    own = walls.map(jnp.transpose) if isinstance(walls, Limits) else tg.truncated
    columns = (U.T, tg.shift.T, p, own)

    def update(product: Array, inputs: Any) -> tuple[Array, tuple[Array, Array]]:
        # Algorithm 1, lines 3-5: `product` is U m (LowRank) or P m (otherwise)
        (u, gamma, p_k, walls_k), m_k, k = inputs
        coupling = product @ u - (u @ u) * m_k if low_rank else product[:, k] - p_k * m_k
        theta = gamma - coupling
        new, _ = unit_moments(theta, p_k, walls_k)
        return product + (new - m_k)[:, None] * u[None, :], (new, theta)

    def cycle(_: Array, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        mean, product, _ = carry
        inputs = (columns, mean, jnp.arange(P.size))
        product, (mean, theta) = lax.platform_dependent(
            product, inputs, cuda=partial(lax.scan, update, unroll=UNROLL), default=partial(lax.scan, update)
        )
        return mean, product, theta

    mean = start.T
    carry = (mean, mean.T @ U.T, jnp.zeros_like(mean))
    theta: Array = lax.fori_loop(0, n_cycles, cycle, carry)[2]
    return theta.T
