"""Ridge regression in closed form, with the penalty that predicts left-out rows best.

Where the linear part of a model starts, and what predictions fall back to where nothing else can be learned:
the largest penalty is the mean.
"""

from typing import NamedTuple

import numpy as np

from tggm.arrays import Floats

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
