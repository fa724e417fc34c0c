"""Pool an ensemble into one calibrated distribution per row, with a rule fitted on held-out rows.

With m_k and v_k the members' means and variances at a row, m the mean of the m_k, v that of the v_k and
D = Σ (m_k − m)² / (K − 1), a `Calibration` is one of

=========  ===============  ==========================================================================
linear     ()               the mixture of the members itself, (1/K) Σ p_k
student    (f, g, 1/ν)      m + √(f² v + g² D) · T, T Student with ν degrees of freedom; 1/ν = 0: Gaussian
shaped     (f, g, 1/ν, h)   the same with the distribution function of T mapped by a density with
                            log-densities h at its knots (`student.Shape`), centred at its mean
scales     (f, g, 1/ν, c)   m + √(f² v + e/(1 + e/c)) · T, e = g² D, T of one or five Gaussians
=========  ===============  ==========================================================================

A mixture of calibrated members is too wide (Ranjan & Gneiting, 2010), and members need not be calibrated:
`fit_calibration` maximises the weighted log-likelihood of rows that members held out, minus a penalty. The
lower bound of 1/ν is 2/n, the tails of a Gaussian whose width is estimated from n rows. With at least 100
rows the shape of the errors is estimated, too, if that gains more nats than the shape has knots. With fewer
rows, or if D is not estimated from data, the Student-t is kept: errors of D would distort the shape. Each
output has its own `Calibration`.

The logarithm of a target has "scales". T is Gaussian with 1/ν = 0; five Gaussians are used if they gain three
nats: T = Z √(ν/G), Z Gaussian, where G takes five quantiles of its chi-squared distribution. The mean of the
target is exp(variance / 2) times its median. So that it is not arbitrarily large, the variance due to D is
below c, and a Gaussian wider than √(f² v + …) has at most the variance 3 c. c is 1 in units of the logarithm.

Held-out rows. Row i is held out by k of the K members. A new row is predicted by all K, with a smaller error:
if members vary with variance D around their common expectation, whose squared error is τ², then

    E (y − mean of k)² = τ² + D/k,        E (y − mean of K)² = τ² + D/K.

D is estimated from at least two members that did not train on the row, because members that trained on it
agree too closely. The estimate from k members is unbiased and noisy. The variance of the other members, times
the ratio of both variances over all rows, is smoother and has the weight 1/k. Its correlation with the
squared error is removed first, because each of these members has fitted a part of the target. All errors are
scaled by one factor, so that their mean square becomes that of averages over K instead of k members.

A member stops at the epoch that is best for the n rows that it held out, which makes their log-likelihood too
high by 1/n nats per row, as in Akaike's criterion: squared errors are multiplied by 1 + 2/n (`optimism`).
If members were trained again on all rows, because the folds left rows out, K is the number of these members,
and they are the members that did train on the row. Rows that no member held out are ignored.

The number of rows that are held out in groups is divided by the design effect (Kish, 1965) of the squared
errors: the variance of their mean, with groups as sampling units, over that for independent rows, at least
1. Rows of which only an interval is known, such as those at a limit of the target, have the log-probability
of the interval instead of a log-density. D and the factor of the errors come from the others.

If fewer than five rows are held out twice, D is the variance of all members, which is too small and
correlated with the error; only half of the reduction is applied.
"""

from collections.abc import Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaincinv

from tggm import settings
from tggm.arrays import Bools, Floats, Ints
from tggm.predictive.base import ScalarPredictive, log_between
from tggm.predictive.gaussian_mixture import GaussianMixture
from tggm.predictive.student import (
    HIGHEST,
    KNOTS,
    LEAST_HEAVINESS,
    ShapedPredictive,
    StudentPredictive,
    fit_shape,
    log_student,
)

