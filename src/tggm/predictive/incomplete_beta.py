"""The regularised incomplete beta function in logarithms, where the function itself underflows too."""

import numpy as np
from scipy.special import betainc, betaln

from tggm.arrays import Floats

_SMALL = 1e-200  # below this the series is summed
_TERMS = 200


def log_betainc(a: float, b: float, log_x: Floats) -> Floats:
    r"""Log of I_x(a, b) at x = exp(log_x) ≤ 1, a relative error of I near 1e-13 as long as a, b ≤ 1000.

    .. math::
        I_x(a, b) = \frac{x^a (1 - x)^b}{a B(a, b)} \sum_{n \ge 0} \frac{(a + b)_n}{(a + 1)_n} x^n

    (DLMF 8.17.8) is summed where I is so small that its logarithm needs it: there x is small, or a large and
    the ratio of terms at most (a + b) x / (a + 1) < 1.
    """
    x = np.exp(log_x)
    value = betainc(a, b, x)
    small = value < _SMALL
    with np.errstate(divide="ignore"):
        out: Floats = np.log(value)
    if small.any():
        x, log = x[small], log_x[small]
        term = np.ones_like(x)
        total = np.ones_like(x)
        for n in range(_TERMS):
            term = term * ((a + b + n) / (a + 1 + n) * x)
            total += term
            if not np.any(term > 1e-17 * total):
                break
        out[small] = a * log + b * np.log1p(-x) - np.log(a) - betaln(a, b) + np.log(total)
    return out


def log_tails_of_beta(a: float, b: float, log_f: Floats, log_s: Floats) -> tuple[Floats, Floats]:
    """Logs of I_F(a, b) and 1 − I_F(a, b) from log F and log(1 − F), each accurate where it is near 0."""
    low, high = log_betainc(a, b, log_f), log_betainc(b, a, log_s)
    with np.errstate(divide="ignore"):
        return (
            np.where(high < -1.0, np.log1p(-np.exp(np.minimum(high, -1.0))), low),
            np.where(low < -1.0, np.log1p(-np.exp(np.minimum(low, -1.0))), high),
        )
