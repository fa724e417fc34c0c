"""Integral of a log-concave function of one variable, by Gauss-Legendre panels."""

from collections.abc import Callable

import numpy as np
from scipy.optimize import brentq, minimize_scalar
from scipy.special import logsumexp

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(60)


def log_integral(log_f: Callable, lower: float, upper: float, panels: int = 24, drop: float = 60.0) -> float:
    """Return the log integral of exp(log_f) over the part of [lower, upper] where it is not negligible."""
    mode = minimize_scalar(
        lambda x: -log_f(x), bounds=(lower, upper), method="bounded", options={"xatol": 1e-12}
    ).x
    mode = max([lower, mode, upper], key=log_f)
    floor = log_f(mode) - drop
    ends = []
    for end in (lower, upper):
        above = end == mode or log_f(end) > floor
        ends.append(end if above else brentq(lambda x: log_f(x) - floor, mode, end, xtol=1e-14, rtol=1e-12))
    cuts = np.linspace(*ends, panels + 1)
    half = 0.5 * np.diff(cuts)[:, None]
    x = 0.5 * (cuts[1:] + cuts[:-1])[:, None] + half * _NODES[None, :]
    return float(logsumexp(log_f(x) + np.log(half * _WEIGHTS[None, :])))
