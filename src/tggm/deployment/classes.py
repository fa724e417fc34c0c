"""Probabilities of classes from the moments of their scores, with the operations of an `Arithmetic`.

Deviations are those of `contended_std` in `tggm.models.likelihoods.probit`, where they are derived.
"""

import numpy as np

from tggm.deployment.arithmetic import Arithmetic, NumPyArithmetic, Value
from tggm.deployment.network import Outputs, products, variances
from tggm.deployment.units import log_probability, probability

CONTENDERS = 0.8  # weight of the classes that may win, against all alike
LEAST_VARIANCE = 0.25
REACH = 6.5  # deviations at which a normal density has lost what double precision can tell
SPACING = 0.4  # of nodes, in units of the smallest deviation of a row
FEWEST_NODES, MOST_NODES = 24, 2000
GRAPH_NODES = 192  # where the number must be fixed: enough for scores 75 deviations apart
_TINY = float(np.finfo(np.float64).tiny)


def scores(ops: Arithmetic, found: Outputs) -> tuple[Value, Value]:
    """Means and deviations of the classes' scores, as of independent normals, (members, rows, n) each."""
    n = len(found.parts)
    if n == 2:
        sign = ops.constant(np.array([1.0, -1.0]))
        difference = ops.sum(products(ops, found, sign) * sign, -1)
        return found.mean, ops.sqrt(difference * 0.5 + 1.0) * ops.constant(np.ones(2))
    return found.mean, _contended(ops, found, n)


def _contended(ops: Arithmetic, found: Outputs, n: int) -> Value:
    mean, var = found.mean, variances(ops, found)
    zero, least = ops.constant(0.0), ops.constant(LEAST_VARIANCE)
    first = ops.is_largest(mean)
    spread = var + 2.0 + ops.sum(ops.where(first, var, zero), -1)
    behind = (ops.max(mean, -1) - mean) / ops.sqrt(spread * 2.0)
    tail = probability(ops, behind * -np.sqrt(2.0)) * 2.0  # the complementary error function
    chance = ops.where(first, zero, tail * tail + _TINY)
    share = ops.where(first, ops.constant(0.5), chance / ops.sum(chance, -1) * 0.5)
    w = share * CONTENDERS + (1 - CONTENDERS) / n
    own = var * (1.0 - w * 2.0) + (1.0 - w) * 2.0 + ops.sum(w * var, -1)
    t = own - (products(ops, found, w) - w * var) * 2.0
    rest, free = 1.0 - w * 2.0, ops.constant(np.ones(n))
    D = t
    for _ in range(3):  # where classes exclude each other D may want to be negative: held, the others follow
        held = ops.sum(w * (1.0 - free), -1) * LEAST_VARIANCE
        total = ops.sum(free * w * (t - held) / rest, -1) / (ops.sum(free * w / rest, -1) + 1.0)
        D = ops.where(free > 0.0, (t - held - total) / rest, least)
        free = ops.where(D > LEAST_VARIANCE, free, zero)
    return ops.sqrt(ops.maximum(D, least))


def log_probabilities(
    ops: Arithmetic, mean: Value, std: Value, *, members: int, n: int, n_nodes: int
) -> Value:
    """Logarithm of P(score c is the largest) of each member, (members, rows, n).

    Two classes in closed form. For more, the trapezoidal rule on one grid for all classes of a row, as
    `tggm.special.probit` has it: absolute errors of the logarithm below 1e-6 with `nodes_needed`. Where a
    row's scores are farther apart than the grid can reach, the hopeless classes are cut off.
    """
    if n == 2:
        sign = ops.constant(np.array([[1.0, -1.0], [-1.0, 1.0]]))
        return log_probability(ops, (mean @ sign) / ops.sqrt(ops.sum(std * std, -1)))
    low, high = _reach(ops, mean, std)
    narrowest = -ops.max(-std, -1)
    lead = ops.max(mean - std * REACH, -1)
    low = ops.maximum(low, ops.minimum(lead, high - narrowest * (n_nodes * SPACING)))
    t = low + (high - low) * ops.constant(np.linspace(0.0, 1.0, n_nodes))  # (members, rows, nodes)
    centre, width = (ops.reshape(a, (members, -1, 1, n)) for a in (mean, std))
    x = (ops.reshape(t, (members, -1, n_nodes, 1)) - centre) / width
    log_cdf = log_probability(ops, x)
    terms = ops.sum(log_cdf, -1) - log_cdf + x * x * -0.5 - ops.log(width)
    log_p = ops.reshape(log_sum(ops, terms, 2), (members, -1, n))
    return log_p - log_sum(ops, log_p, -1)


def _reach(ops: Arithmetic, mean: Value, std: Value) -> tuple[Value, Value]:
    """Ends of an interval that holds the bulk of the integrand of every class."""
    s2 = std * std
    rival = ops.is_largest(mean - std * 0.5)
    top, top2 = (ops.sum(ops.where(rival, a, ops.constant(0.0)), -1) for a in (mean, s2))
    middle, width = (mean * top2 + s2 * top) / (s2 + top2), ops.sqrt(s2 * top2 / (s2 + top2))
    lowest = ops.where(mean < top, middle - width * REACH, mean - std * REACH)
    return -ops.max(-lowest, -1), ops.max(mean + std * REACH, -1)


def nodes_needed(mean: np.ndarray, std: np.ndarray) -> int:
    """Nodes that suffice for the grids of these rows."""
    low, high = _reach(NumPyArithmetic(), mean, std)
    length = float(((high - low)[..., 0] / std.min(-1)).max(initial=0.0))
    return int(np.clip(np.ceil(length / SPACING), FEWEST_NODES, MOST_NODES))


def mixed(ops: Arithmetic, log_p: Value, members: int) -> Value:
    """Compute the log-probabilities of the mixture of members, (rows, n)."""
    log = ops.squeezed(log_sum(ops, log_p, 0)) - float(np.log(members))
    return log - log_sum(ops, log, -1)


def log_sum(ops: Arithmetic, x: Value, axis: int) -> Value:
    """Log of the sum of exponentials over one axis, which stays with length 1."""
    top = ops.max(x, axis)
    return ops.log(ops.sum(ops.exp(x - top), axis)) + top
