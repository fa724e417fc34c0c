"""Quantiles of many distributions at once: Newton's method inside a bracket that can only shrink."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri

from tggm.arrays import Floats, Ints

Excess = Callable[[Ints, Floats, Ints], tuple[Any, Any, Any]]  # f, f' and whether f is small enough
Pairwise = Callable[[Ints, Floats], tuple[Floats, Floats]]

_SMALLEST = 1e-200  # probability of a bracket: its square root and reciprocal are finite
_TAIL = 1e-6  # nearer to 0 or 1 than this, equations are solved for the logarithm of the tail
_MAX_ITER = 100


class Bracket(NamedTuple):
    """Ends between which quantiles lie, and a first guess."""

    low: Floats
    high: Floats
    start: Floats


def cantelli(mean: Floats, std: Floats, below: Floats, above: Floats) -> Bracket:
    """Where P(Z ≤ z) = below, above = 1 − below, by Cantelli's inequality.

    mean − std √(above/below) ≤ z ≤ mean + std √(below/above); the guess is a Gaussian's quantile.
    """
    p, q = np.maximum(below, _SMALLEST), np.maximum(above, _SMALLEST)
    low, high = mean - std * np.sqrt(q / p), mean + std * np.sqrt(p / q)
    return Bracket(low, high, np.clip(mean + std * np.where(p < q, ndtri(p), -ndtri(q)), low, high))


def solve_quantiles(
    bulk: Pairwise,
    log_tails: Pairwise,
    log_density: Callable[[Ints, Floats], Floats],
    rows: Ints,
    q: Floats,
    bracket: Bracket,
) -> Floats:
    """Solve P(Z ≤ z) = q for each pair (row, q), within its bracket."""
    z = np.where(q <= 0, -np.inf, np.inf)
    inner = (q >= _TAIL) & (q <= 1 - _TAIL)
    left, right = (q > 0) & (q < _TAIL), (q < 1) & (q > 1 - _TAIL)

    def middle(p: Floats) -> Excess:
        def excess(r: Ints, x: Floats, at: Ints) -> tuple[Any, Any, Any]:
            cdf, pdf = bulk(r, x)
            return cdf - p[at], pdf, np.abs(cdf - p[at]) < 1e-13

        return excess

    def tail(log_p: Floats, side: int) -> Excess:
        def excess(r: Ints, x: Floats, at: Ints) -> tuple[Any, Any, Any]:
            log = log_tails(r, x)[side]
            sign = 1 if side == 0 else -1
            f = sign * (log - log_p[at])
            return f, np.exp(log_density(r, x) - log), np.abs(f) < 1e-12 * np.abs(log_p[at])

        return excess

    for where, excess in (
        (inner, middle(q[inner])),
        (left, tail(np.log(np.where(left, q, 0.5))[left], 0)),
        (right, tail(np.log1p(-np.where(right, q, 0.5))[right], 1)),
    ):
        if where.any():
            z[where] = _safeguarded(excess, rows[where], Bracket(*(end[where] for end in bracket)))
    return z


def _safeguarded(excess: Excess, rows: Ints, bracket: Bracket) -> Floats:
    """Root of an increasing function for each pair; only pairs that have not converged are evaluated."""
    low, high, z = bracket
    active = np.arange(len(z))
    for _ in range(_MAX_ITER):
        x = z[active]
        f, slope, done = excess(rows[active], x, active)
        above = f >= 0
        high[active] = np.where(above, x, high[active])
        low[active] = np.where(above, low[active], x)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            step = x - f / slope
        lo, hi = low[active], high[active]
        inside = (step > lo) & (step < hi)
        z[active] = np.where(done, x, np.where(inside, step, 0.5 * (lo + hi)))
        narrow = hi - lo <= 4e-16 * np.maximum(np.abs(lo), np.abs(hi))
        active = active[~(done | narrow)]
        if active.size == 0:
            break
    return z
