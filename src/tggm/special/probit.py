r"""Multinomial probit: the probability that one of n independent normals is the largest.

With z_j ~ N(mu_j, sigma_j²) independent,

.. math::
    P_c = P(z_c > z_j \text{ for all } j \ne c)
        = \int \frac{1}{\sigma_c}\,\phi\!\Big(\frac{t - \mu_c}{\sigma_c}\Big)
          \prod_{j \ne c} \Phi\!\Big(\frac{t - \mu_j}{\sigma_j}\Big)\, dt .

The integrand is log-concave and entire, so the trapezoidal rule converges geometrically on any grid that
covers its bulk. `log_probit` finds that bulk for one class per row. All computations are in logarithms.

`expand_probit` and `expand_factorised` are second-order expansions for unit variances. Both are concave
functions of the means η of z ~ N(η, I), and for both η plus the gradient is the mean of z under the
distribution that they describe: z ~ N(η, I) given that z_c is the largest, or the mean-field bound in which s
= T_c z (s_c = z_c, s_j = z_c − z_j; T_c is its own inverse) has independent components. The optimum of that
bound over all components but s_c is explicit, which leaves

.. math::
    F_c(\eta) = \max_u \Big[ -\tfrac12 (u - \eta_c)^2 + \sum_{j \ne c} \log\Phi(u - \eta_j) \Big]
        - \tfrac12 \log n \;\le\; \log P_c(\eta),

with u the mean of s_c, whose variance is 1/n. The cycles of the paper's supplement have the same limit.
"""

import math
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from tggm.special import kernels

_LOG_ROOT_2PI = 0.9189385332046727
MANY = 100  # classes above which the length of the grid of a class is measured
ArrayPair = tuple[Array, Array]
Primals = tuple[Array, Array, Any]


def default_nodes(n_classes: int, dtype: Any) -> int:
    """Return the number of nodes for an error of 1e-8 (float64) or a few rounding errors (float32)."""
    # the narrowest integrand has 1/√n of the width of the widest
    width = 20 if np.dtype(dtype).itemsize == 8 else 10
    return int(np.ceil((16 + width * np.sqrt(n_classes)) / 8)) * 8


def log_probit(
    mean: Array, std: Array, label: Array, *, n_nodes: int | None = None, n_steps: int = 6
) -> Array:
    r"""Return the logarithm of the probability that class `label` has the largest of n independent normals.

    `mean` and `std` have shape (rows, n), `label` (rows,). `n_nodes` is the number of nodes of the
    trapezoidal rule, by default :func:`default_nodes`; `n_steps` that of Newton steps to the mode of the
    integrand, which approach it from the left and never overshoot.

    Finite for finite arguments. Absolute error below 1e-8 in float64 for n up to 100 and margins up to ±30
    (``python tools/precompute/probit_accuracy.py`` prints the table). For unit variances, E[z | the class is
    c] = mean + gradient with respect to the mean.
    """
    nodes = default_nodes(mean.shape[-1], mean.dtype) if n_nodes is None else n_nodes
    return _log_probit(nodes, n_steps, mean, std, label)


@partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def _probit(n_nodes: int, n_steps: int, mean: Array, std: Array, label: Array) -> Array:
    own = own_class(mean, label)
    t, h = class_grid(mean, std, own, n_nodes, n_steps)
    many = mean.shape[1] > MANY
    value = sums(mean, std, own, t).log if many else log_sum(log_integrand(mean, std, own, t))
    return jnp.minimum(value + jnp.log(h), 0.0)


@_probit.defjvp
def _(n_nodes: int, n_steps: int, primals: Primals, tangents: Primals) -> ArrayPair:
    mean, std, label = primals
    own = own_class(mean, label)
    t, h = class_grid(mean, std, own, n_nodes, n_steps)
    value, slope, moment = (sums if mean.shape[1] > MANY else table_sums)(mean, std, own, t)
    by_mean = slope / std
    by_std = (moment - jnp.where(own, 1.0, 0.0)) / std
    return jnp.minimum(value + jnp.log(h), 0.0), (by_mean * tangents[0] + by_std * tangents[1]).sum(-1)


class Sums(NamedTuple):
    """Sums of a quadrature with equal weights."""

    log: Array  # (rows,) log Σ exp(f)
    slope: Array  # (rows, n) a
    moment: Array  # (rows, n) b


