r"""Class probabilities made sharper or softer, as rows that were held out advise.

.. math::
    q_c \propto \exp(\log p_c / T + b_c)

T > 1 makes them softer, T < 1 sharper; which class is the most probable changes only with the biases b. Both
maximise the weighted log-probability of the labels of held-out rows, less a penalty that keeps few rows from
saying much. Each number must gain one nat, as in Akaike's criterion: else there is no temperature, or no
biases. Guo, Pleiss, Sun & Weinberger (2017), On calibration of modern neural networks, ICML.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.optimize import minimize

from tggm import settings
from tggm.arrays import Floats, Ints
from tggm.predictive.pools import Numbers

KIND = "temperature"  # in model files
LOWEST, HIGHEST = 0.1, 10.0  # temperatures
_MOST_BIAS = 10.0
_FEWEST_ROWS = 20  # of equal weight
_WORST = -50.0  # log-probability of a label that one row can lose at most by
# deviations of log T and of biases before any row is seen: of fresh rows, and of rows that members held out,
# which seem easier than they are as they have said when training ends
FRESH, HELD = 0.5, 0.2


def tempered(log_p: Floats, numbers: Sequence[float]) -> Floats:
    """Log-probabilities, (rows, n), with a temperature and perhaps biases; rows sum to one."""
    if not numbers:
        return log_p
    scaled = log_p / numbers[0] + (np.asarray(numbers[1:]) if len(numbers) > 1 else 0.0)
    scaled -= np.logaddexp.reduce(scaled, axis=1)[:, None]
    return scaled


def fitted_temperature(log_p: Floats, label: Ints, weight: Floats, spread: float = FRESH) -> Numbers:
    """T, or T and a bias for each class, for these held-out rows; () if they had better stay as they are.

    Parameters
    ----------
    log_p : array, shape (rows, n)
        Log-probabilities of the classes.
    label : array of int, shape (rows,)
        Places of the classes that were observed.
    weight : array, shape (rows,)
        Rows without a weight are ignored.
    spread : float
        How far log T and biases may be from 0 before any row is seen.
    """
    total = weight.sum()
    if total <= 0 or total**2 / (weight**2).sum() < _FEWEST_ROWS:
        return ()
    w = weight * total / (weight**2).sum()  # sums to the number of rows that equal weights would be worth
    tame = np.maximum(log_p, 2 * _WORST)
    plain = -_loss(np.zeros(1), tame, label, w, spread)
    n = log_p.shape[1]
    soft, softer = _best(1, tame, label, w, spread)
    biased, better = _best(1 + n, tame, label, w, spread) if n < 0.1 * len(w) else (soft, -np.inf)
    if better - (n - 1) > softer and better - n > plain:
        return _numbers(biased)
    return _numbers(soft) if softer - 1 > plain else ()


def _best(count: int, log_p: Floats, label: Ints, w: Floats, spread: float) -> tuple[Floats, float]:
    bounds = [(np.log(LOWEST), np.log(HIGHEST))] + [(-_MOST_BIAS, _MOST_BIAS)] * (count - 1)
    found = minimize(_loss, np.zeros(count), args=(log_p, label, w, spread), method="L-BFGS-B", bounds=bounds)
    return found.x, -float(found.fun)


def _loss(u: Floats, log_p: Floats, label: Ints, w: Floats, spread: float) -> float:
    each = tempered(log_p, _numbers(u))[np.arange(len(label)), label]
    return float(-w @ np.maximum(each, _WORST) + 0.5 * np.sum((u / spread) ** 2))


def _numbers(u: Floats) -> Numbers:
    return (float(np.exp(u[0])), *(float(b) for b in u[1:]))


def checked_temperature(numbers: Any, n_classes: int) -> Numbers:
    """What a file says, or an error."""
    if not isinstance(numbers, list) or len(numbers) not in (0, 1, 1 + n_classes):
        raise ValueError(f"a temperature has 1 or {1 + n_classes} numbers; got {numbers!r}")
    values = [settings.number("temperature", x) for x in numbers]
    if values and not (LOWEST <= values[0] <= HIGHEST and all(abs(b) <= _MOST_BIAS for b in values[1:])):
        raise ValueError(f"a temperature is from {LOWEST:g} to {HIGHEST:g}, biases below {_MOST_BIAS:g}")
    return tuple(float(x) for x in values)
