"""Compute the truncated normal in many digits, for all fits and reference tables.

Only mpmath is used, never the package. h is N(alpha, 1) given h >= 0; far in the tail the textbook forms lose
about ``8 log10(-alpha)`` digits at the fourth cumulant: 160 digits leave more than 60 up to alpha = -1e12.
"""

from typing import NamedTuple

import mpmath as mp

mp.mp.dps = 160


class Truncated(NamedTuple):
    """Quantities of N(alpha, 1) given h >= 0 that the package computes."""

    log_ndtr: mp.mpf  # log Phi(alpha)
    hazard: mp.mpf  # phi(alpha) / Phi(alpha)
    mean: mp.mpf  # g
    var: mp.mpf  # omega^2
    third: mp.mpf  # third cumulant
    fourth: mp.mpf  # fourth cumulant, the derivative of the third


def truncated(alpha: mp.mpf) -> Truncated:
    """Compute cumulants by the textbook formulas, each the derivative of the one before."""
    alpha = mp.mpf(alpha)
    tail = mp.erfc(abs(alpha) / mp.sqrt(2)) / 2  # Phi(-|alpha|)
    Phi = tail if alpha < 0 else 1 - tail
    r = mp.exp(-alpha * alpha / 2) / mp.sqrt(2 * mp.pi) / Phi
    g = alpha + r
    v = 1 - r * g
    third = r * (g * g - v)
    fourth = r * (3 * g * v - g**3 - third)
    log_ndtr = mp.log(tail) if alpha < 0 else mp.log1p(-tail)
    return Truncated(log_ndtr, r, g, v, third, fourth)
