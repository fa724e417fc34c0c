"""The scale and the support of a target: its logarithm, rows at limits, and the choice after training."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_ndtr

from tggm.arrays import Floats
from tggm.data.standardise import FAR, NORMAL_QUARTILES, Columns
from tggm.estimators._ridge import log_is_better, select_columns
from tggm.estimators._settings import Settings
from tggm.predictive import Observed, ScalarPredictive, Support
from tggm.predictive.base import log_between
from tggm.predictive.calibration import MOST_VARIANCE, Calibration, HeldOut, evenly_spaced, fit_calibration
from tggm.predictive.gaussian_mixture import LogTransform
from tggm.predictive.support import NO_PLAN, Plan, plan_supports

MOST_COMPARED, FEWEST_COMPARED = 2000, 20  # rows used to decide on the logarithm of the target
LONG_TAIL = 8.0  # robust deviations from the median; the logarithm needs a target beyond
# of the logarithm of targets with a lower limit, in medians of the distance to it
SHIFTS = (0.03, 0.3, 1.0, 3.0)
LEAST_GAIN, ERRORS = 0.02, 3.0  # nats per row, and standard errors, by which such a logarithm must be better
MOST_GAIN = 5.0  # of one row: limits the effect of a single value far in the tail
OUTSIDE = 3.0  # expected held-out rows beyond a bound, from which it is used: e⁻³ is the chance of none
FINE = 0.05  # steps, in standard deviations, below which a lattice is not used
_PENALTY = 1.0  # on squared coefficients of standardised columns


def scale_target(
    settings: Settings, X: Floats, Y: Floats, side: Floats | None, half: Floats | None, weight: Floats
) -> tuple[Floats, Floats | None, Floats | None, LogTransform | None, tuple[Plan, ...]]:
    """Choose the scale of the targets, and censor the rows at their limits.

    Return transformed targets, sides and half widths as in `Targets`, the transform, and the plans.
    """
    given, plans = settings.support, Y.shape[1] * (NO_PLAN,)
    if given is not None and (given != "auto" or side is None):
        plans = tuple(p._replace(censored=side is not None) for p in plan_supports(given, Y))
    transform = read_transform(settings.target_transform, X, Y, side, weight, plans[0])
    Y, side = limit_rows([plan.cells for plan in plans], Y, side)
    if transform is None:
        return Y, side, half, transform, plans
    Z = transform.forward(Y)
    if half is not None and side is not None:  # the interval of the logarithm; it may have no lower end
        low, high = transform.forward(Y - half), transform.forward(Y + half)
        Z = np.where(side == 2, np.where(np.isinf(low), high, 0.5 * (low + high)), Z)
        side = np.where((side == 2) & np.isinf(low), -1.0, side)
        half = np.where(side == 2, 0.5 * (high - low), 0.0)
    return Z, side, half, transform, plans


def limit_rows(
    supports: Sequence[Support | None], Y: Floats, side: Floats | None
) -> tuple[Floats, Floats | None]:
    """Return the ends of the cells of targets at limits, (rows, n), and their sides."""
    cells = [(support or Support()).cell(y) for support, y in zip(supports, Y.T, strict=True)]
    low, high = (np.stack(ends, axis=1) for ends in zip(*cells, strict=True))
    found = np.where(np.isinf(low), -1.0, 0.0) + np.where(np.isinf(high), 1.0, 0.0)
    if side is not None:
        found = np.where(side == 0, found, side)
    value = np.where(np.isinf(low) & (found < 0), high, np.where(np.isinf(high) & (found == 1), low, Y))
    return value, found if found.any() else None


# ---- the logarithm of a target ----


def read_transform(
    how: str | None, X: Floats, Y: Floats, side: Floats | None, weight: Floats, plan: Plan = NO_PLAN
) -> LogTransform | None:
    """Return the transform of a single target: the given one, or the one that predicts best."""
    if how is None or Y.shape[1] > 1:
        return None
    least = Y.min()
    if how == "log":
        if least <= 0:
            raise ValueError(
                f"`target_transform` is 'log', which needs positive targets; the smallest is {least:g}. "
                "Pass 'auto' or None."
            )
        return LogTransform()
    rows = evenly_spaced(np.flatnonzero(weight > 0), MOST_COMPARED)
    y, at = Y[rows], None if side is None else np.where(side == 2, 0.0, side)[rows]
    lower = None if plan.cells is None else plan.cells.lower
    if lower is not None or (least >= 0 and (side is not None or plan.cells is not None)):
        y, at = (y, at) if plan.cells is None else limit_rows([plan.cells], y, at)
        return shifted_log(X[rows], y[:, 0], None if at is None else at[:, 0], lower or 0.0)
    better = side is None and least > 0 and _has_long_tail(y[:, 0])
    better = better and log_is_better(X[rows], y[:, 0], weight[rows])
    return LogTransform() if better else None


def require_positive(transform: LogTransform | None, Y: Floats) -> None:
    """Raise if the model predicts the logarithm of the target, and a target has none."""
    if transform is not None and np.nanmin(Y, initial=np.inf) <= -transform.shift:
        raise ValueError(
            f"`y` must be above {-transform.shift:g} because this model predicts its logarithm; got "
            f"{np.nanmin(Y):g}. Leave such rows out."
        )


def _has_long_tail(y: Floats) -> bool:
    """Return whether a target is very far from the median; the network can fit smaller skewness itself.

    False if there are few distinct values, or if more than a tenth of the rows share one value.
    """
    _, counts = np.unique(y, return_counts=True)
    if len(counts) < max(FEWEST_COMPARED, 0.05 * len(y)) or counts.max() > 0.1 * len(y):
        return False
    low, middle, high = np.quantile(y, [0.25, 0.5, 0.75])
    return bool(np.abs(y - middle).max() > LONG_TAIL * (high - low) / NORMAL_QUARTILES)


def shifted_log(X: Floats, y: Floats, side: Floats | None, lower: float) -> LogTransform | None:
    """Return log(y + shift) with the shift of the best censored linear model; None if y itself is best."""
    X, side = select_columns(X, y), np.zeros(len(y)) if side is None else side
    spread, above = X.std(0), y[(side >= 0) & (y > lower)] - lower
    if len(above) < FEWEST_COMPARED:
        return None
    X = (X - X.mean(0)) / np.where(spread > 0, spread, 1.0)
    scores = [tobit_scores(X, y, side, None)]
    tried: list[LogTransform | None] = [None]
    for part in SHIFTS:
        transform = LogTransform(float(part * np.median(above) - lower))
        if y.min() > -transform.shift:
            tried.append(transform)
            scores.append(tobit_scores(X, y, side, transform))
    gains = np.clip(np.stack(scores) - scores[0], -MOST_GAIN, MOST_GAIN)
    best = int(np.argmax(gains.mean(1)))
    gain = gains[best]
    enough = gain.mean() > max(LEAST_GAIN, ERRORS * gain.std() / np.sqrt(len(y)))
    return tried[best] if enough else None


def tobit_scores(X: Floats, y: Floats, at: Floats, transform: LogTransform | None) -> Floats:
    """Return out-of-fold log-likelihoods, in units of y, in a linear model of the latent value.

    The latent value is at least y where `at` is 1, and at most y where it is −1.
    """
    z = y if transform is None else transform.forward(y)
    centre, unit = z.mean(), max(float(z.std()), np.finfo(float).tiny)
    z = (z - centre) / unit
    found, even = np.zeros(len(y)), np.arange(len(y)) % 2 == 0
    for fold in (even, ~even):
        found[~fold] = _tobit_log(_tobit(X[fold], z[fold], at[fold]), X[~fold], z[~fold], at[~fold])[0]
    slope = 0.0 if transform is None else np.log(y + transform.shift, where=at == 0, out=np.zeros(len(y)))
    return found - np.where(at == 0, np.log(unit) + slope, 0.0)


def _tobit_log(u: Floats, X: Floats, z: Floats, side: Floats) -> tuple[Floats, Floats, Floats]:
    """Return log-likelihoods of z ~ N(X b + a, σ²), z a limit if `side` is not 0, with u = (a, log σ, b).

    The others are their derivatives with respect to the standardised error and log σ.
    """
    error = (z - u[0] - X @ u[2:]) * np.exp(-u[1])
    tail = log_ndtr(-side * error)
    hazard = np.exp(-0.5 * error**2 - 0.5 * np.log(2 * np.pi) - tail)
    log = np.where(side == 0, -0.5 * error**2 - 0.5 * np.log(2 * np.pi) - u[1], tail)
    by_error = np.where(side == 0, -error, -side * hazard)
    return log, by_error, np.where(side == 0, -1.0, 0.0) - by_error * error


def _tobit(X: Floats, z: Floats, side: Floats) -> Floats:
    """Fit the parameters of `_tobit_log`."""

    def loss(u: Floats) -> tuple[float, Floats]:
        log, by_error, by_scale = _tobit_log(u, X, z, side)
        rate = -by_error * np.exp(-u[1])
        slope = np.concatenate([[rate.sum(), by_scale.sum()], X.T @ rate - _PENALTY * u[2:]])
        return float(-log.sum() + 0.5 * _PENALTY * u[2:] @ u[2:]), -slope

    start = np.zeros(X.shape[1] + 2)
    bounds = [(None, None), (-8.0, 8.0), *[(None, None)] * X.shape[1]]
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 200})
    return np.asarray(found.x)


def latent_scale(scale: Columns, Y: Floats, side: Floats) -> Columns:
    """Return mean and deviation of a normal distribution of one target of which some values are limits.

    `scale` has those of all values, limits included: with many limits the deviation is much too small, and
    training ends before the width has grown.
    """
    z, side = scale.apply(Y)[:, 0], np.where(side == 2, 0.0, side)[:, 0]
    if (side == 0).sum() < FEWEST_COMPARED:
        return scale
    mean, log_scale = _tobit(np.zeros((len(z), 0)), np.clip(z, -FAR, FAR), side)
    return Columns(scale.shift + scale.scale * mean, scale.scale * np.exp(log_scale))


# ---- the choice after training ----


class Units(NamedTuple):
    """From the model's units to those of the target: y = inverse(shift + scale · z)."""

    shift: float
    scale: float
    transform: LogTransform | None

    def ends(self, support: Support, y: Floats) -> tuple[Floats, Floats]:
        """Return the ends of the cells of targets, in the model's units."""
        low, high = support.cell(y)
        return self.forward(low), self.forward(high)

    def cells_of(self, support: Support, held: HeldOut, y: Floats) -> HeldOut:
        """Add the cells of measured targets to held-out rows."""
        low, high = self.ends(support, y)
        if held.ends is not None:
            limited = held.ends[0] < held.ends[1]
            low, high = np.where(limited, held.ends[0], low), np.where(limited, held.ends[1], high)
        return held._replace(ends=(low, high))

    @property
    def most(self) -> float | None:
        """Return the bound c of the calibration of a logarithm, in the model's units; None without one."""
        return None if self.transform is None else MOST_VARIANCE / self.scale**2

    def forward(self, y: Floats) -> Floats:
        """Convert targets to the model's units; infinite values stay infinite."""
        moved = y if self.transform is None else self.transform.forward(y)
        return (moved - self.shift) / self.scale


