"""Targets of which some are limits or intervals instead of measurements, and scores of survival functions."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tggm.arrays import Floats

SIDES = {"left": -1, "none": 0, "right": 1}


@dataclass(frozen=True, eq=False)
class Censored:
    """Values of which some are limits.

    Parameters
    ----------
    value : array_like
        Measurements; limits where `side` is not 0; NaN where the value is missing.
    side : array_like of the same shape
        0 or "none": measured. 1 or "right": the true value is at least `value` (right-censored). −1 or
        "left": it is at most `value`.
    """

    value: ArrayLike
    side: ArrayLike

    def __post_init__(self) -> None:
        sides("side", self.side, np.shape(self.value))


def sides(name: str, side: ArrayLike, shape: tuple[int, ...]) -> Floats:
    """Convert sides given as numbers or words to −1, 0 and 1; `name` is the argument's name in errors."""
    array = np.asarray(side)
    if array.dtype.kind in "US":
        unknown = sorted(set(np.unique(array).tolist()) - SIDES.keys())
        if unknown:
            raise ValueError(f"`{name}`: sides are 'left', 'none' or 'right'; got {unknown[0]!r}.")
        array = np.vectorize(SIDES.__getitem__, otypes=[float])(array)
    array = np.asarray(array, np.float64)
    wrong = array[~np.isin(array, (-1, 0, 1))]
    if array.size != np.prod(shape) or len(wrong):
        got = f"{wrong[0]:g}" if len(wrong) else f"{array.size} for {math.prod(shape)} targets"
        raise ValueError(f"`{name}`: sides must be -1 (at most), 0 (measured) or 1 (at least); got {got}.")
    return array.reshape(shape)


def read_limits(y: Any, censored: Any) -> tuple[Floats, Floats, Floats]:
    """Return values, sides and half widths of targets with two parts, (rows,) each; side 2 is an interval.

    `y` is a structured array with an event indicator and a time, as in scikit-survival, or, with
    ``censored="interval"``, has two columns, the ends of the intervals: equal ends are a measurement, and an
    infinite end gives a limit.
    """
    array = np.asarray(y)
    if names := array.dtype.names:
        kinds = "".join(array.dtype[name].kind for name in names)
        if censored is not None or len(names) != 2 or kinds.count("b") != 1:
            raise ValueError(
                f"`y` is a structured array with the fields {names}; it must have an event indicator (bool) "
                "and a time, and `censored` must be None."
            )
        event, time = array[names[kinds.index("b")]], array[names[1 - kinds.index("b")]]
        return np.asarray(time, np.float64), np.where(event, 0.0, 1.0), np.zeros(len(array))
    if censored != "interval":
        raise ValueError(f"`censored` must be 'interval' or an array of sides; got {censored!r}.")
    ends = np.asarray(array, np.float64)
    pairs = ends.ndim == 2 and ends.shape[1] == 2
    if not pairs or not (ordered := ends[:, 0] <= ends[:, 1]).all():
        got = (
            f"{tuple(ends[~ordered][0].tolist())} in row {ordered.argmin()}"
            if pairs
            else f"shape {ends.shape}"
        )
        raise ValueError(
            "`y` must have two columns with `censored='interval'`, lower <= upper ends without NaN; got "
            f"{got}."
        )
    low, high = ends.T
    open_low, open_high = np.isinf(low), np.isinf(high)
    if (open_low & open_high).any() or (low == np.inf).any() or (high == -np.inf).any():
        raise ValueError("`y` has a row without a finite end; leave such rows out.")
    side = np.select([low == high, open_low, open_high], [0.0, -1.0, 1.0], 2.0)
    low, high = np.where(open_low, high, low), np.where(open_high, low, high)
    return 0.5 * (low + high), side, 0.5 * (high - low)


def censored_scores(law: Any, y: ArrayLike, side: ArrayLike) -> dict[str, float]:
    """Return scores of predictive distributions for targets of which some are limits.

    They are the mean log-density or log-probability of the limit and, without left limits, concordance and
    integrated Brier score at 15 quantiles of the measured targets, from 10 % to 80 %.
    """
    time, at = np.asarray(y, np.float64), np.asarray(side, np.float64)
    log = np.select([at == 0, at > 0], [law.logpdf(time), law.logsf(time)], law.logcdf(time))
    found, event = {"log_density": float(log.mean())}, at == 0
    if (at < 0).any() or not event.any():
        return found
    times = np.unique(np.quantile(time[event], np.linspace(0.1, 0.8, 15)))
    survival = np.exp(law.logsf(times[None]))
    found["concordance"] = concordance_index(time, event, -survival.mean(1))
    return found | {"brier": integrated_brier_score(time, event, survival, times)}


def concordance_index(time: ArrayLike, event: ArrayLike, risk: ArrayLike) -> float:
    """Return Harrell's index: the share of comparable pairs in which the earlier event has the higher risk.

    A pair is comparable if the earlier time is an event, or if both are equal and one is. Equal risks count
    one half. NaN without pairs.
    """
    t, died, r = np.asarray(time, np.float64), np.asarray(event, np.bool_), np.asarray(risk, np.float64)
    right = pairs = 0.0
    for i in np.flatnonzero(died):
        later = r[(t > t[i]) | ((t == t[i]) & ~died)]
        pairs += len(later)
        right += (r[i] > later).sum() + 0.5 * (r[i] == later).sum()
    return float(right / pairs) if pairs else float("nan")


def integrated_brier_score(time: ArrayLike, event: ArrayLike, survival: ArrayLike, times: ArrayLike) -> float:
    r"""Return the mean over `times` of the Brier score of survival probabilities, (rows, times).

    .. math:: \frac{1}{N} \sum_i \frac{1[T_i \le t, d_i] S_i(t)^2}{G(T_i-)}
        + \frac{1[T_i > t] (1 - S_i(t))^2}{G(t)}

    with G the Kaplan-Meier estimate that a row is not yet censored (Graf et al., 1999), from these rows.
    Times after the last one give no score. The mean is by the trapezoidal rule.
    """
    T, died, t = np.asarray(time, np.float64), np.asarray(event, np.bool_), np.asarray(times, np.float64)
    S, (points, place) = np.asarray(survival, np.float64), np.unique(T, return_inverse=True)
    deaths, lost = np.bincount(place, died), np.bincount(place, ~died)
    left = len(T) - np.cumsum(deaths + lost) + lost  # censored rows at the time of an event come after it
    G = np.append(1.0, np.cumprod(1 - lost / np.maximum(left, 1)))
    before, at = G[np.searchsorted(points, T)], G[np.searchsorted(points, t, side="right")]
    if (at == 0).any():
        raise ValueError(f"`times` must be before the last time, {points[-1]:g}; got {t.max():g}.")
    dead = (T[:, None] <= t) & died[:, None]
    each = np.where(dead, S**2 / before[:, None], np.where(T[:, None] > t, (1 - S) ** 2 / at, 0.0)).mean(0)
    return float(each[0] if len(t) == 1 else np.trapezoid(each, t) / (t[-1] - t[0]))