DISAGREEMENT = 0.5  # prior mean of g²: the pooled mean averages out a part of D
_FACTOR = 0.01, 100.0  # range of f and g
_MOST_HEAVINESS = 0.4  # of 1/ν
_DEVIATION = np.array([1.0, 0.5, 0.2])  # prior standard deviations of log f, log g and 1/ν
_STARTS = np.array([-3.0, -2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0])  # shifts of log f and log g at the start
_MOST_ROWS = 5_000  # widths then have an error of a hundredth
_FEWEST_ROWS = 5  # of equal weight to fit a calibration; rows held out twice to estimate D
_FEWEST_SHAPED = 100  # rows of equal weight to estimate the shape
_SHAPE_ROUNDS = 3
_MASSES = np.array([0.02, 0.08, 0.2, 0.3, 0.4])  # of the Gaussians of "scales", widest first
_LEAST_GAIN = 3.0  # nats by which "scales" must be better than a Gaussian
_WORST = 50.0  # largest loss of one row, in nats: outliers should not set the width
_REDUCTION = 0.5  # share of the reduction of squared errors that is applied where D is not estimated
_LEAST_FACTOR = 0.1  # smallest factor of squared errors
_OUTLIER = 10.0  # medians at which squared errors are clipped in the regression of D on them
_FINE = 1e-4  # width of a cell, in deviations, below which its density is used
_LEAST_SCATTER = 0.2  # smallest share of the scatter of members that trained on the row

MOST_VARIANCE = 1.0  # c of the table above, in units of the logarithm
_WIDEST = 3.0  # variance of the Gaussians of "scales", in c

_SHAPE = {f"h{k}": (-HIGHEST, HIGHEST) for k in range(KNOTS)}
NUMBERS: dict[str, dict[str, tuple[float, float]]] = {  # names and ranges of the numbers of each kind
    "linear": {},
    "student": {"f": _FACTOR, "g": _FACTOR, "1/ν": (0.0, _MOST_HEAVINESS)},
    "shaped": {"f": _FACTOR, "g": _FACTOR, "1/ν": (LEAST_HEAVINESS, _MOST_HEAVINESS), **_SHAPE},
    "scales": {"f": _FACTOR, "g": _FACTOR, "1/ν": (0.0, _MOST_HEAVINESS), "c": (1e-300, 1e300)},
}


class Calibration(NamedTuple):
    """How members are pooled: a kind of the table above and its numbers."""

    kind: str = "linear"
    numbers: tuple[float, ...] = ()

    @property
    def factors(self) -> tuple[float, float]:
        """Return f and g; 1 for the plain mixture."""
        return (self.numbers[0], self.numbers[1]) if self.numbers else (1.0, 1.0)

    @property
    def most(self) -> float | None:
        """Return the bound c of "scales"; None for other kinds."""
        return self.numbers[3] if self.kind == "scales" else None

    def square(self, var: Any, between: Any) -> Any:
        """Return the squared widths of rows with these v and D."""
        f, g = self.factors
        e = g**2 * between
        return f**2 * var + (e if self.most is None else e / (1 + e / self.most))

    def gaussians(self, square: Any, xp: Any = np) -> tuple[Any, Floats]:
        """Return the variances of the Gaussians of "scales", (components, N), and their weights, (·, 1)."""
        heaviness, most = self.numbers[2:]
        if heaviness < LEAST_HEAVINESS:
            return square[None, ...], np.ones((1, 1))
        nu, middle = 1 / heaviness, np.cumsum(_MASSES) - 0.5 * _MASSES
        ratio = 0.5 * nu / gammaincinv(0.5 * nu, middle)[:, None]
        widest = xp.maximum(square, xp.ones_like(square) * (_WIDEST * most))[None, ...]
        return xp.minimum(square[None, ...] * ratio, widest), _MASSES[:, None]

    def distribution(
        self, centre: Floats, var: Floats, between: Floats, *, loc: float = 0.0, scale: float = 1.0
    ) -> ScalarPredictive:
        """Return the pooled distribution of rows with these m, v and D; not for the plain mixture."""
        heaviness, *logs = self.numbers[2:]
        square = self.square(var, between)
        if self.kind == "scales":
            squares, masses = self.gaussians(square)
            means, weight = (np.broadcast_to(a, squares.shape) for a in (centre, masses))
            return GaussianMixture(means, squares, weight=weight, loc=loc, scale=scale)
        if logs:
            return ShapedPredictive(centre, np.sqrt(square), heaviness, tuple(logs), loc=loc, scale=scale)
        if heaviness < LEAST_HEAVINESS:
            return GaussianMixture(centre[None], square[None], loc=loc, scale=scale)
        return StudentPredictive(centre, np.sqrt(square), heaviness, loc=loc, scale=scale)