def choose_support(
    plan: Plan, held: HeldOut, y: Floats, units: Units, calibration: Calibration
) -> tuple[Support | None, Calibration]:
    """Choose the support by the log-probability of cells and CRPS at held-out rows.

    `y` are the targets of the rows of `held`. A support is chosen only if neither score is worse than without
    it. Bounds never have a worse CRPS for targets between them; they are used if held-out distributions have
    probability beyond them.
    """
    support = plan.base
    places = evenly_spaced(np.flatnonzero(held.usable_mask), MOST_COMPARED)
    if not len(places) or calibration.kind == "linear":
        return support, calibration
    some, target = held.take(places), y[places]
    for candidate in plan.candidates:
        law = _law_of(some, calibration, units)
        if candidate.step is None:
            tails = zip(candidate.ends, (law.logcdf, law.logsf), strict=True)
            beyond = [np.exp(tail(end)).sum() for end, tail in tails if np.isfinite(end)]
            support = candidate if max(beyond, default=0.0) > OUTSIDE else support
            continue
        if candidate.step < FINE * float(np.median(law.std())):
            continue
        before = (support or Support())._replace(step=candidate.step)
        other = fit_calibration(units.cells_of(candidate, held, y), most=units.most)
        tried = [(each, _law_of(some, each, units)) for each in (other, calibration)]
        logs = [some.weight @ _cell_log(each, *candidate.cell(target)) for _, each in tried]
        best, rounded = tried[int(np.argmax(logs))]
        smooth = law if support is None else Observed(law, *support)
        better = smooth.crps(target) - Observed(rounded, *candidate).crps(target)
        if max(logs) >= some.weight @ _cell_log(law, *before.cell(target)) and some.weight @ better >= 0:
            support, calibration = candidate, best
    return support, calibration


def _law_of(held: HeldOut, calibration: Calibration, units: Units) -> ScalarPredictive:
    """Return the distribution of each held-out row, in units of the target."""
    rows = held.pooled()
    latent = rows.law(calibration, held.y - rows.error, loc=units.shift, scale=units.scale)
    return latent if units.transform is None else units.transform.distribution(latent)


def _cell_log(law: ScalarPredictive, low: Floats, high: Floats) -> Floats:
    """Compute log-probabilities of cells, one per row, at least those of 50 nats."""
    rows = np.arange(len(law))
    return np.maximum(log_between(law.tails_at(rows, low), law.tails_at(rows, high)), -50.0)
