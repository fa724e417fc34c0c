"""Integrals over the distributions of all rows: the trapezoid rule in t, z = centre + width · sinh t.

Integrands that are smooth on the scale of the width and vanish at both ends are integrated with an error that
falls exponentially with the number of nodes; partial integrals are those of a cubic spline in t, O(step⁴).

Distributions say cheaply what they know to absolute accuracy (`bulk`), and at a price what they know of tails
(`log_tails`, `log_density`). Tails are asked for where they are small, and only as far out as they matter.
"""

from collections.abc import Callable

import numpy as np
from scipy.interpolate import CubicSpline

from tggm.arrays import Floats, Ints
from tggm.predictive.quantile import Pairwise

NODES = 241
_REACH = float(np.arcsinh(60.0))  # the grid ends 60 widths from its centre
_T, _STEP = np.linspace(-_REACH, _REACH, NODES, retstep=True)
_HALF = NODES // 2  # the node at the centre
_DOWN, _UP = slice(_HALF, None, -1), slice(_HALF, None)  # nodes from the centre outwards
_CHUNK = 1024  # rows at a time
_ROUGH = 1e-10  # probability, or density in units of the width, below which tails are asked for
_SLIGHT = 1e-8  # share of an integral at which nodes farther out are left alone: tails are dear
_BLOCK = 8  # nodes whose tails are asked for together
_TINY = float(np.finfo(np.float64).tiny)
_LARGE = 1e300
_LOST = 0.05  # probability that nodes may miss
_QUANTILES = 20  # that moments are taken of then

Map = Callable[[Floats], Floats]
AtPairs = Callable[[Ints, Floats], Floats]
Quantiles = Callable[[Ints, Floats], Floats]  # rows and probabilities to z, (rows, probabilities)


class Quadrature:
    """Nodes of some rows, those of row i at centre_i + width_i · sinh t."""

    def __init__(self, centre: Floats, width: Floats) -> None:
        self._centre = centre
        self._width = np.maximum(width, np.spacing(np.abs(centre)))  # too large to tell apart

    def nodes(self, rows: Ints) -> tuple[Floats, Floats]:
        """Nodes and weights of the trapezoid rule, (rows, NODES) each."""
        width = self._width[rows][:, None]
        return self._centre[rows][:, None] + width * np.sinh(_T), width * np.cosh(_T) * _STEP

    def moments(
        self, density: AtPairs, log_density: AtPairs, place: Map, quantiles: Quantiles
    ) -> tuple[Floats, Floats]:
        """Mean and variance of Y = place(Z) in each row, from densities of Z at pairs.

        Where members are far apart and too narrow for the nodes, those of values of equal probability are
        taken, which `quantiles` gives: rough, whatever the distribution.
        """
        found = np.empty((3, len(self._centre)))
        for rows in _chunks(len(self._centre)):
            z, w = self.nodes(rows)
            y = place(z)
            width = self._width[rows][:, None]
            p = density(np.repeat(rows, NODES), z.ravel()).reshape(z.shape) * width

            def exact(row: Ints, z: Floats, rows: Ints = rows) -> Floats:
                return np.exp(log_density(rows[row], z)) * self._width[rows[row]]

            _exact_outskirts(p, p, z, w / width * self._squares(rows, y, place), (exact, exact))
            with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
                log = np.log(p) + np.log(w / width)  # far values have squares beyond all floats
                p = np.exp(log)
                total = np.maximum(p.sum(1), _TINY)
                mean = (p * y).sum(1) / total
                squares = np.exp(log + 2 * np.log(np.abs(y - mean[:, None])))
                found[:, rows] = mean, np.where(p > 0, squares, 0.0).sum(1) / total, total
        mean, var, seen = found
        if (lost := np.flatnonzero(~(np.abs(seen - 1) <= _LOST))).size:
            y = place(quantiles(lost, (np.arange(_QUANTILES) + 0.5) / _QUANTILES))
            with np.errstate(over="ignore", invalid="ignore"):
                mean[lost] = (y / _QUANTILES).sum(1)
                var[lost] = ((y - mean[lost][:, None]) ** 2).mean(1)
        return mean, np.fmax(var, _least_variance(mean))

    def _squares(self, rows: Ints, y: Floats, place: Map) -> Floats:
        """1 + (Y less its value at the centre)², in units of its spread; finite."""
        centre, width = self._centre[rows], self._width[rows]
        middle, spread = place(centre), 0.5 * (place(centre + width) - place(centre - width))
        with np.errstate(over="ignore"):
            square = ((y - middle[:, None]) / np.maximum(spread, _TINY)[:, None]) ** 2
        return np.minimum(1 + square, _LARGE)

    def distances(
        self, bulk: Pairwise, log_tails: Pairwise, place: Map, slope: Map, rows: Ints, z: Floats, y: Floats
    ) -> tuple[Floats, Floats]:
        """E|Y − y| and E|Y − Y'| at pairs, Y = place(Z) increasing, from F of Z at pairs.

        With c the centre, E|Y − c| = ∫_{−∞}^c F dy + ∫_c^∞ (1 − F) dy and E|Y − Y'| = 2 ∫ F (1 − F) dy, where
        dy = slope(z) dz. For y > c, E|Y − y| = E|Y − c| + y − c − 2 ∫_c^y (1 − F) dy, and in the same way
        below: what is integrated falls on both sides.
        """
        to_y, apart = np.empty(len(z)), np.empty(len(z))
        order = np.argsort(rows, kind="stable")
        for some in _chunks(len(self._centre)):
            first, last = np.searchsorted(rows[order], [some[0], some[-1] + 1])
            at = order[first:last]
            if not len(at):
                continue
            nodes, w = self.nodes(some)
            dy = w / _STEP * slope(nodes)
            F, S = _tails(bulk, log_tails, some, nodes, dy)
            row = rows[at] - some[0]
            apart[at] = 2 * _STEP * (F * S * dy).sum(1)[row]
            u = np.arcsinh((z[at] - self._centre[rows[at]]) / self._width[rows[at]])
            below, all_below = _partial((F * dy)[:, _HALF::-1], row, -u)
            above, all_above = _partial((S * dy)[:, _HALF:], row, u)
            away = np.abs(y[at] - place(self._centre[rows[at]]))
            to_y[at] = away - 2 * np.where(u < 0, below, above) + all_below + all_above
        return to_y, apart