def checked_calibration(kind: Any, numbers: Any) -> Calibration:
    """Check kind and numbers of a calibration read from a file."""
    known = NUMBERS[settings.one_of("calibration", kind, NUMBERS)]
    if not isinstance(numbers, Sequence | np.ndarray) or len(numbers) != len(known):
        names = ", ".join(known) or "none"
        raise ValueError(
            f"`numbers` of the calibration {kind!r} must be {len(known)} ({names}); got {numbers!r}."
        )
    for (name, (lowest, highest)), value in zip(known.items(), numbers, strict=True):
        x = settings.number(f"{name} of the calibration {kind}", value)
        if not lowest <= x <= highest:
            raise ValueError(
                f"`{name}` of the calibration {kind!r} must be from {lowest:g} to {highest:g}; got {x!r}."
            )
    return Calibration(kind, tuple(float(x) for x in numbers))


def disagreement(members: GaussianMixture) -> tuple[Floats, Floats, Floats]:
    """Return m, v and D of each row, in standardised units."""
    mean, std, _ = members.components
    mix = np.full(len(mean), 1 / len(mean))
    centre = mix @ mean
    between = mix @ (mean - centre) ** 2 / (1 - mix @ mix if len(mean) > 1 else 1.0)
    return centre, mix @ std**2, between


def pooled(calibration: Calibration, members: GaussianMixture) -> ScalarPredictive:
    """Pool the members' mixture into the calibrated distribution of each row."""
    if calibration.kind == "linear":
        return members
    loc, scale = members.units
    return calibration.distribution(*disagreement(members), loc=loc, scale=scale)


class PooledRows(NamedTuple):
    """Held-out rows, predicted as if all members had held them out, (N,) each."""

    centre: Floats  # mean of the members that held the row out
    error: Floats  # y − m
    var: Floats  # v
    between: Floats  # D
    weight: Floats  # with the sum (Σw)² / Σw² / design effect, the number of rows of equal information
    estimated: bool  # whether D is estimated from data
    ends: tuple[Floats, Floats] | None = None  # errors of the ends of the interval that contains y; equal: y

    def law(self, calibration: "Calibration", at: Floats | float = 0.0, **units: float) -> ScalarPredictive:
        """Return the calibrated distribution of each row, for targets `at`; by default that of its error."""
        return calibration.distribution(np.zeros_like(self.error) + at, self.var, self.between, **units)

    def log_likelihood(self, calibration: "Calibration") -> Floats:
        """Compute the log-density of each error, or the mean log-density in its interval."""
        law = self.law(calibration)
        log = law.logpdf(self.error)
        if self.ends is None:
            return log
        low, high = self.ends
        rows = np.flatnonzero(high > low)
        a, b = low[rows], high[rows]
        finite = np.isfinite(a) & np.isfinite(b)
        width = np.where(finite, b - a, 1.0)
        cell = log_between(law.tails_at(rows, a), law.tails_at(rows, b)) - np.log(width)
        fine = finite & (width < _FINE * law.std()[rows])  # the difference of two probabilities loses digits
        log[rows] = np.where(fine, log[rows], cell)
        return log


