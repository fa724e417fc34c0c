"""Ridge regression in closed form, with the penalty that minimises the leave-one-out error.

It initialises the linear part of each member from the member's training rows.
"""

from functools import cache
from typing import NamedTuple

import numpy as np

from tggm.arrays import Floats
from tggm.models import Model
from tggm.training.rows import RowBlock

LEAST_ERROR = 1e-4  # smallest squared error of a standardised target to which W1 is scaled
NEARLY_LINEAR = 0.05  # squared error of the regression below which the noise starts at this error
_MOST_COLUMNS = 200  # used to decide on the logarithm of the target
_LEAST_GAIN = 0.1  # nats per row by which the logarithm must be better
_MOST_GAIN = 50.0  # nats; limits the effect of one outlier on the standard error
_ERRORS = 3.0  # standard errors that this gain must exceed
OUTPUT, NOISE = "likelihood.output.", "likelihood.log_noise"  # of the names of arrays
# penalties in units of the mean eigenvalue; the last gives only the mean
PENALTIES = np.append(np.logspace(-6, 3, 28), np.inf)


class Ridge(NamedTuple):
    """y = A x + b."""

    A: Floats  # (n, d)
    b: Floats  # (n,)
    left_out: Floats  # (rows, n) leave-one-out predictions
    error: Floats  # (n,) their mean squared error


@np.errstate(all="ignore")  # constant columns, and rows with a leverage of 1
def ridge(X: Floats, Y: Floats, weight: Floats) -> Ridge:
    """Regress each column of Y, (rows, n), on the columns of X, (rows, d), by weighted least squares."""
    w = weight / weight.sum()
    x0, y0 = w @ X, w @ Y
    root = np.sqrt(w)[:, None]
    Z, R = X - x0[None, :], (Y - y0[None, :]) * root
    Z *= root
    if len(Z) >= Z.shape[1]:
        values, V = np.linalg.eigh(Z.T @ Z)
        values = np.maximum(values, 0.0)
    else:  # without null directions of wide tables
        _, lengths, Vt = np.linalg.svd(Z, full_matrices=False)
        values, V = lengths**2, Vt.T
    U = Z @ V  # its columns have the squared lengths `values`
    unit = max(values.sum() / Z.shape[1], np.finfo(np.float64).tiny)
    del Z  # tables may be large
    shrink = 1 / (values[:, None] + unit * PENALTIES[None, :])  # (axes, penalties)
    shrink[values <= 1e-12 * values.max(initial=0.0)] = 0.0
    leverage = np.minimum(w[:, None] + U**2 @ shrink, 1 - 1e-9)
    moved = U.T @ R
    coefficients, best = [], []
    for j in range(Y.shape[1]):
        left = (R[:, j : j + 1] - U @ (shrink * moved[:, j : j + 1])) / (1 - leverage)
        k = int(np.argmin((left**2).sum(0)))
        coefficients.append(V @ (shrink[:, k] * moved[:, j]))
        best.append(left[:, k])
    A = np.stack(coefficients)
    errors = np.stack(best, axis=1)
    left_out = Y - np.where(root > 0, errors / root, 0.0)
    return Ridge(A, y0 - A @ x0, left_out, (errors**2).sum(0))


def start_at_ridge(model: Model, block: RowBlock, noise: bool) -> Model:
    """Set the linear part of each member to the ridge regression of its training rows.

    W1 is scaled to the error of the regression. If `noise` is set, the noise starts at this error if it is
    below 0.05: otherwise most of the training would only reduce the noise.
    """
    y = getattr(block.data.y, "value", block.data.y)  # limits count as measurements
    data = model.features.inputs(block.data.X), y, block.weight

    @cache
    def regression(rows: bytes) -> Ridge:  # members of a group have the same rows
        at = np.frombuffer(rows, np.int32)
        return ridge(*(np.asarray(a)[at].astype(np.float64) for a in data))

    members = zip(np.asarray(block.members.train), np.asarray(block.members.n_train), strict=True)
    found = [regression(rows[:n].tobytes()) for rows, n in members]
    error = np.stack([np.clip(each.error, LEAST_ERROR, 1.0) for each in found])
    arrays = model.arrays()
    return model.with_arrays({
        OUTPUT + "W1": arrays[OUTPUT + "W1"] * np.sqrt(error)[:, :, None],
        OUTPUT + "A": np.stack([each.A for each in found]),
        OUTPUT + "b1": np.stack([each.b for each in found]),
        NOISE: np.where((error < NEARLY_LINEAR) & noise, np.log(error), arrays[NOISE]),
    })  # fmt: skip


def log_is_better(X: Floats, y: Floats, weight: Floats) -> bool:
    """Return whether a linear model of log y fits clearly better than one of y.

    Ridge regressions are compared by the leave-one-out log-likelihood of y, on at most 200 columns. The
    logarithm must gain 0.1 nats per row and three standard errors.
    """
    log, w, X = np.log(y), weight, select_columns(X, y)
    spread = np.sqrt(np.average((X - X.mean(0)) ** 2, axis=0, weights=w))
    Y = np.stack([y, log], 1)
    square = (Y - ridge(X / np.where(spread > 0, spread, 1.0), Y, w).left_out) ** 2
    var = (w @ square - w[:, None] * square) / (w.sum() - w)[:, None]  # variance over the other rows
    density = -0.5 * (np.log(np.maximum(var, np.finfo(float).tiny)) + square / var)
    gain = np.clip(density[:, 1] - log - density[:, 0], -_MOST_GAIN, _MOST_GAIN)
    mean = float(np.average(gain, weights=w))
    error = np.sqrt((w**2 * (gain - mean) ** 2).sum()) / w.sum()
    return bool(mean > max(_LEAST_GAIN, _ERRORS * error))


def select_columns(X: Floats, y: Floats) -> Floats:
    """Select the columns with the largest correlations with the ranks of the target."""
    if X.shape[1] <= _MOST_COLUMNS:
        return X
    rank = np.argsort(np.argsort(y)) - 0.5 * (len(y) - 1)
    centred = X - X.mean(0)
    spread = np.sqrt((centred**2).sum(0))
    correlation = np.abs(rank @ centred) / np.where(spread > 0, spread, np.inf)
    return X[:, np.sort(np.argsort(-correlation)[:_MOST_COLUMNS])]
