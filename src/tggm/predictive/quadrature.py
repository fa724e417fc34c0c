"""Integrals over the distributions of all rows: the trapezoid rule in t, z = centre + width · sinh t.

Integrands that are smooth on the scale of the width and vanish at both ends are integrated with an error that
falls exponentially with the number of nodes; partial integrals are those of a cubic spline in t, O(step⁴).
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
_CHUNK = 1024  # rows at a time
_TINY = float(np.finfo(np.float64).tiny)
_LOST = 0.05  # probability that nodes may miss
_QUANTILES = 20  # that moments are taken of then

Map = Callable[[Floats], Floats]
AtPairs = Callable[[Ints, Floats], Floats]
Quantiles = Callable[[Ints, Floats], Floats]  # rows and probabilities to z, (rows, probabilities)


class Quadrature:
    """Nodes of some rows, those of row i at centre_i + width_i · sinh t."""

    def __init__(self, centre: Floats, width: Floats) -> None:
        self._centre, self._width = centre, width

    def nodes(self, rows: Ints) -> tuple[Floats, Floats]:
        """Nodes and weights of the trapezoid rule, (rows, NODES) each."""
        width = self._width[rows][:, None]
        return self._centre[rows][:, None] + width * np.sinh(_T), width * np.cosh(_T) * _STEP

    def moments(self, log_density: AtPairs, place: Map, quantiles: Quantiles) -> tuple[Floats, Floats]:
        """Mean and variance of Y = place(Z) in each row, from log-densities of Z at pairs.

        Where members are far apart and too narrow for the nodes, those of values of equal probability are
        taken, which `quantiles` gives: rough, whatever the distribution.
        """
        found = np.empty((3, len(self._centre)))
        for rows in _chunks(len(self._centre)):
            z, w = self.nodes(rows)
            y = place(z)
            log = log_density(np.repeat(rows, NODES), z.ravel()).reshape(z.shape) + np.log(w)
            p = np.exp(log)
            total = np.maximum(p.sum(1), _TINY)
            with np.errstate(divide="ignore", over="ignore"):  # far values have squares beyond all floats
                mean = (p * y).sum(1) / total
                squares = np.exp(log + 2 * np.log(np.abs(y - mean[:, None])))
                found[:, rows] = mean, squares.sum(1) / total, total
        mean, var, seen = found
        if (lost := np.flatnonzero(np.abs(seen - 1) > _LOST)).size:
            y = place(quantiles(lost, (np.arange(_QUANTILES) + 0.5) / _QUANTILES))
            with np.errstate(over="ignore", invalid="ignore"):
                mean[lost] = (y / _QUANTILES).sum(1)
                var[lost] = ((y - mean[lost][:, None]) ** 2).mean(1)
        return mean, var

    def distances(
        self, tails: Pairwise, place: Map, slope: Map, rows: Ints, z: Floats, y: Floats
    ) -> tuple[Floats, Floats]:
        """E|Y − y| and E|Y − Y'| at pairs, Y = place(Z) increasing, from F and 1 − F of Z at pairs.

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
            flat = np.repeat(some, NODES), nodes.ravel()
            F, S = (v.reshape(nodes.shape) for v in tails(*flat))
            dy = w / _STEP * slope(nodes)
            row = rows[at] - some[0]
            apart[at] = 2 * _STEP * (F * S * dy).sum(1)[row]
            u = np.arcsinh((z[at] - self._centre[rows[at]]) / self._width[rows[at]])
            below, all_below = _partial((F * dy)[:, _HALF::-1], row, -u)
            above, all_above = _partial((S * dy)[:, _HALF:], row, u)
            away = np.abs(y[at] - place(self._centre[rows[at]]))
            to_y[at] = away - 2 * np.where(u < 0, below, above) + all_below + all_above
        return to_y, apart


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