class HeldOut(NamedTuple):
    """Predictions of one output at training rows by each member, in standardised units."""

    mean: Floats  # (K, N)
    var: Floats  # (K, N)
    held_out_mask: Bools  # (K, N) member k held row i out
    y: Floats  # (N,)
    weight: Floats  # (N,)
    optimism: float = 1.0  # factor of squared errors: the members' epochs were chosen on these rows
    again: Floats | None = None  # (K, N) means of members that were trained again, on all rows
    group: Ints | None = None  # (N,) of rows that were held out together
    ends: tuple[Floats, Floats] | None = None  # (N,) of the interval that contains the value; equal: y

    def usable(self, most: int) -> "HeldOut":
        """Return at most `most` usable rows."""
        return self.take(evenly_spaced(np.flatnonzero(self.usable_mask), most))

    @property
    def usable_mask(self) -> Bools:
        """Return the rows that have a weight and were held out."""
        good = self.held_out_mask.any(0) & (self.weight > 0) & np.isfinite(self.weight) & np.isfinite(self.y)
        return good & (np.isfinite(self.mean) & np.isfinite(self.var) & (self.var > 0)).all(0)

    def take(self, rows: Ints) -> "HeldOut":
        """Select rows."""
        mean, var, mask = self.mean[:, rows], self.var[:, rows], self.held_out_mask[:, rows]
        again = None if self.again is None else self.again[:, rows]
        group = None if self.group is None else self.group[rows]
        ends = None if self.ends is None else (self.ends[0][rows], self.ends[1][rows])
        return HeldOut(mean, var, mask, self.y[rows], self.weight[rows], self.optimism, again, group, ends)

    def pooled(self) -> PooledRows:
        """Predict usable rows as if all members had held them out; the mean is over those that did."""
        mask, K, k = self.held_out_mask, len(self.mean), self.held_out_mask.sum(0)
        centre, var = (np.where(mask, a, 0.0).sum(0) / k for a in (self.mean, self.var))
        w = self.weight / self.weight.sum()
        known = w if self.ends is None else np.where(np.isfinite(np.subtract(*self.ends)), w, 0.0)
        scatter, estimated = self._scatter(centre, var, known if known.any() else w)
        square = (self.y - centre) ** 2 / var
        squares = known @ square
        reduction = (1.0 if estimated else _REDUCTION) * (known @ (scatter * (1 / k - 1 / K) / var))
        factor = np.clip(1 - reduction / squares, _LEAST_FACTOR, 1.0) if squares > 0 else 1.0
        effect = 1.0 if self.group is None else _design_effect(square, w, self.group)
        error = np.sqrt(factor * (1 + effect * (self.optimism - 1))) * (self.y - centre)
        ends = None if self.ends is None else (error + self.ends[0] - self.y, error + self.ends[1] - self.y)
        total = w / (w**2).sum() / effect
        return PooledRows(centre, error, var, scatter, total, estimated or K == 1, ends)

    def _scatter(self, centre: Floats, var: Floats, w: Floats) -> tuple[Floats, bool]:
        """Return D of each row, as if no member had trained on it, and whether it is estimated from data."""
        mask = self.held_out_mask
        fitted, mean = (~mask, self.mean) if self.again is None else (np.ones_like(mask), self.again)
        twice, others = (mask.sum(0) >= 2) & (w > 0), fitted.sum(0) >= 2
        if twice.sum() < _FEWEST_ROWS:
            return _scatter_where(np.ones_like(mask), mean), False
        fresh, trained = _scatter_where(mask, self.mean) / var, _scatter_where(fitted, mean) / var
        if not (twice & others).any():  # for example two of three members: there are no two others
            usual = np.average(fresh[twice], weights=w[twice])
            return var * np.where(twice, fresh + (usual - fresh) / mask.sum(0), usual), True
        w = np.where(twice & others, w, 0.0)
        square = (self.y - centre) ** 2 / var
        square = np.minimum(square, _OUTLIER * np.median(square))
        square -= _ratio(w @ square, w.sum())
        smooth = np.where(others, trained * _ratio(w @ fresh, w @ trained), fresh)
        excess = max(_ratio(w @ (square * (smooth - fresh)), w @ square**2), 0.0)
        smooth = np.where(others, np.maximum(smooth - excess * square, _LEAST_SCATTER * smooth), fresh)
        smooth *= np.where(others, _ratio(w @ fresh, w @ smooth), 1.0)
        return var * (fresh + np.where(twice, 1 / mask.sum(0), 1.0) * (smooth - fresh)), True


def evenly_spaced(rows: Ints, most: int) -> Ints:
    """Return the rows, or `most` of them with equal distances in the list."""
    return rows if len(rows) <= most else rows[np.linspace(0, len(rows) - 1, most).astype(int)]


def fit_calibration(held: HeldOut, *, most: float | None = None) -> Calibration:
    """Fit the calibration with the best penalised log-likelihood of held-out rows; others are ignored.

    For the logarithm of a target, `most` is c of "scales".
    """
    usable = held.usable(_MOST_ROWS)
    if not usable.weight.size:
        return Calibration()
    rows = usable.pooled()
    n_effective = rows.weight.sum()
    if n_effective < _FEWEST_ROWS:
        return Calibration()
    student, loss = _fit_student(rows, most, gaussian=most is not None)
    if most is not None:
        scales, other = _fit_student(rows, most)
        return scales if loss - other > _LEAST_GAIN else student
    if n_effective < _FEWEST_SHAPED or not rows.estimated:
        return student
    return _fit_shaped(student, rows)