def sums(mean: Array, std: Array, own: Array, t: Array) -> Sums:
    r"""Sum over nodes t, (rows, nodes), one after the other; `own` marks the class of each row, (rows, n).

    With x_j = (t − μ_j)/σ_j, f the logarithm of the integrand and w = exp(f)/Σ exp(f) at the nodes,

    .. math::
        \log \sum_t e^{f(t)}, \qquad a_j = \sum_t w_t\, s_j(t), \qquad b_j = \sum_t w_t\, s_j(t)\, x_j(t),

    s_j the slope of the logarithm of factor j: x for the class itself, minus the hazard for its rivals.
    Arrays of rows × classes stay in the cache, and each Φ is computed once.
    """
    inverse = 1 / std
    constant = jnp.where(own, jnp.log(std) + _LOG_ROOT_2PI, 0.0).sum(1)

    def add(k: Array, so_far: tuple[Array, ...]) -> tuple[Array, ...]:
        top, total, a, b = so_far
        x = (lax.dynamic_slice_in_dim(t, k, 1, 1) - mean) * inverse
        log_cdf, hazard = kernels.log_ndtr_and_hazard(x)
        f = jnp.where(own, -0.5 * x * x, log_cdf).sum(1) - constant
        slope = jnp.where(own, x, -hazard)
        highest = jnp.maximum(top, f)  # the sums so far are in units of exp(top)
        before, w = jnp.exp(top - highest), jnp.exp(f - highest)
        old, new = before[:, None], w[:, None]
        return highest, total * before + w, a * old + new * slope, b * old + new * slope * x

    rows, none = jnp.zeros_like(t[:, 0]), jnp.zeros_like(mean)
    lowest = jnp.full_like(rows, np.finfo(t.dtype).min)
    top, total, a, b = lax.fori_loop(0, t.shape[1], add, (lowest, rows, none, none))
    return Sums(top + jnp.log(total), a / total[:, None], b / total[:, None])


def table_sums(mean: Array, std: Array, own: Array, t: Array) -> Sums:
    """Compute `sums` from one table of rows × classes × nodes, which is faster for few classes."""
    value, p, x, slope = _table(mean, std, own, t)
    return Sums(value, (p * slope).sum(-1), (p * slope * x).sum(-1))


def _table(mean: Array, std: Array, own: Array, t: Array) -> tuple[Array, Array, Array, Array]:
    """Return the log sum, weights of nodes, standardised nodes, and σ times the slope of each log factor."""
    terms = log_integrand(mean, std, own, t)
    value = log_sum(terms)
    x = _standardise(mean, std, t)
    p = jnp.exp(terms - value[:, None])[:, None, :]
    return value, p, x, jnp.where(own[:, :, None], x, -kernels.hazard(x))


_log_probit = jax.jit(_probit, static_argnums=(0, 1), inline=True)


def _reach_of(dtype: Any) -> float:
    """Return the distance, in standard deviations, at which a normal density is negligible in the dtype."""
    return 6.5 if np.dtype(dtype).itemsize == 8 else 5.0


def own_class(mean: Array, label: Array) -> Array:
    """Return the mask of each row's own class, (rows, n)."""
    return label[:, None] == jnp.arange(mean.shape[1], dtype=label.dtype)[None, :]


def mode(mean: Array, std: Array, own: Array, n_steps: int) -> ArrayPair:
    """Return the mode of each row's integrand, (rows,), and minus its second log-derivative there.

    The derivative of the logarithm is convex and decreasing, so Newton steps from the left increase to the
    mode.
    """
    mu, sigma = (jnp.where(own, a, 0.0).sum(-1) for a in (mean, std))
    precision = 1 / sigma**2
    # the mode for each rival alone, with the asymptote of the hazard; each is left of the mode
    share = std**2 / (std**2 + sigma[:, None] ** 2)
    t = (mean + (mu[:, None] - mean) * share).max(-1)
    inverse = 1 / std
    rivals = jnp.where(own, 0.0, inverse)

    def slopes(t: Array) -> ArrayPair:
        x = (t[:, None] - mean) * inverse
        slope = (kernels.hazard(x) * rivals).sum(-1) - (t - mu) * precision
        return slope, (kernels.variance_loss(x) * rivals**2).sum(-1) + precision

    def step(_: Array, carry: ArrayPair) -> ArrayPair:
        t, _ = carry
        slope, curvature = slopes(t)
        return t + slope / curvature, curvature

    # the curvature is that of the last but one point, accurate enough for a width
    return lax.fori_loop(0, n_steps, step, (t, precision))


