"""Predictive distributions of a fitted regressor, for standardised inputs Z."""

from typing import Any

import numpy as np

from tggm.arrays import Floats
from tggm.data.standardise import require_moderate
from tggm.estimators._fitted import Fitted, moments, widening
from tggm.predictive import GaussianMixture, JointPredictive, ScalarPredictive
from tggm.predictive.calibration import Calibration, disagreement
from tggm.predictive.gaussian_mixture import mixtures
from tggm.predictive.gaussian_process import shifted
from tggm.predictive.joint import pooled_joint
from tggm.predictive.marginal import Marginal, MarginalJoint, averages
from tggm.predictive.member_moments import joint_gaussian_mixture, member_means, places
from tggm.predictive.neighbors import target_laws


def standardise(fitted: Fitted, X: Floats) -> Floats:
    """Standardise encoded inputs; raise for values too large to compute with."""
    Z = fitted.standardised(X)
    require_moderate(Z, "`X`", "leave out rows that are so far from the training rows")
    return Z


def pool(fitted: Fitted, Z: Floats, found: list[GaussianMixture]) -> list[ScalarPredictive]:
    """Return the distribution of each output, in units of the target: calibrated, and with neighbours."""
    near, X = None, Z.astype(fitted.dtype, copy=False)
    if fitted.neighbors is not None:
        near = fitted.neighbors.near(places(fitted.model, X, fitted.neighbors.projection))
    return target_laws(fitted.calibration, found, near, fitted.transform, fitted.support)


def marginals(fitted: Fitted, Z: Floats) -> list[ScalarPredictive]:
    """Return the predictive distribution of each output, in units of the target."""
    full, starts = fitted.filled(Z)
    found = pool(fitted, full, mixtures(*moments(fitted, full), *fitted.scales.y))
    return found if starts is None else [Marginal(each, starts) for each in found]


def distribution(fitted: Fitted, Z: Floats) -> ScalarPredictive | JointPredictive[Any]:
    """Return the predictive distribution of all outputs."""
    if len(fitted.scales.y.shift) == 1:
        return marginals(fitted, Z)[0]
    full, starts = fitted.filled(Z)
    members = joint_gaussian_mixture(fitted.model, full, *fitted.scales.y, widening(fitted, full))
    pools = pool(fitted, full, [members.marginal(j) for j in range(members.n_outputs)])
    joint = pooled_joint(fitted.calibration, members, pools)
    return joint if starts is None else MarginalJoint(joint, starts)


def mean(fitted: Fitted, Z: Floats) -> Floats:
    """Return the mean of each output, (rows, n)."""
    if fitted.transform is not None or fitted.neighbors is not None or fitted.support is not None:
        return np.stack([each.mean() for each in marginals(fitted, Z)], axis=1)
    y, (full, starts) = fitted.scales.y, fitted.filled(Z)
    found = shifted(fitted.process, full, member_means(fitted.model, full, fitted.dtype)).mean(0)
    return averages(found * y.scale + y.shift, starts)


def mean_and_std(fitted: Fitted, Z: Floats) -> tuple[Floats, Floats]:
    """Return mean and standard deviation of each output, (rows, n) each."""
    plain = all(each.kind == "linear" for each in fitted.calibration) and fitted.neighbors is None
    plain = plain and fitted.transform is None and fitted.support is None
    if not plain or np.isnan(Z).any():
        pairs = [(each.mean(), each.std()) for each in marginals(fitted, Z)]
        centre, spread = (np.stack(part, axis=1) for part in zip(*pairs, strict=True))
        return centre, spread
    y = fitted.scales.y
    means, var = moments(fitted, Z)
    return means.mean(0) * y.scale + y.shift, np.sqrt(var.mean(0) + means.var(0)) * y.scale


def mean_noise_disagreement(fitted: Fitted, Z: Floats) -> tuple[Floats, Floats, Floats]:
    """Return mean, noise and disagreement of members of each output; their squares add up to the variance."""
    Z, starts = fitted.filled(Z)
    mean, var = moments(fitted, Z, widen=False)
    added = widening(fitted, Z)
    members = mixtures(mean, var + added, *fitted.scales.y)
    found = []
    pools = fitted.calibration or (Calibration(),) * len(members)
    for j, (calibration, law) in enumerate(zip(pools, pool(fitted, Z, members), strict=True)):
        _, total, between = disagreement(members[j])
        noise_square = calibration.factors[0] ** 2 * (total - added[:, j])
        share = noise_square / calibration.square(total, between)
        marginal = law if starts is None else Marginal(law, starts)
        noise = averages(law.var() * share, starts)
        found.append((marginal.mean(), np.sqrt(noise), np.sqrt(np.maximum(marginal.var() - noise, 0.0))))
    centre, noise, spread = (np.stack(part, axis=1) for part in zip(*found, strict=True))
    return centre, noise, spread


def relative_squares(predicted: Floats, Y: Floats) -> Floats:
    """Return squared errors relative to each output's variance, averaged over outputs; 0 if missing."""
    known = np.where(np.isnan(Y).all(0), 0.0, Y)
    variance = np.nanvar(known, axis=0, keepdims=True)
    parts = (Y - predicted) ** 2 / np.where(variance > 0, variance, 1.0)
    found: Floats = np.where(np.isnan(parts), 0.0, parts).mean(1)
    return found
