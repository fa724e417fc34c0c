r"""Multinomial probit: which of n independent normals is the largest.

With z_j ~ N(mu_j, sigma_j²) independent,

.. math::
    P_c = P(z_c > z_j \text{ for all } j \ne c)
        = \int \frac{1}{\sigma_c}\,\phi\!\Big(\frac{t - \mu_c}{\sigma_c}\Big)
          \prod_{j \ne c} \Phi\!\Big(\frac{t - \mu_j}{\sigma_j}\Big)\, dt .

The integrand is log-concave and entire, so the trapezoidal rule converges geometrically on any grid that
reaches over its bulk. `log_probit` finds that bulk for one class a row; `log_probit_all` uses one grid a row
for all classes, n evaluations of Φ a node and not n². Everything is done in logarithms.
"""

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from tggm import formulas
from tggm.special import standard
from tggm.special.probit_sums import Sums, sums

_LOG_ROOT_2PI = 0.9189385332046727
MANY = 100  # classes beyond which it pays to measure how far the grid of a class reaches
ArrayPair = tuple[Array, Array]
Primals = tuple[Array, Array, Any]


def default_nodes(n_classes: int, dtype: Any) -> int:
    """Nodes at which `log_probit` keeps its promise: 1e-8 (float64) or a few roundings (float32)."""
    # the narrowest integrand has a width of 1/√n of the widest
    width = 20 if np.dtype(dtype).itemsize == 8 else 10
    return int(np.ceil((16 + width * np.sqrt(n_classes)) / 8)) * 8


def log_probit(
    mean: Array, std: Array, label: Array, *, n_nodes: int | None = None, n_steps: int = 6
) -> Array:
    r"""Logarithm of the probability that the class `label` has the largest of n independent normals.

    Parameters
    ----------
    mean, std : Array, shape (rows, n)
        Their means and (positive) standard deviations.
    label : Array of int, shape (rows,)
        Which class, 0 to n − 1.
    n_nodes : int, optional
        Nodes of the trapezoidal rule; :func:`default_nodes` otherwise.
    n_steps : int
        Newton steps to the mode of the integrand. They rise to it from the left and never overshoot.

    Returns
    -------
    Array, shape (rows,)
        Finite for finite arguments. Absolute error below 1e-8 in float64 for n up to 100 and margins up to
        ±30 (``python tools/precompute/probit_accuracy.py`` prints the table).

    Notes
    -----
    For unit variances, E[z | the class is c] = mean + gradient with respect to the mean.
    """
    nodes = default_nodes(mean.shape[-1], mean.dtype) if n_nodes is None else n_nodes
    result: Array = _log_probit(nodes, n_steps, mean, std, label)
    return result


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


def table_sums(mean: Array, std: Array, own: Array, t: Array) -> Sums:
    """As `probit_sums.sums`, from one table: quicker for few classes."""
    terms = log_integrand(mean, std, own, t)
    value = log_sum(terms)
    p = jnp.exp(terms - value[:, None])[:, None, :]
    x = _standardised(mean, std, t)
    slope = jnp.where(own[:, :, None], x, -standard.hazard(x))  # of the log of each factor, times σ
    return Sums(value, (p * slope).sum(-1), (p * slope * x).sum(-1))


_log_probit = jax.jit(_probit, static_argnums=(0, 1), inline=True)


@partial(jax.jit, static_argnames="n_nodes", inline=True)
def log_probit_all(mean: Array, std: Array, *, n_nodes: int = 64) -> Array:
    """Logarithms of the probabilities of all n classes, shape (rows, n), from one table of log Φ a row.

    The grid of a row reaches from the lowest class's integrand to the highest's, so its nodes are
    `grid_length` / `n_nodes` apart; the result has full accuracy where that is at most 1/(2√n) standard
    deviations, and sums to 1 in any case.
    """
    x = _shared_grid(mean, std, n_nodes)
    return formulas.class_log_probabilities(jnp, standard.log_ndtr, x, std)


@partial(jax.jit, static_argnames="n_nodes", inline=True)
def probit_all(mean: Array, std: Array, *, n_nodes: int = 64) -> Array:
    """The probabilities themselves, shape (rows, n), on the same grid, at a third of the cost.

    P_c is the sum over nodes of Π_j Φ_j times the hazard of class c: no logarithm is taken, so what is below
    the smallest number of the dtype comes out as 0.
    """
    x = _shared_grid(mean, std, n_nodes)
    r = standard.hazard(x)
    pdf = jnp.exp(-0.5 * x * x) * math.exp(-_LOG_ROOT_2PI)
    cdf = jnp.where(x > 9, 1.0, pdf / r)  # beyond, both underflow in the end
    below = cdf.prod(1, keepdims=True)
    p = (below * r).sum(-1) / std
    return p / p.sum(-1, keepdims=True)


