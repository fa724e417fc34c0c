"""Estimates from weighted points of several random shifts, whose spread tells their errors."""

from typing import NamedTuple

import numpy as np

from tggm.arrays import Floats


class BoxEstimate(NamedTuple):
    """A number, and one standard error of it, or the size of its error."""

    value: float
    error: float


class MomentEstimates(NamedTuple):
    """Mean and covariance, and one standard error of each entry; zero: exact, NaN: unknown."""

    mean: Floats
    mean_error: Floats
    cov: Floats
    cov_error: Floats


class MarginalSummary(NamedTuple):
    """Of each variable by itself."""

    mean: Floats  # (d,)
    std: Floats  # (d,)
    quantiles: Floats  # (d, number of probabilities)


def probability(log_w: Floats) -> BoxEstimate:
    """Of the weights of several shifts: the mean over them, and its standard error from their spread."""
    top = log_w.max()
    p = np.exp(log_w - top).mean(1)
    return BoxEstimate(float(top + np.log(p.mean())), float(p.std(ddof=1) / p.mean() / np.sqrt(len(p))))


def moments(log_w: Floats, h: Floats) -> MomentEstimates:
    """Weighted moments of all points; errors from the spread of those of single shifts about them."""
    w = np.exp(log_w - log_w.max())
    share = w.sum(1) / w.sum()
    w = w / w.sum()
    mean = np.einsum("sn,snd->d", w, h)
    off = h - mean
    cov = np.einsum("sn,sni,snj->ij", w, off, off, optimize=True)
    # each shift's weighted sum of residuals: zero on average over shifts, so their spread is the error
    first = np.einsum("sn,snd->sd", w, off)
    second = np.einsum("sn,sni,snj->sij", w, off, off, optimize=True) - share[:, None, None] * cov
    factor = np.sqrt(len(w) / (len(w) - 1))
    return MomentEstimates(
        mean, factor * np.sqrt((first**2).sum(0)), cov, factor * np.sqrt((second**2).sum(0))
    )


def relative_error(log_w: Floats, h: Floats) -> float:
    """Largest standard error of a mean, in standard deviations."""
    found = moments(log_w, h)
    return float((found.mean_error / np.sqrt(np.diag(found.cov))).max())


def weighted_quantiles(x: Floats, w: Floats, levels: Floats) -> Floats:
    """Quantiles of points x with weights w, interpolated between them."""
    order = np.argsort(x)
    cumulated = np.cumsum(w[order])
    found: Floats = np.interp(levels * cumulated[-1], cumulated - 0.5 * w[order], x[order])
    return found
