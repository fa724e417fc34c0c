r"""A Gaussian process of the training rows of a small table, blended into the members' means.

With x the standardised inputs (`formulas.bounded`), a standardised target has the prior

.. math::
    \mathrm{Cov}(y, y') = \sigma_f^2 \big(1 + \sqrt5 r + \tfrac53 r^2\big) e^{-\sqrt5 r}
    + \sigma_a^2\, x^T x' / d + 1 + \sigma^2 \delta, \qquad r^2 = \sum_j (x_j - x'_j)^2 / \ell_j^2 ,

a Matérn-5/2 kernel with a length for each column, a linear part, a constant and noise (divided by the row's
weight). Lengths and variances maximise the density of the targets of at most 350 rows times log-normal priors
(`Evidence`); the mean given all rows is exact, O(R³). Far from the rows it is linear.

w (μ(x) − mean of the m_k) is added to the members' means m_k; their differences do not change. `cross_fitted`
predicts each row given all others, μ_i = y_i − α_i / [K⁻¹]_ii, with lengths from other folds: with many
columns, lengths chosen by the row's own target would make its error too small.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import lapack

from tggm import settings
from tggm.arrays import Floats, Ints
from tggm.formulas import bounded
from tggm.predictive.calibration import HeldOut

FEWEST_ROWS, MOST_ROWS = 20, 2_000  # training rows
MOST_COLUMNS = 200
LEAST_GAIN = 1.0  # standard errors of held-out squared errors
OUTLYING = 100.0  # times the median squared error: rows above it are not used to choose the weight
PROCESS = "process."  # of the names of arrays in a model file
_SAMPLE = 350  # rows from which lengths and variances are estimated
_STEPS = 40  # of L-BFGS
_LARGEST = 0.9  # share of the rows outside of a fold, if these are fewer than `_SAMPLE`
PARTS = 6  # of the rows by each column, that are left out to calibrate variances
SPACED = 0.98  # share of the values of a column that are nearer to another one
ROUNDING = 1e-6  # of stored numbers
MOST_VALUES = 5_000  # rows used to find gaps
OUTSIDE = 1e15  # size of the gaps before and behind all values
_BLOCK = 128  # rows predicted at once
_JITTER = 1e-8
_MOST = 1e15  # largest size of a number in a model file
# log deviations of smooth part, linear part and noise: means and deviations of the prior, and ranges
_MEANS, _DEVIATIONS = np.log([1.0, 0.5, 0.3]), np.array([1.0, 1.5, 1.5])
_RANGES = [(-6.0, 4.0), (-6.0, 4.0), (-6.9, 2.0)]
_LENGTHS = float(np.log(0.05)), float(np.log(1e3))  # range of log lengths
_USUAL = 2.0  # prior median of lengths, times √d


@dataclass(frozen=True)
class GaussianProcess:
    """The mean of the process, and its weight in the blend."""

    share: float  # w
    constant: float
    rates: Floats  # (d,) 1/ℓ
    slopes: Floats  # (d,) of the linear part
    rows: Floats  # (R, d) bounded inputs of the training rows
    coefficients: Floats  # (R,) of the kernels

    def mean(self, xp: Any, Z: Any) -> Any:
        """Return μ at standardised inputs, (N,)."""
        x = bounded(xp, Z)
        near, rows = x * self.rates, self.rows * self.rates
        square = xp.sum(near**2, axis=1, keepdims=True) - 2.0 * (near @ xp.asarray(rows.T))
        r = xp.sqrt(5.0 * xp.maximum(square + (rows**2).sum(1)[None, :], 0.0))
        smooth = ((1.0 + r + r * r / 3.0) * xp.exp(-r)) @ xp.asarray(self.coefficients)
        return smooth + x @ xp.asarray(self.slopes) + self.constant

    def arrays(self, dtype: Any) -> dict[str, Any]:
        """Return the arrays of a model file, with rows of the precision in which they were read."""
        found = {PROCESS + name: getattr(self, name) for name in ("rates", "slopes", "coefficients")}
        return found | {PROCESS + "rows": self.rows.astype(dtype)}


def shifted(process: GaussianProcess | None, Z: Any, mean: Any, xp: Any = np) -> Any:
    """Average the members' means, (K, N, 1), with μ if there is a process; NumPy does so in blocks."""
    if process is None:
        return mean
    starts = range(0, len(Z), _BLOCK) if xp is np else ()
    parts = [process.mean(np, Z[at : at + _BLOCK]) for at in starts]
    centre = np.concatenate(parts) if parts else process.mean(xp, Z)
    return mean + process.share * (centre[:, None] - xp.mean(mean, axis=0))


