"""Newton's method for mean field with a `LowRank` precision: few steps, each fast on a processor.

In units with P_kk = 1 write P = diag(d) + UᵀU and w = 1 − d, what U contributes to the diagonal. Stationarity
of the mean-field problem (see `newton`) is then one equation per variable, coupled by n numbers only:

    θ_k − w_k m(θ_k) = c_k,    c = γ − Uᵀs,    s = U m(θ).

A step solves the linearised system by Woodbury (e = 1/(1/v − w), K = I + U diag(e) Uᵀ, K t = U(e r),
s ← U m − t) and then takes one more Newton step in each variable's own equation, with s as predicted. That
correction costs one evaluation of the moments and nothing coupled, and halves the number of systems to
solve, since units that switch on or off land near their place at once. There is no line search: rows that
have not settled after `MOST` steps are left to `newton`.

What makes a step fast: variables run down and rows across, so that sums over variables are sums of contiguous
rows of numbers; a block of rows fits the cache and stops when its own rows are done; iterations are done in
single precision, and a double-precision problem is finished with double-precision residuals, large systems
still in single precision.
"""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from tggm.gaussian import Moments, TruncatedGaussian
from tggm.inference.factors import log_normaliser, standardised
from tggm.precision import LowRank
from tggm.precision.protocol import rounding

WIDEST = 24  # elimination is unrolled over the rows of U: programs grow with them
SMALL = 4  # rows of U up to which systems are solved in the precision of the problem
MOST = 20  # steps of either precision
RESIDUAL = {4: 1e-3, 8: 1e-10}  # of a row that has converged, by bytes a number
BLOCK = 2**14  # variables times rows of a block: its arrays fit the cache of one core


class Problem(NamedTuple):
    """A block of rows in units with P_kk = 1."""

    gamma: Array  # (m, rows)
    d: Array  # (m, 1)
    w: Array  # (m, 1)
    U: Array  # (n, m)
    truncated: Array  # (m, 1)


def suits(tg: TruncatedGaussian) -> bool:
    """Whether the precision is of low enough rank, and the limits are zero."""
    return tg.limits is None and isinstance(tg.precision, LowRank) and tg.precision.rank <= WIDEST


def low_rank_newton(tg: TruncatedGaussian, start: Array | None, max_iter: Array) -> Moments:
    """Moments of q and the bound for every row; `start` holds means to begin from."""
    P = tg.precision
    assert isinstance(P, LowRank)
    root = jnp.sqrt(P.diagonal())[:, None]
    U = P.weights / root.T
    rest = (P.base[:, None] / root**2, (U**2).sum(0)[:, None], U, tg.truncated[:, None])
    rows, m = tg.shift.shape
    height = _block_height(rows, m) if jax.default_backend() == "cpu" else rows

    def block(inputs: tuple[Array, Array | None]) -> tuple[Array, ...]:
        gamma, mean = inputs
        problem = Problem(gamma / root, *rest)
        theta = _untruncated(problem) if mean is None else _stationary(problem, mean * root)
        theta, n_iter = _solve(problem, theta, max_iter)
        mean, omega2, r = _visit(problem, theta)
        log_z = log_normaliser(theta, jnp.ones_like(root), problem.truncated) - jnp.log(root)
        log_z = (log_z + 0.5 * (problem.gamma - theta - r) * mean).sum(0)
        settled = jnp.maximum(RESIDUAL[theta.dtype.itemsize], _noise(problem, theta))
        return (mean / root).T, (omega2 / root**2).T, log_z, (jnp.abs(r) <= settled).all(0), n_iter

    blocks = lax.map(block, (_cut(tg.shift, height), None if start is None else _cut(start, height)))
    mean, var, log_z, done, n_iter = (a.reshape(-1, *a.shape[2:])[:rows] for a in blocks)
    return Moments(mean, var, log_z, done, n_iter, "bound")


