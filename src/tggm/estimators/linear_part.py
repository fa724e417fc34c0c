"""Where the linear part of a regression starts, and how predictions fall back to it: ridge regression.

It is in closed form, with the penalty that predicts left-out rows best; the largest is the mean alone.

Every member starts at the ridge regression of the rows that it trains on. After training the ensemble is
blended with the ridge regression of all rows, by the weight that predicts rows best which nobody has seen: of
members those that held a row out, of the regression what the other rows say. A blend of a model with a linear
one is a model again, whose weights W1 are smaller and whose linear part and noise are between both.
"""

from typing import Any, NamedTuple

import numpy as np

from tggm.arrays import Floats
from tggm.models import Model
from tggm.predictive.calibration import HeldOut

LEAST_ERROR = 1e-4  # squared, of a standardised target: what the other weights are at least drawn for
NEARLY = 0.05  # squared error of a regression that tells nearly all: the noise starts there, too
LEAST_NOISE = 1e-12  # of a standardised target that the linear model knows all of
OUTLYING = 100.0  # times the median squared error: such rows choose no share
LEAST_SHARE = 0.05  # of the linear model, below which the ensemble stays as it is
OUTPUT = "likelihood.output."
# penalties in units of the mean eigenvalue; the last leaves the mean alone
PENALTIES = np.append(np.logspace(-6, 3, 28), np.inf)


class Ridge(NamedTuple):
    """y = A x + b."""

    A: Floats  # (n, d)
    b: Floats  # (n,)
    left_out: Floats  # (rows, n) what the other rows say of each row
    error: Floats  # (n,) mean squared error of that


def ridge(X: Floats, Y: Floats, weight: Floats) -> Ridge:
    """Weighted least squares of each column of Y, (rows, n), on the columns of X, (rows, d)."""
    with np.errstate(all="ignore"):  # columns that vary by nothing, and rows that say all by themselves
        return _ridge(X, Y, weight)


def _ridge(X: Floats, Y: Floats, weight: Floats) -> Ridge:
    w = weight / weight.sum()
    x0, y0 = w @ X, w @ Y
    root = np.sqrt(w)[:, None]
    Z, R = (X - x0[None, :]) * root, (Y - y0[None, :]) * root
    values, V = _axes(Z)
    U = Z @ V  # its columns have the squared lengths `values`
    unit = max(values.sum() / Z.shape[1], np.finfo(np.float64).tiny)
    shrink = 1 / (values[:, None] + unit * PENALTIES[None, :])  # (axes, penalties)
    shrink[values <= 1e-12 * values.max(initial=0.0)] = 0.0
    leverage = np.minimum(w[:, None] + U**2 @ shrink, 1 - 1e-9)
    moved = U.T @ R
    coefficients, best = [], []
    for j in range(Y.shape[1]):
        residual = R[:, j : j + 1] - U @ (shrink * moved[:, j : j + 1])
        left = residual / (1 - leverage)
        k = int(np.argmin((left**2).sum(0)))
        coefficients.append(V @ (shrink[:, k] * moved[:, j]))
        best.append(left[:, k])
    A = np.stack(coefficients)
    errors = np.stack(best, axis=1)
    left_out = Y - np.where(root > 0, errors / root, 0.0)
    return Ridge(A, y0 - A @ x0, left_out, (errors**2).sum(0))


def _axes(Z: Floats) -> tuple[Floats, Floats]:
    """Eigenvalues of ZᵀZ and their vectors, (d, axes); without those that fewer rows than columns make 0."""
    if len(Z) >= Z.shape[1]:
        values, V = np.linalg.eigh(Z.T @ Z)
        return np.maximum(values, 0.0), V
    _, lengths, Vt = np.linalg.svd(Z, full_matrices=False)
    return lengths**2, Vt.T