def checked_process(arrays: Mapping[str, Any], numbers: Any, d: int) -> GaussianProcess | None:
    """Check the process in a model file with d inputs; other arrays are ignored."""
    found = {name.removeprefix(PROCESS): a for name, a in arrays.items() if name.startswith(PROCESS)}
    if numbers is None and not found:
        return None
    share, constant = (settings.number("number of the process", number) for number in numbers)
    R = len(found["rows"])
    shapes = {"rates": (d,), "slopes": (d,), "rows": (R, d), "coefficients": (R,)}
    good = {name: a.shape for name, a in found.items()} == shapes
    if not good or not all(a.dtype.kind == "f" and np.abs(a).max() <= _MOST for a in found.values()):
        raise ValueError(f"arrays of a Gaussian process have wrong shapes, types or sizes above {_MOST:g}")
    if not (0 < share <= 1 and abs(constant) <= _MOST and (found["rates"] > 0).all()):
        raise ValueError("the weight of the Gaussian process must be from 0 to 1, and its lengths positive")
    return GaussianProcess(share, constant, **{name: np.asarray(a, np.float64) for name, a in found.items()})


class Evidence:
    """Minus the log-density of the targets and hyper-parameters, up to a constant, and its gradient.

    Hyper-parameters are log ℓ_j, (d,), then log σ_f, log σ_a and log σ. Arrays of n × n numbers are
    allocated once: new ones for every step would take longer than the arithmetic.
    """

    def __init__(self, X: Floats, y: Floats, weight: Floats) -> None:
        n, d = X.shape
        self.X, self.y, self.noise = X, y, 1 / weight
        self.linear, self.work = X @ X.T / d, np.empty((4, n, n))
        self.centre = np.append(np.full(d, np.log(_USUAL * np.sqrt(d))), _MEANS)
        self.deviation = np.append(np.ones(d), _DEVIATIONS)

    def solve(self, u: Floats) -> tuple[Floats, Floats]:
        """Return α = K⁻¹ y and the lower triangle of K⁻¹; raise LinAlgError if K is singular."""
        d, (r, slope, K, G) = self.X.shape[1], self.work
        smooth, linear, noise = np.exp(2 * u[d:])
        Z = self.X * (5**0.5 * np.exp(-u[:d]))
        size = (Z**2).sum(1)
        np.matmul(Z, Z.T, out=r)
        r *= -2
        r += size
        r += size[:, None]
        np.sqrt(np.maximum(r, 0, out=r), out=r)
        np.exp(np.negative(r, out=K), out=K)
        np.add(r, 1, out=slope)
        slope *= K  # (1 + r) exp(−r), in proportion to the derivative by the squared distance
        r *= r
        r *= K
        r /= 3
        r += slope  # the Matérn correlation
        np.multiply(r, smooth, out=K)
        K += np.multiply(self.linear, linear, out=G)
        K += 1
        K.flat[:: len(K) + 1] += noise * self.noise + _JITTER
        self.factor, failed = lapack.dpotrf(K.T, lower=1, overwrite_a=1)  # K is symmetric: no copy
        if failed:
            raise np.linalg.LinAlgError("K is singular")
        self.log_det = 2 * np.log(np.diagonal(self.factor)).sum()
        alpha: Floats = lapack.dpotrs(self.factor, self.y, lower=1)[0]
        return alpha, lapack.dpotri(self.factor, lower=1, overwrite_c=1)[0]

    def __call__(self, u: Floats) -> tuple[float, Floats]:
        """Return value and gradient."""
        alpha, inverse = self.solve(u)
        d, (k, slope, K, G) = self.X.shape[1], self.work  # `inverse` is a view of K
        variances = np.exp(2 * u[d:])
        Z = self.X * (5**0.5 * np.exp(-u[:d]))
        np.add(inverse.T, inverse, out=G)
        G.flat[:: len(G) + 1] *= 0.5
        G -= np.multiply.outer(alpha, alpha, out=K)  # K⁻¹ − α αᵀ
        slope *= G
        lengths = variances[0] / 3 * (slope.sum(1) @ Z**2 - np.einsum("ij,ij->j", Z, slope @ Z))
        variances *= np.vdot(G, k), np.vdot(G, self.linear), np.diagonal(G) @ self.noise
        away = (u - self.centre) / self.deviation
        value = 0.5 * (self.y @ alpha + self.log_det + away @ away)
        return float(value), np.append(lengths, variances) + away / self.deviation


