r"""Estimate the relevance of each column for the target, before training.

Kernel ridge regression on columns multiplied by s_j gives a function f, and s_j becomes the root mean square
of its derivative in column j (a diagonal recursive feature machine; Radhakrishnan et al., 2024):

.. math::
    f(x) = \sum_i \alpha_i k(\lVert s \odot (x - x_i) \rVert), \qquad
    s_j \leftarrow \Big(\sum_i w_i \big(\partial f / \partial x_j\big)^2(x_i)\Big)^{1/2} / \max_l(\cdot).

Columns without effect get small factors, as by the length scales of a Gaussian process, at the cost of a few
eigendecompositions. The width of the kernel and the number of rounds are chosen on rows that were not used to
compute the factors; 0 rounds leave all factors at 1. Each member has the factors of its own training rows.

The factors multiply the initial weights of the columns and the steps of these weights. For Adam without
weight decay this is the same as multiplying the columns, and the trained model needs no factors.
"""

from typing import Any, NamedTuple

import numpy as np

from tggm.arrays import Floats
from tggm.formulas import MOST_INPUT, bounded
from tggm.models import Model

FEWEST_ROWS, MOST_ROWS = 30, 2000  # of tables whose columns are weighed
CONTINUOUS = 0.5  # smallest share of distinct values in the median column
SAMPLE = 400  # rows used; the time is proportional to the cube
ROUNDS = 4
WIDTHS = (1.0, 2.0, 4.0)  # of kernels, in root mean square distances
PENALTIES = np.logspace(-6, 2, 17)
GAIN = 0.1  # share of the squared error by which factors must be better
SMOOTH = 0.95  # largest squared error of a smooth kernel if that of a rough one is 1
LEAST = 1e-3  # smallest factor
_TINY = 1e-300


class Rows(NamedTuple):
    """Rows of a table with their weights, 1 on average."""

    X: Floats  # (rows, d)
    Y: Floats  # (rows, n)
    weight: Floats

    @classmethod
    def sample(cls, X: Floats, Y: Floats, weight: Floats) -> "Rows":
        """Draw rows and centre their targets."""
        rows = np.random.default_rng(0).permutation(len(X))[:SAMPLE]
        X, Y, w = bounded(np, np.clip(X[rows], -MOST_INPUT, MOST_INPUT)), Y[rows], weight[rows]
        return cls(X, Y - np.average(Y, axis=0, weights=w)[None], w / w.mean())


class Weighing(NamedTuple):
    """How the relevance of columns is estimated, and whether the target is a smooth function of them."""

    width: float  # of the kernel
    rounds: int
    smooth: bool

    def factors(self, X: Floats, Y: Floats, weight: Floats) -> Floats:
        """Return g² / (g² + e²), divided by its maximum, for columns X, (rows, d), and targets Y, (rows, n).

        g is the root mean square of the derivative after the last round, e² the squared error: a column
        whose effect is larger than the noise keeps its weight.
        """
        rows = Rows.sample(X, Y, weight)
        s = _factors(rows, self.width, self.rounds)[-1]
        error, slopes = _fit(rows, s, self.width)
        found = slopes / (slopes + max(error, _TINY))
        factors: Floats = np.maximum(found / max(found.max(), _TINY), LEAST)
        return factors


def choose_weighing(X: Floats, Y: Floats, weight: Floats) -> Weighing | None:
    """Choose width and rounds by the errors on each half of the rows with the factors of the other half.

    Return None for tables of other sizes, or with columns of few values: a function of those is not smooth.
    """
    distinct = [len(np.unique(column)) for column in X.T]
    if not FEWEST_ROWS <= len(X) <= MOST_ROWS or np.median(distinct) < CONTINUOUS * len(X):
        return None
    rows = Rows.sample(X, Y, weight)
    halves = [Rows(*(a[k::2] for a in rows)) for k in range(2)]
    errors: dict[tuple[float, int], float] = {}
    for width in WIDTHS:
        both = zip(*(_factors(half, width, ROUNDS) for half in halves), strict=True)
        for k, (first, second) in enumerate(both):
            errors[width, k] = _fit(halves[1], first, width)[0] + _fit(halves[0], second, width)[0]
    width, rounds = min(errors, key=errors.__getitem__)
    if errors[width, rounds] > (1 - GAIN) * min(errors[w, 0] for w in WIDTHS):
        rounds = 0
    s = _factors(rows, width, rounds)[-1]
    smooth, rough = (min(_fit(rows, s, w, kernel)[0] for w in WIDTHS) for kernel in (_matern, _exponential))
    return Weighing(width, rounds, smooth < SMOOTH * rough)


def weigh(model: Model, factors: Floats) -> Model:
    """Multiply the weights of the columns by factors, (members, d)."""
    arrays = model.arrays()
    W0 = arrays["hidden.W0"]
    of_sums = np.ones((len(W0), W0.shape[2] - factors.shape[1]))  # of periodic features, which depend on c
    made = {"hidden.W0": W0 * np.concatenate([factors, of_sums], axis=1)[:, None, :]}
    if "features.c" in arrays:
        made["features.c"] = arrays["features.c"] * factors[:, :, None]
    if "likelihood.output.A" in arrays:
        made["likelihood.output.A"] = arrays["likelihood.output.A"] * factors[:, None, :]
    return model.with_arrays(made)


def _factors(rows: Rows, width: float, rounds: int) -> list[Floats]:
    """Return the factors after each round, starting from 1."""
    found = [np.ones(rows.X.shape[1])]
    for _ in range(rounds):
        root = np.sqrt(_fit(rows, found[-1], width)[1])
        found.append(np.maximum(root / max(root.max(), _TINY), LEAST))
    return found


def _matern(r: Floats) -> tuple[Floats, Floats]:
    """Return the Matérn kernel with ν = 5/2, and −k'(r) / r."""
    r = np.sqrt(5) * r
    decay = np.exp(-r)
    return (1 + r + r**2 / 3) * decay, (5 / 3) * (1 + r) * decay


def _exponential(r: Floats) -> tuple[Floats, Floats]:
    """Return exp(−r), whose functions have kinks, and zeros instead of its slope."""
    return np.exp(-r), np.zeros_like(r)


def _fit(rows: Rows, s: Floats, width: float, kernel: Any = _matern) -> tuple[float, Floats]:
    """Return the least leave-one-out error of kernel ridge regression, and mean squared derivatives."""
    X, root = rows.X * s[None], np.sqrt(rows.weight)[:, None]
    squares = (X**2).sum(1)
    D = np.maximum(squares[:, None] + squares[None] - 2 * X @ X.T, 0.0)
    unit = max(width * np.sqrt(D.mean() / 2), 1e-150)
    K, slope = kernel(np.sqrt(D) / unit)
    values, V = np.linalg.eigh(root * K * root.T)
    moved = V.T @ (root * rows.Y)
    best: tuple[float, Any] = (np.inf, None)
    for penalty in PENALTIES:
        shrunk = 1 / (np.maximum(values, 0.0) + penalty)
        # residual / (1 − leverage) of each row, multiplied by penalty in numerator and denominator
        inverse = (V**2 @ shrunk)[:, None]
        alpha = V @ (shrunk[:, None] * moved)
        best = min(best, (float(((alpha / inverse) ** 2).sum()) / len(X), alpha), key=lambda pair: pair[0])
    error, alpha = best
    derivatives = np.zeros(X.shape[1])
    for a in (root * alpha).T:
        gradient = slope @ (a[:, None] * X) - X * (slope @ a)[:, None]
        derivatives += (s / unit**2) ** 2 * (rows.weight @ gradient**2) / len(X)
    return error, derivatives
