"""Predictive distributions of a fitted regressor, for standardised inputs Z."""

from typing import Any

import numpy as np

from tggm.arrays import Floats
from tggm.data.standardise import require_moderate
from tggm.estimators._fitted import Fitted
from tggm.predictive import GaussianMixture, JointPredictive, Observed, ScalarPredictive
from tggm.predictive.calibration import Calibration, disagreement, pooled
from tggm.predictive.joint import pooled_joint
from tggm.predictive.member_moments import (
    gaussian_mixtures,
    joint_gaussian_mixture,
    member_means,
    member_moments,
)
from tggm.runtime import precision


def standardise(fitted: Fitted, X: Floats) -> Floats:
    """Standardise encoded inputs; raise for values too large to compute with."""
    Z: Floats = fitted.scales.x.apply(X, most=fitted.network.features.most)
    require_moderate(Z, "`X`", "leave out rows that are so far from the training rows")
    return Z


def mixtures(fitted: Fitted, Z: Floats) -> list[GaussianMixture]:
    """Return the mixture of members of each output, in units of the (transformed) target."""
    with precision(fitted.dtype):
        return gaussian_mixtures(fitted.model, Z, *fitted.scales.y)


def pool(fitted: Fitted, found: list[GaussianMixture]) -> list[ScalarPredictive]:
    """Return the calibrated distribution of each output, in units of the target."""
    pools: list[Any] = list(found)
    if fitted.calibration:
        pools = [pooled(*pair) for pair in zip(fitted.calibration, found, strict=True)]
    if fitted.transform is not None:
        pools = [fitted.transform.distribution(each) for each in pools]
    if fitted.support is not None:
        pools = [Observed(pools[0], *fitted.support)]
    return pools


def marginals(fitted: Fitted, Z: Floats) -> list[ScalarPredictive]:
    """Return the predictive distribution of each output, in units of the target."""
    return pool(fitted, mixtures(fitted, Z))


def distribution(fitted: Fitted, Z: Floats) -> ScalarPredictive | JointPredictive[Any]:
    """Return the predictive distribution of all outputs."""
    if len(fitted.scales.y.shift) == 1:
        return marginals(fitted, Z)[0]
    members = joint_gaussian_mixture(fitted.model, Z, *fitted.scales.y)
    return pooled_joint(fitted.calibration, members)


def mean(fitted: Fitted, Z: Floats) -> Floats:
    """Return the mean of each output, (rows, n)."""
    if fitted.transform is not None or fitted.support is not None:
        return np.stack([each.mean() for each in marginals(fitted, Z)], axis=1)
    y = fitted.scales.y
    with precision(fitted.dtype):
        found: Floats = member_means(fitted.model, Z, fitted.dtype).mean(0) * y.scale + y.shift
    return found


def mean_and_std(fitted: Fitted, Z: Floats) -> tuple[Floats, Floats]:
    """Return mean and standard deviation of each output, (rows, n) each."""
    plain = all(each.kind == "linear" for each in fitted.calibration)
    if fitted.transform is not None or fitted.support is not None or not plain:
        pairs = [(each.mean(), each.std()) for each in marginals(fitted, Z)]
        centre, spread = (np.stack(part, axis=1) for part in zip(*pairs, strict=True))
        return centre, spread
    y = fitted.scales.y
    with precision(fitted.dtype):
        means, var = member_moments(fitted.model, Z, fitted.dtype)
    return means.mean(0) * y.scale + y.shift, np.sqrt(var.mean(0) + means.var(0)) * y.scale


def mean_noise_disagreement(fitted: Fitted, Z: Floats) -> tuple[Floats, Floats, Floats]:
    """Return mean, noise and disagreement of members of each output; their squares add up to the variance."""
    members = mixtures(fitted, Z)
    found = []
    pools = fitted.calibration or (Calibration(),) * len(members)
    for mixture, calibration, each in zip(members, pools, pool(fitted, members), strict=True):
        _, noise, between = disagreement(mixture)
        f, g = calibration.factors
        share = f**2 * noise / (f**2 * noise + g**2 * between)
        found.append((each.mean(), each.std() * np.sqrt(share), each.std() * np.sqrt(1 - share)))
    centre, noise, spread = (np.stack(part, axis=1) for part in zip(*found, strict=True))
    return centre, noise, spread


def relative_squares(predicted: Floats, Y: Floats) -> Floats:
    """Return squared errors relative to each output's variance, averaged over outputs; 0 if missing."""
    known = np.where(np.isnan(Y).all(0), 0.0, Y)
    variance = np.nanvar(known, axis=0, keepdims=True)
    parts = (Y - predicted) ** 2 / np.where(variance > 0, variance, 1.0)
    found: Floats = np.where(np.isnan(parts), 0.0, parts).mean(1)
    return found