def hyper_parameters(X: Floats, y: Floats, weight: Floats, rows: Ints) -> Floats:
    """Return the most probable hyper-parameters given some of these rows."""
    rows = rows[:_SAMPLE]
    evidence = Evidence(X[rows], y[rows], weight[rows])
    bounds = [_LENGTHS] * X.shape[1] + _RANGES
    more: dict[str, Any] = {"method": "L-BFGS-B", "bounds": bounds, "options": {"maxiter": _STEPS}}
    from scipy.optimize import minimize  # not needed for predictions

    return np.asarray(minimize(evidence, evidence.centre, jac=True, **more).x)


def cross_fitted(X: Floats, y: Floats, weight: Floats) -> Floats:
    """Predict each row from all others, with hyper-parameters from the rows of other folds.

    These are as many rows as for the final process, or nine tenths of all: fewer would make errors too large.
    """
    order, left_out = np.random.default_rng(0).permutation(len(X)), np.empty(len(X))
    folds = np.array_split(order, math.ceil(1 / (1 - min(_SAMPLE / len(X), _LARGEST)) - 1e-9))
    whole = Evidence(X, y, weight)
    for k, fold in enumerate(folds):
        others = np.concatenate(folds[:k] + folds[k + 1 :])
        alpha, inverse = whole.solve(hyper_parameters(X, y, weight, others))
        left_out[fold] = y[fold] - (alpha / np.diagonal(inverse))[fold]
    return left_out


def fit_kernel(X: Floats, y: Floats) -> Floats | None:
    """Fit hyper-parameters to standardised rows, with variances that hold where values were left out.

    Each column is split into sixths of the rows with equal values together. The rows of an inner part B are
    predicted from all others: their errors are [K⁻¹]_BB⁻¹ [K⁻¹ y]_B, with covariance [K⁻¹]_BB⁻¹. The
    variances are multiplied by the sum of the squared errors over that of their variances.
    """
    if not (len(y) >= FEWEST_ROWS and X.shape[1] <= MOST_COLUMNS and np.ptp(y) > 0):
        return None
    X, weight = bounded(np, X), np.ones(len(y))
    try:
        u = hyper_parameters(X, y, weight, np.random.default_rng(0).permutation(len(y)))
        alpha, lower = Evidence(X, y, weight).solve(u)
        inverse, squares, variances = lower + np.tril(lower, -1).T, 1e-300, 1e-300
        for x in X.T:
            rank = np.searchsorted(np.sort(x), x) + np.searchsorted(np.sort(x), x, "right")  # twice
            part = PARTS * rank // (2 * len(x))
            for b in np.unique(part)[1:-1]:
                rows = np.flatnonzero(part == b)
                V = np.linalg.inv(inverse[np.ix_(rows, rows)])
                squares, variances = squares + ((V @ alpha[rows]) ** 2).sum(), variances + np.trace(V)
    except np.linalg.LinAlgError:
        return None
    u[X.shape[1] :] += 0.5 * np.log(np.clip(squares / variances, 0.01, 100.0))
    return u


def gaps_and_kernels(sample: Floats, rows: Floats, targets: Floats) -> tuple[Floats, Floats]:
    """Return the gaps of a sample, and the kernel of each output or none, from rows and (n, rows) targets."""
    kernels = [fit_kernel(rows[np.isfinite(y)], y[np.isfinite(y)]) for y in targets]
    found = [u for u in kernels if u is not None]
    return gaps_of(sample), np.reshape(found if len(found) == len(kernels) else [], (-1, rows.shape[1] + 3))