def class_grid(mean: Array, std: Array, own: Array, n_nodes: int, n_steps: int) -> ArrayPair:
    """Return equidistant nodes over the bulk of each row's integrand, (rows, n_nodes), and their distance."""
    mean, std = lax.stop_gradient((mean, std))
    t, curvature = mode(mean, std, own, n_steps)
    z = _reach_of(mean.dtype)
    # right of the mode the curvature decreases to that of the density of the class itself
    low = t - z / jnp.sqrt(curvature)
    sigma = jnp.where(own, std, 0.0).sum(-1)
    right = z * sigma if mean.shape[1] <= MANY else _right_reach(mean, std, own, t, sigma, z)
    h = (t + right - low) / (n_nodes - 1)
    return low[:, None] + h[:, None] * jnp.arange(n_nodes, dtype=mean.dtype)[None, :], h


def _right_reach(mean: Array, std: Array, own: Array, t: Array, sigma: Array, z: float) -> Array:
    r"""Return the distance right of the mode t at which the integrand is exp(−z²/2) times its maximum.

    The log-density of the class falls by s d + d²/2σ², s = (t − μ)/σ² its slope at t, and Σ log Φ of the
    rivals rises by at most G = −Σ log Φ. With many classes the mode is far above the mean, and s is large.
    The result is at most z σ.
    """
    mu = jnp.where(own, mean, 0.0).sum(-1)
    x = (t[:, None] - mean) / std
    gain = -jnp.where(own, 0.0, kernels.log_ndtr(x)).sum(-1)
    pull = jnp.maximum(t - mu, 0.0) / sigma
    loss = z * z + 2 * gain
    return jnp.minimum(sigma * loss / (pull + jnp.sqrt(pull**2 + loss)), z * sigma)


def _standardise(mean: Array, std: Array, t: Array) -> Array:
    return (t[:, None, :] - mean[:, :, None]) / std[:, :, None]


def log_integrand(mean: Array, std: Array, own: Array, t: Array) -> Array:
    """Return the logarithm of the integrand at each node, (rows, nodes)."""
    x = _standardise(mean, std, t)
    log_pdf = -0.5 * x * x - (jnp.log(std) + _LOG_ROOT_2PI)[:, :, None]
    return jnp.where(own[:, :, None], log_pdf, kernels.log_ndtr(x)).sum(1)


def log_sum(terms: Array) -> Array:
    """Return the log of the sum of exponentials over the last axis."""
    top = lax.stop_gradient(terms.max(-1, keepdims=True))
    return jnp.log(jnp.exp(terms - top).sum(-1)) + top[..., 0]


class Expansion(NamedTuple):
    """Value, gradient and Hessian at η."""

    value: Array  # (rows,)
    gradient: Array  # (rows, n)
    hessian: Array  # (rows, n, n), negative semidefinite


@partial(jax.jit, static_argnames=("n_nodes", "n_steps"), inline=True)
def expand_probit(eta: Array, label: Array, n_nodes: int, n_steps: int) -> Expansion:
    """Return log P_c(η) and its first two derivatives, all from one grid."""
    one = jnp.ones_like(eta)
    own = own_class(eta, label)
    t, h = class_grid(eta, one, own, n_nodes, n_steps)
    value, p, x, slope = _table(eta, one, own, t)
    curvature = jnp.where(own[:, :, None], 1.0, kernels.variance_loss(x))
    gradient = (p * slope).sum(-1)
    spread = slope - gradient[:, :, None]
    hessian = jnp.matmul(p * spread, spread.mT, precision="highest") - _diagonal((p * curvature).sum(-1))
    return Expansion(jnp.minimum(value + jnp.log(h), 0.0), gradient, hessian)


@partial(jax.jit, static_argnames="n_steps", inline=True)
def expand_factorised(eta: Array, label: Array, n_steps: int) -> Expansion:
    """Return F_c(η) and its first two derivatives, by the envelope theorem."""
    own = own_class(eta, label)
    u, _ = mode(eta, jnp.ones_like(eta), own, n_steps)
    x = u[:, None] - eta
    second = jnp.where(own, 1.0, kernels.variance_loss(x))
    value = jnp.where(own, -0.5 * x * x, kernels.log_ndtr(x)).sum(-1)
    gradient = jnp.where(own, x, -kernels.hazard(x))
    hessian = second[:, :, None] * second[:, None, :] / second.sum(-1)[:, None, None] - _diagonal(second)
    return Expansion(value - 0.5 * math.log(eta.shape[1]), gradient, hessian)


def _diagonal(values: Array) -> Array:
    """Return diagonal matrices, (rows, n, n)."""
    return values[:, :, None] * jnp.eye(values.shape[1], dtype=values.dtype)[None]