def _shared_grid(mean: Array, std: Array, n_nodes: int) -> Array:
    """Return standardised nodes, (rows, n, n_nodes), of a grid for all classes."""
    return formulas.class_grid(jnp, mean, std, _reach(mean, std), n_nodes)


@partial(jax.jit, inline=True)
def grid_length(mean: Array, std: Array) -> Array:
    """Length of the grid of each row in `log_probit_all`, in units of the row's smallest deviation."""
    low, high = _reach(mean, std)
    return (high - low) / std.min(-1)


def _reach(mean: Array, std: Array) -> ArrayPair:
    return formulas.class_reach(jnp, mean, std, _reach_of(mean.dtype))


def _reach_of(dtype: Any) -> float:
    """Distance, in standard deviations, at which a normal density has lost what the dtype can tell."""
    return 6.5 if np.dtype(dtype).itemsize == 8 else 5.0


def own_class(mean: Array, label: Array) -> Array:
    """Mask of each row's own class, (rows, n)."""
    return label[:, None] == jnp.arange(mean.shape[1], dtype=label.dtype)[None, :]


def mode(mean: Array, std: Array, own: Array, n_steps: int) -> ArrayPair:
    """Where each row's integrand is largest, (rows,), and minus the second derivative of its logarithm there.

    The logarithm's derivative is convex and decreasing, so Newton's steps from the left rise to the mode.
    """
    mu, sigma = (jnp.where(own, a, 0.0).sum(-1) for a in (mean, std))
    precision = 1 / sigma**2
    # the mode for each rival by itself, with the asymptote of the hazard: all are left of the mode
    share = std**2 / (std**2 + sigma[:, None] ** 2)
    t = (mean + (mu[:, None] - mean) * share).max(-1)
    inverse = 1 / std
    rivals = jnp.where(own, 0.0, inverse)

    def slopes(t: Array) -> ArrayPair:
        x = (t[:, None] - mean) * inverse
        slope = (standard.hazard(x) * rivals).sum(-1) - (t - mu) * precision
        return slope, (standard.decay(x) * rivals**2).sum(-1) + precision

    def step(_: Array, carry: ArrayPair) -> ArrayPair:
        t, _ = carry
        slope, bend = slopes(t)
        return t + slope / bend, bend

    # the curvature is that of the last but one point: near enough to measure a width by
    found: ArrayPair = lax.fori_loop(0, n_steps, step, (t, precision))
    return found


def class_grid(mean: Array, std: Array, own: Array, n_nodes: int, n_steps: int) -> ArrayPair:
    """Equidistant nodes over the bulk of each row's integrand, (rows, n_nodes), and their distance."""
    mean, std = lax.stop_gradient((mean, std))
    t, bend = mode(mean, std, own, n_steps)
    z = _reach_of(mean.dtype)
    # log-curvature falls to the right, from `bend` to that of the class's own density
    low = t - z / jnp.sqrt(bend)
    sigma = jnp.where(own, std, 0.0).sum(-1)
    right = z * sigma if mean.shape[1] <= MANY else _right_reach(mean, std, own, t, sigma, z)
    h = (t + right - low) / (n_nodes - 1)
    return low[:, None] + h[:, None] * jnp.arange(n_nodes, dtype=mean.dtype)[None, :], h


def _right_reach(mean: Array, std: Array, own: Array, t: Array, sigma: Array, z: float) -> Array:
    r"""Distance right of the mode t at which the integrand has fallen to exp(−z²/2), z σ at most.

    The density of the class falls by s d + d²/2σ², s = (t − μ)/σ² its slope at t, and all rivals together
    gain G = −Σ log Φ at most. Among many classes the mode is far above the mean of one, and s is large.
    """
    mu = jnp.where(own, mean, 0.0).sum(-1)
    x = (t[:, None] - mean) / std
    gain = -jnp.where(own, 0.0, standard.log_ndtr(x)).sum(-1)
    pull = jnp.maximum(t - mu, 0.0) / sigma
    loss = z * z + 2 * gain
    return jnp.minimum(sigma * loss / (pull + jnp.sqrt(pull**2 + loss)), z * sigma)


def _standardised(mean: Array, std: Array, t: Array) -> Array:
    return (t[:, None, :] - mean[:, :, None]) / std[:, :, None]


def log_integrand(mean: Array, std: Array, own: Array, t: Array) -> Array:
    """Logarithm of the integrand at each node, (rows, nodes)."""
    x = _standardised(mean, std, t)
    log_pdf = -0.5 * x * x - (jnp.log(std) + _LOG_ROOT_2PI)[:, :, None]
    return jnp.where(own[:, :, None], log_pdf, standard.log_ndtr(x)).sum(1)


def log_sum(terms: Array) -> Array:
    """Log of the sum of exponentials over the last axis."""
    top = lax.stop_gradient(terms.max(-1, keepdims=True))
    return jnp.log(jnp.exp(terms - top).sum(-1)) + top[..., 0]