def gaps_of(Z: Floats) -> Floats:
    """Return the gaps in the columns of standardised training rows, and those before and behind them.

    A value in a gap is farther from those of its column than 98 % of these are from each other.
    """
    found = []
    for j, values in enumerate(np.sort(Z, axis=0).T):
        steps = np.diff(values, prepend=values[0] - OUTSIDE, append=values[-1] + OUTSIDE)
        edge = float(np.quantile(np.minimum(steps[:-1], steps[1:]), SPACED)) + ROUNDING * np.abs(values).max()
        ends = np.r_[values[0] - OUTSIDE, values, values[-1] + OUTSIDE]
        wide = np.flatnonzero(steps > 2 * edge) if values[-1] > values[0] else ()
        found += [(j, ends[k] + edge, ends[k + 1] - edge) for k in wide]
    return np.reshape(found, (-1, 3))


def fit_process(X: Floats, y: Floats, weight: Floats, share: float) -> GaussianProcess:
    """Fit the process to all rows; its inputs are `bounded`."""
    u, d = hyper_parameters(X, y, weight, np.random.default_rng(0).permutation(len(X))), X.shape[1]
    alpha, _ = Evidence(X, y, weight).solve(u)
    smooth, linear, _ = np.exp(2 * u[d:])
    rates, slopes = np.exp(-u[:d]), linear / d * (alpha @ X)
    return GaussianProcess(share, float(alpha.sum()), rates, slopes, X, smooth * alpha)


def held_out_share(held: HeldOut, left_out: Floats) -> tuple[float, float]:
    """Return the weight of another model's predictions in a blend with the members, and its gain.

    A row is predicted by the k members that held it out, whose mean has a larger error than that of all K
    members, by D (1/k − 1/K) if D is the variance of the members' means; this is subtracted. Rows have
    weights in proportion to the inverse variance of the ensemble; rows with outlying errors are ignored. The
    gain is the decrease of the squared error, in standard errors.
    """
    mask = held.held_out_mask
    rows = mask.any(0) & (held.weight > 0)
    if rows.sum() < 2:
        return 0.0, 0.0
    K, k = len(mask), mask[:, rows].sum(0)
    mean = (held.mean[:, rows] * mask[:, rows]).sum(0) / k
    var = (held.var[:, rows] * mask[:, rows]).sum(0) / k
    more = held.mean[:, rows].var(0, ddof=1 if K > 1 else 0) * (1 / k - 1 / K)
    w = held.weight[rows] / (var + var.mean())
    error, step = held.y[rows] - mean, left_out[rows] - mean
    farther = np.maximum(error**2, (error - step) ** 2)
    w = w * ((farther <= OUTLYING * np.median(farther)) | (np.median(farther) == 0))
    span = w @ (step**2 - more)
    if span <= 0:
        return 0.0, 0.0
    share = float(np.clip((w @ (error * step - more)) / span, 0.0, 1.0))
    gain = w * (error**2 - (error - share * step) ** 2 - (1 - (1 - share) ** 2) * more)
    scatter = float(np.sqrt(((gain - gain.mean()) ** 2).sum()))
    return share, float(gain.sum() / max(scatter, np.finfo(np.float64).tiny))


def choose_process(X: Any, held: HeldOut, dtype: Any) -> tuple[GaussianProcess, HeldOut] | None:
    """Return the process and the predictions averaged with it, if it is better on held-out rows.

    X are the standardised inputs, and `dtype` is the precision of a model file.
    """
    mask, (n, d) = held.held_out_mask, (len(held.y), X.shape[1])
    if not (FEWEST_ROWS <= n <= MOST_ROWS and d <= MOST_COLUMNS and mask.any()):
        return None
    X, y, weight = bounded(np, np.asarray(X)[:n]).astype(dtype).astype(np.float64), held.y, held.weight
    try:
        left_out = cross_fitted(X, y, weight)
        share, gain = held_out_share(held, left_out)
        if gain < LEAST_GAIN:
            return None
        process = fit_process(X, y, weight, share)
    except np.linalg.LinAlgError:  # inputs without bounds may be too large
        return None
    centre = (held.mean * mask).sum(0) / np.maximum(mask.sum(0), 1)
    return process, held._replace(mean=held.mean + share * (left_out - centre))