def _tails(
    bulk: Pairwise, log_tails: Pairwise, rows: Ints, nodes: Floats, weight: Floats
) -> tuple[Floats, Floats]:
    """F and 1 − F at the nodes of rows, each exact on its own side of the centre, as far as it matters."""
    F = np.clip(bulk(np.repeat(rows, NODES), nodes.ravel())[0], 0.0, 1.0).reshape(nodes.shape)
    S = 1 - F

    def below(row: Ints, z: Floats) -> Floats:
        return np.exp(log_tails(rows[row], z)[0])

    def above(row: Ints, z: Floats) -> Floats:
        return np.exp(log_tails(rows[row], z)[1])

    _exact_outskirts(F, S, nodes, weight, (below, above))
    return F, S


def _exact_outskirts(
    low: Floats, high: Floats, nodes: Floats, weight: Floats, exact: tuple[AtPairs, AtPairs]
) -> None:
    """Replace small values at nodes below the centre (of `low`) and above it (of `high`), in place."""
    for values, at, tail in zip((low, high), (_DOWN, _UP), exact, strict=True):
        _replace_small(values[:, at], nodes[:, at], weight[:, at], tail)


def _replace_small(values: Floats, nodes: Floats, weight: Floats, exact: AtPairs) -> None:
    """Exact values beyond the last one that is not small, (rows, nodes), in place.

    Blocks of nodes are added until the last value, times its weight, is a slight share of the row's sum; what
    is farther out is taken as 0. Densities may be small between members, too: there they are left alone.
    """
    n = values.shape[1]
    begin = n - (values >= _ROUGH)[:, ::-1].argmax(1)  # n if all are small
    values[np.arange(n) >= begin[:, None]] = 0.0
    rows = np.flatnonzero(begin < n)
    bound = _ROUGH * weight[rows, begin[rows]]
    while (rows := rows[bound > _SLIGHT * (values[rows] * weight[rows]).sum(1)]).size:
        at = np.minimum(begin[rows][:, None] + np.arange(_BLOCK), n - 1)
        row = np.repeat(rows, _BLOCK)
        values[row, at.ravel()] = exact(row, nodes[row, at.ravel()])
        begin[rows] += _BLOCK
        last = values[rows, at[:, -1]] * weight[rows, at[:, -1]]
        inner = begin[rows] < n
        rows, bound = rows[inner], last[inner]


def _least_variance(mean: Floats) -> Floats:
    """What rounding the mean is worth: a smaller variance cannot be told, and 0 is none."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        least: Floats = np.fmax(np.spacing(mean) ** 2, _TINY)
    return least


def _chunks(rows: int) -> list[Ints]:
    """Rows, some at a time."""
    return [np.arange(i, min(i + _CHUNK, rows)) for i in range(0, rows, _CHUNK)]


def _partial(values: Floats, row: Ints, t: Floats) -> tuple[Floats, Floats]:
    """Integrals from 0 up to t ≥ 0 and over all t ≥ 0, (pairs,) each, of functions known at the nodes."""
    integral = CubicSpline(_T[_HALF:], values, axis=1).antiderivative()
    c = integral.c  # (5, panels, rows)
    inside = np.clip(t, 0.0, _REACH)
    panel = np.minimum((inside / _STEP).astype(int), _HALF - 1)
    x = inside - _T[_HALF + panel]
    c = c[:, panel, row]
    found: Floats = (((c[0] * x + c[1]) * x + c[2]) * x + c[3]) * x + c[4]
    return found, integral(_REACH)[row]
