"""Ridge regression in closed form, with the penalty that minimises the leave-one-out error.

Each member's linear part starts at the ridge regression of its training rows.
"""

from typing import Any, NamedTuple

import numpy as np

from tggm.arrays import Floats
from tggm.models import Model

LEAST_ERROR = 1e-4  # squared error of a standardised target for which W1 is drawn at least
NEARLY_LINEAR = 0.05  # squared error of the regression below which the noise starts there, too
OUTPUT = "likelihood.output."
# penalties in units of the mean eigenvalue; the last leaves only the mean
PENALTIES = np.append(np.logspace(-6, 3, 28), np.inf)


class Ridge(NamedTuple):
    """y = A x + b."""

    A: Floats  # (n, d)
    b: Floats  # (n,)
    error: Floats  # (n,) mean squared leave-one-out error


def ridge(X: Floats, Y: Floats, weight: Floats) -> Ridge:
    """Regress each column of Y, (rows, n), on the columns of X, (rows, d), by weighted least squares."""
    with np.errstate(all="ignore"):  # constant columns, and rows with a leverage of 1
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
    coefficients, errors = [], []
    for j in range(Y.shape[1]):
        residual = R[:, j : j + 1] - U @ (shrink * moved[:, j : j + 1])
        left = residual / (1 - leverage)
        k = int(np.argmin((left**2).sum(0)))
        coefficients.append(V @ (shrink[:, k] * moved[:, j]))
        errors.append((left[:, k] ** 2).sum())
    A = np.stack(coefficients)
    return Ridge(A, y0 - A @ x0, np.array(errors))


def _axes(Z: Floats) -> tuple[Floats, Floats]:
    """Return the eigenvalues of ZᵀZ and their vectors, (d, axes), without null directions of wide tables."""
    if len(Z) >= Z.shape[1]:
        values, V = np.linalg.eigh(Z.T @ Z)
        return np.maximum(values, 0.0), V
    _, lengths, Vt = np.linalg.svd(Z, full_matrices=False)
    return lengths**2, Vt.T


def start_at_ridge(
    model: Model, parts: list[Any], X: Floats, Y: Floats, weight: Floats, noise: bool
) -> Model:
    """Set the linear part of each member to the ridge regression of its training rows `parts`.

    W1 is scaled to the remaining error. So is the noise if `noise` and the regression explains nearly
    everything: otherwise most of the training would be spent on lowering it.
    """
    found = [ridge(X[part], Y[part], weight[part]) for part in parts]
    error = np.stack([np.clip(each.error, LEAST_ERROR, 1.0) for each in found])
    W1 = model.arrays()[OUTPUT + "W1"] * np.sqrt(error)[:, :, None]
    A, b1 = np.stack([each.A for each in found]), np.stack([each.b for each in found])
    made = with_outputs(model, W1, A, b1)
    log_noise = made.arrays()["likelihood.log_noise"]
    first = np.where((error < NEARLY_LINEAR) & noise, np.log(error), log_noise).astype(log_noise.dtype)
    return made.replaced(made.arrays() | {"likelihood.log_noise": first})


def with_outputs(model: Model, W1: Floats, A: Floats, b1: Floats) -> Model:
    """Return the model with other weights of its outputs, in its own dtype."""
    arrays = model.arrays()
    new = {OUTPUT + "W1": W1, OUTPUT + "A": A, OUTPUT + "b1": b1}
    return model.replaced(arrays | {name: a.astype(arrays[name].dtype) for name, a in new.items()})