def _fit_student(
    rows: PooledRows, most: float | None, *, gaussian: bool = False
) -> tuple[Calibration, float]:
    """Minimise the penalised negative log-likelihood over (log f, log g, 1/ν); 1/ν = 0 if `gaussian`."""
    free = 2 if gaussian else 3
    low, high = np.log(_FACTOR)
    prior = np.array([0.0, np.log(np.sqrt(DISAGREEMENT)), 0.0])[:free]
    lower = np.array([low, low, min(2 / rows.weight.sum(), _MOST_HEAVINESS)])[:free]
    upper = np.array([high, high, _MOST_HEAVINESS])[:free]

    def calibration(u: Floats) -> Calibration:
        u = np.clip(u, lower, upper)
        f, g = np.clip(np.exp(u[:2]), *_FACTOR)
        numbers = float(f), float(g), 0.0 if gaussian else float(u[2])
        return Calibration("student", numbers) if most is None else Calibration("scales", (*numbers, most))

    def loss(u: Floats) -> float:
        tried = calibration(u)
        if rows.ends is None and (most is None or gaussian):
            width = np.sqrt(tried.square(rows.var, rows.between))
            log = log_student(rows.error / width, tried.numbers[2]) - np.log(width)
        else:
            log = rows.log_likelihood(tried)
        each = np.maximum(log, -_WORST)
        return float(-rows.weight @ each + 0.5 * np.sum(((u - prior) / _DEVIATION[:free]) ** 2))

    shifts = product(_STARTS, _STARTS, *[(0.0,)] * (free - 2))
    start = min((prior + np.array(shift) for shift in shifts), key=loss)
    # start inside the bounds: at a bound the derivative would be one-sided
    start = np.clip(start, lower + 0.02 * (upper - lower), upper - 0.02 * (upper - lower))
    from scipy.optimize import minimize  # not needed for predictions

    found = minimize(loss, start, method="L-BFGS-B", bounds=list(zip(lower, upper, strict=True)))
    best = min((found.x, np.clip(prior, lower, upper)), key=loss)
    return calibration(best), loss(best)


def _fit_shaped(student: Calibration, rows: PooledRows) -> Calibration:
    """Estimate the shape of the errors; return `student` if it gains less than one nat per knot.

    The shaped distribution is centred at its mean, which moves with the shape: both are estimated in turn.
    """
    before = rows.log_likelihood(student)
    found, tried = Calibration("shaped", student.numbers + KNOTS * (0.0,)), []
    for _ in range(_SHAPE_ROUNDS):
        shaped: Any = rows.law(found)
        u = shaped.student_cdf(rows.error)
        ends = rows.ends and (shaped.student_cdf(rows.ends[0]), shaped.student_cdf(rows.ends[1]))
        logs = fit_shape(u, rows.weight, ends)
        found = Calibration("shaped", student.numbers + tuple(map(float, logs)))
        gain = rows.weight @ (rows.log_likelihood(found) - before)
        tried.append((float(gain), found))
    most, best = max(tried)
    return best if most > KNOTS else student


def _ratio(a: Floats, b: Floats) -> float:
    """Divide two sums; 1 if the divisor is not positive."""
    return float(a / b) if b > 0 else 1.0


def _design_effect(square: Floats, w: Floats, group: Ints) -> float:
    """Return the variance of the weighted mean of clipped squares over that for independent rows."""
    square = np.minimum(square, _OUTLIER * np.median(square))
    part = w * (square - w @ square)
    sums = np.bincount(np.unique(group, return_inverse=True)[1], part)
    return max(_ratio((sums**2).sum(), (part**2).sum()), 1.0)


def _scatter_where(where: Bools, values: Floats) -> Floats:
    """Compute the unbiased variance over the selected members; 0 for fewer than two."""
    count = where.sum(0)
    mean = np.where(where, values, 0.0).sum(0) / np.maximum(count, 1)
    return np.where(where, (values - mean) ** 2, 0.0).sum(0) / np.maximum(count - 1, 1)