def _block_height(rows: int, m: int) -> int:
    """Rows of a block, all blocks about equal."""
    fitting = max(1, BLOCK // m)
    return math.ceil(rows / math.ceil(rows / fitting))


def _cut(a: Array, height: int) -> Array:
    """Rows (rows, m) as blocks (blocks, m, height), filled up with copies of the last row."""
    n_blocks = -(-a.shape[0] // height)
    filled = jnp.pad(a, ((0, n_blocks * height - a.shape[0]), (0, 0)), mode="edge")
    return filled.reshape(n_blocks, height, -1).swapaxes(1, 2)


def _untruncated(problem: Problem) -> Array:
    """θ, were nothing truncated; for a variable that is then negative, what the same s leaves of it."""
    d, U = problem.d, problem.U
    x = problem.gamma / d
    K = jnp.eye(U.shape[0], dtype=U.dtype) + (U / d.T) @ U.T
    mu = x - (U.T @ jnp.linalg.solve(K, U @ x)) / d
    return jnp.where((mu > 0) | ~problem.truncated, mu, d * mu)


def _stationary(problem: Problem, mean: Array) -> Array:
    """θ = γ − P̃m."""
    return problem.gamma + problem.w * mean - problem.U.T @ (problem.U @ mean)


def _solve(problem: Problem, theta: Array, max_iter: Array) -> tuple[Array, Array]:
    """θ and the steps of each row: in single precision, then, for a problem in double, with its residuals."""
    max_iter = jnp.minimum(max_iter, MOST)
    if theta.dtype == jnp.float32:
        return _iterate(problem, theta, max_iter, 1e-6, correct=True)
    single = jax.tree.map(lambda a: a if a.dtype == bool else a.astype(jnp.float32), problem)
    rough, spent = _iterate(single, theta.astype(jnp.float32), max_iter, 1e-4, correct=True)
    rough = rough.astype(theta.dtype)
    theta = jnp.where(jnp.isfinite(rough).all(0)[None, :], rough, theta)
    theta, more = _iterate(problem, theta, max_iter, 1e-14, correct=False)
    return theta, spent + more


def _iterate(
    problem: Problem, theta: Array, max_iter: Array, tol: float, correct: bool
) -> tuple[Array, Array]:
    """Newton steps from θ until every row has made one that began with a squared decrement below `tol`.

    Convergence being quadratic, that step was the last one needed. Rows that are done go on with the others.
    """
    # large systems dominate the cost of a step, and its accuracy is that of the residual all the same
    pairs, place = _pairs(problem.U if len(problem.U) <= SMALL else problem.U.astype(jnp.float32))

    def keep_going(carry: Any) -> Array:
        i, _, done, _ = carry
        return jnp.asarray((i < max_iter) & ~done.all())

    def body(carry: Any) -> Any:
        i, theta, done, n_iter = carry
        theta, last = _step(problem, theta, tol, pairs, place, correct)
        return i + 1, theta, done | last, n_iter + (~done).astype(jnp.int32)

    none = jnp.zeros(theta.shape[1], jnp.int32)
    carry: Any = lax.while_loop(keep_going, body, (jnp.int32(0), theta, none > 0, none))
    return carry[1], carry[3]


def _visit(problem: Problem, theta: Array) -> tuple[Array, Array, Array]:
    """Means and ω² of q, and the gradient of the objective there."""
    g, omega2 = standardised(theta, problem.truncated)
    U = problem.U
    return g, omega2, theta - problem.w * g + U.T @ (U @ g) - problem.gamma


def _noise(problem: Problem, theta: Array) -> Array:
    """Rounding error of the gradient."""
    return 8 * rounding(theta.dtype) * (jnp.abs(problem.gamma) + jnp.abs(theta))


def _step(
    problem: Problem, theta: Array, tol: float, pairs: Array, place: Any, correct: bool
) -> tuple[Array, Array]:
    """Next θ, and whether the squared decrement before it was below `tol` or what rounding leaves of it."""
    mean, omega2, r = _visit(problem, theta)
    d, w, U = problem.d, problem.w, problem.U
    gain = 1 / (d + w * (1 - omega2))
    e = gain * omega2
    q = U @ (e * r)
    K = (pairs @ e.astype(pairs.dtype))[place] + jnp.eye(len(U), dtype=pairs.dtype)[:, :, None]
    back = U.T @ eliminate(K, q.astype(K.dtype)).astype(q.dtype)
    decrement = (e * (r - back) * r).sum(0)
    floor = (_noise(problem, theta) ** 2 * e).sum(0)
    trial = theta + gain * (back - r)
    if correct:
        c = theta - r - w * mean + back  # γ − Uᵀs
        g, o = standardised(trial, problem.truncated)
        trial = trial - (trial - w * g - c) / (d + w * (1 - o))
        trial = jnp.where(problem.truncated, jnp.maximum(trial, c), trial)  # m ≥ 0, so θ ≥ c
    return trial, decrement <= jnp.maximum(tol, floor)


def _pairs(U: Array) -> tuple[Array, np.ndarray[Any, Any]]:
    """Products of the distinct pairs of rows of U, and where each entry of an n×n matrix finds its pair."""
    n = U.shape[0]
    i, j = np.tril_indices(n)
    place = np.zeros((n, n), np.int32)
    place[i, j] = place[j, i] = np.arange(len(i))
    return U[i] * U[j], place


def eliminate(K: Array, q: Array) -> Array:
    """Solve K t = q for each row by Gauss-Jordan elimination; K ≽ I needs no pivoting.

    Parameters
    ----------
    K : Array, shape (n, n, rows)
    q : Array, shape (n, rows)
    """
    A = jnp.concatenate([K, q[:, None]], axis=1)
    for j in range(K.shape[0]):
        row = A[j] / A[j, :1]
        A = (A[:, 1:] - A[:, :1] * row[None, 1:]).at[j].set(row[1:])
    return A[:, 0]