def started(
    model: Model, parts: list[Any], X: Floats, Y: Floats, weight: Floats, noise: bool = True
) -> Model:
    """Members with a leading axis, each at the ridge regression of its part of the rows.

    The other weights of the outputs are made as small as what is left to explain. So is the noise, if it is
    learned and the regression tells nearly all: it would take most of the training to fall so far.
    """
    found = [ridge(X[part], Y[part], weight[part]) for part in parts]
    error = np.stack([np.clip(each.error, LEAST_ERROR, 1.0) for each in found])
    W1 = model.arrays()[OUTPUT + "W1"] * np.sqrt(error)[:, :, None]
    made = replaced(model, W1, np.stack([each.A for each in found]), np.stack([each.b for each in found]))
    log_noise = made.arrays()["likelihood.log_noise"]
    first = np.where((error < NEARLY) & noise, np.log(error), log_noise).astype(log_noise.dtype)
    return made.replaced(made.arrays() | {"likelihood.log_noise": first})


def blended(model: Model, held: list[HeldOut], linear: Ridge) -> tuple[Model, list[HeldOut]]:
    """The members, and what they say of held-out rows, with a share of the linear model in each output."""
    share, noise = (np.array(pair) for pair in zip(*map(_share, held, linear.left_out.T), strict=True))
    if not share.any():
        return model, held
    arrays = model.arrays()
    rest = 1 - share
    W1, A, b1 = (np.asarray(arrays[OUTPUT + name], np.float64) for name in ("W1", "A", "b1"))
    old = np.exp(np.asarray(arrays["likelihood.log_noise"], np.float64))
    made = replaced(
        model,
        rest[None, :, None] * W1,
        rest[None, :, None] * A + share[None, :, None] * linear.A[None],
        rest[None] * b1 + share[None] * linear.b[None],
    )
    log_noise = np.log(np.maximum(rest[None] ** 2 * old + noise[None], LEAST_NOISE)).astype(
        arrays["likelihood.log_noise"].dtype
    )
    made = made.replaced(made.arrays() | {"likelihood.log_noise": log_noise})
    later = [
        each._replace(
            mean=(1 - w) * each.mean + w * left[None, :],
            var=(1 - w) ** 2 * each.var + more,
        )
        for each, left, w, more in zip(held, linear.left_out.T, share, noise, strict=True)
    ]
    return made, later


def _share(held: HeldOut, left_out: Floats) -> tuple[float, float]:
    """Share of the linear model in the best prediction of one output, and the variance that comes with it.

    Few members held out a row, and the mean of a few errs more than that of all, by D (1/k − 1/K) if their
    means vary by D: so much is taken off. Rows count by how sure the ensemble is of them; those that either
    model misses by far more than is usual do not count.
    """
    there = held.held_out_mask
    rows = there.any(0) & (held.weight > 0)
    if rows.sum() < 2:
        return 0.0, 0.0
    K, k = len(there), there[:, rows].sum(0)
    mean = (held.mean[:, rows] * there[:, rows]).sum(0) / k
    var = (held.var[:, rows] * there[:, rows]).sum(0) / k
    more = held.mean[:, rows].var(0, ddof=1 if K > 1 else 0) * (1 / k - 1 / K)
    w = held.weight[rows] / (var + var.mean())
    error, step = held.y[rows] - mean, left_out[rows] - mean
    farther = np.maximum(error**2, (error - step) ** 2)
    usual = (farther <= OUTLYING * np.median(farther)) | (np.median(farther) == 0)
    w = w * usual
    span = w @ (step**2 - more)
    if span <= 0:
        return 0.0, 0.0
    share = float(np.clip((w @ (error * step - more)) / span, 0.0, 1.0))
    if share < LEAST_SHARE:
        return 0.0, 0.0
    squared = np.average((error - share * step) ** 2, weights=held.weight[rows] * usual)
    return share, float((1 - (1 - share) ** 2) * squared)


def replaced(model: Model, W1: Floats, A: Floats, b1: Floats) -> Model:
    """The model with other weights of its outputs, in its own dtype."""
    arrays = model.arrays()
    new = {OUTPUT + "W1": W1, OUTPUT + "A": A, OUTPUT + "b1": b1}
    return model.replaced(arrays | {name: a.astype(arrays[name].dtype) for name, a in new.items()})
