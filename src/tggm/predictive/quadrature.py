"""Integrals over the distributions of all rows: the trapezoid rule in t, z = centre + width · sinh t.

Integrands that are smooth on the scale of the width and vanish at both ends are integrated with an error that
falls exponentially with the number of nodes; partial integrals are those of a cubic spline in t, O(step⁴).
"""

from collections.abc import Callable

import numpy as np
from scipy.interpolate import CubicSpline

from tggm.arrays import Floats, Ints

NODES = 241
_REACH = float(np.arcsinh(60.0))  # the grid ends 60 widths from its centre
_T, _STEP = np.linspace(-_REACH, _REACH, NODES, retstep=True)
_CHUNK = 1024  # rows at a time

Pairwise2 = Callable[[Ints, Floats], tuple[Floats, Floats]]


class Quadrature:
    """Nodes of some rows, those of row i at centre_i + width_i · sinh t."""

    def __init__(self, centre: Floats, width: Floats) -> None:
        self._centre, self._width = centre, width

    def nodes(self, rows: Ints) -> tuple[Floats, Floats]:
        """Nodes and weights of the trapezoid rule, (rows, NODES) each."""
        width = self._width[rows][:, None]
        return self._centre[rows][:, None] + width * np.sinh(_T), width * np.cosh(_T) * _STEP

    def moments(self, density: Callable[[Ints, Floats], Floats]) -> tuple[Floats, Floats]:
        """Mean and variance of each row."""
        found = np.empty((2, len(self._centre)))
        for rows in chunks(len(self._centre)):
            z, w = self.nodes(rows)
            p = w * _table(density, rows, z)
            p /= p.sum(1, keepdims=True)
            mean = (p * z).sum(1)
            found[:, rows] = mean, (p * (z - mean[:, None]) ** 2).sum(1)
        return found[0], found[1]

    def distances(
        self, tails: Pairwise2, slope: Callable[[Floats], Floats], rows: Ints, z: Floats
    ) -> tuple[Floats, Floats]:
        """E|Y − y| and E|Y − Y'| at pairs, Y and y being increasing functions of Z and z.

        E|Y − y| = ∫_{−∞}^z F dy + ∫_z^∞ (1 − F) dy and E|Y − Y'| = 2 ∫ F (1 − F) dy with dy = slope(z) dz.

        Parameters
        ----------
        tails : callable
            F(z) and 1 − F(z) at pairs (row, z).
        slope : callable
            dy/dz at z.
        """
        to_y, apart = np.empty(len(z)), np.empty(len(z))
        order = np.argsort(rows, kind="stable")
        for some in chunks(len(self._centre)):
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
            to_y[at] = _partial(F * dy, row, u) + _partial((S * dy)[:, ::-1], row, -u)
        return to_y, apart


def chunks(rows: int) -> list[Ints]:
    """Rows, some at a time."""
    return [np.arange(i, min(i + _CHUNK, rows)) for i in range(0, rows, _CHUNK)]


def _table(function: Callable[[Ints, Floats], Floats], rows: Ints, z: Floats) -> Floats:
    """A function of pairs at all nodes of some rows."""
    return function(np.repeat(rows, z.shape[1]), z.ravel()).reshape(z.shape)


def _partial(values: Floats, row: Ints, t: Floats) -> Floats:
    """Integral from the first node up to t, (pairs,), of functions of which row i knows the values."""
    integral = CubicSpline(_T, values, axis=1).antiderivative().c  # (5, NODES − 1, rows)
    inside = np.clip(t, -_REACH, _REACH)
    panel = np.minimum(((inside + _REACH) / _STEP).astype(int), NODES - 2)
    x = inside - _T[panel]
    c = integral[:, panel, row]
    found: Floats = (((c[0] * x + c[1]) * x + c[2]) * x + c[3]) * x + c[4]
    return found
