"""`Support`: the limits of a target and the step of its lattice; how they are found in targets."""

import math
from collections.abc import Sequence
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tggm.arrays import Floats

ON_LATTICE = 1e-6  # largest distance of a number from its lattice point, in steps
FEWEST_ROWS = 50  # to look for a support
LEAST_SHARE, LEAST_COUNT = 0.02, 10  # of the rows at a limit
GRADE_SHARE = 0.05  # of the rows at the end of a scale of grades
LEAST_RATIO = 1.5  # of the rows at a limit to those of the most frequent other value
FEWEST_INSIDE, FEWEST_VALUES = 30, 3  # rows and distinct values that are not at a limit
REPEATS = 2  # rows per distinct value of a lattice
NATURAL_TOPS = 1.0, 100.0  # upper limits of shares: some nonnegative targets are above nine tenths of them
_STEPS = [m * 10.0**e for e in range(6, -7, -1) for m in (5.0, 2.5, 2.0, 1.0)]
_LARGEST_PLACE = 1e9


class Support(NamedTuple):
    """Possible values of a target: limits, None without one, and the step of a lattice or None.

    The lattice contains a limit, and 0 without limits.
    """

    lower: float | None = None
    upper: float | None = None
    step: float | None = None

    @property
    def ends(self) -> tuple[float, float]:
        """Return the limits; infinite without one."""
        lower, upper, _ = self
        return -math.inf if lower is None else lower, math.inf if upper is None else upper

    def __str__(self) -> str:
        """Describe the values: "from 0 on, in steps of 1"."""
        lower, upper, step = (None if x is None else f"{x:g}" for x in self)
        limits = {(True, True): f"from {lower} to {upper}", (True, False): f"from {lower} on"}
        limits |= {(False, True): f"up to {upper}", (False, False): "all numbers"}
        return limits[lower is not None, upper is not None] + (f", in steps of {step}" if step else "")

    def place(self, y: ArrayLike, towards: Any = np.round) -> Floats:
        """Return the number of the lattice point next to y, counted from the first limit or 0."""
        assert self.step is not None
        return towards((np.asarray(y, np.float64) - self._origin) / self.step)

    def point(self, place: Floats) -> Floats:
        """Return lattice points by their numbers, as they are written: k / 10 instead of 0.1 k.

        The limits are returned as they were given, such as 0.1 + 0.2.
        """
        assert self.step is not None
        parts, first = 1 / self.step, self._origin / self.step
        whole = abs(parts - round(parts)) < 1e-9 * parts and abs(first - round(first)) < ON_LATTICE
        points: Floats = (place + round(first)) / round(parts) if whole else self._origin + self.step * place
        for limit in self.ends:
            points = np.where(np.abs(points - limit) < 0.5 * self.step, limit, points)
        return points

    @property
    def _origin(self) -> float:
        return next((limit for limit in self[:2] if limit is not None), 0.0)

    def observe(self, z: Floats) -> Floats:
        """Clip and round latent values."""
        clipped: Floats = np.clip(z, *self.ends)
        if self.step is None:
            return clipped
        with np.errstate(invalid="ignore"):
            return np.where(np.isfinite(clipped), self.point(self.place(clipped)), clipped)

    def cell(self, y: ArrayLike) -> tuple[Floats, Floats]:
        """Return the ends of the latent values that are observed as y: equal ends between limits."""
        values, (lower, upper) = self.observe(np.asarray(y, np.float64)), self.ends
        half = 0.5 * (self.step or 0.0)
        return np.where(values <= lower, -np.inf, values - half), np.where(
            values >= upper, np.inf, values + half
        )

    def contains(self, y: ArrayLike) -> Any:
        """Return whether values are between the limits and on the lattice, up to rounding."""
        values = np.asarray(y, np.float64)
        inside = (values >= self.ends[0]) & (values <= self.ends[1])
        if self.step is None:
            return inside
        place = self.place(values, np.asarray)
        return inside & (np.abs(place - np.round(place)) <= ON_LATTICE)


def checked_support(value: Any) -> Support | str | list[Support | None] | None:
    """Check the argument `support` of an estimator; a list has one entry for each output."""
    if value is None or (isinstance(value, str) and value == "auto"):
        return value
    if isinstance(value, Sequence) and any(isinstance(one, list | tuple) for one in value):
        return [_checked_values(one) for one in value]
    return _checked_values(value)


def _checked_values(value: Any) -> Support | None:
    if value is None:
        return None
    numbers = isinstance(value, Sequence) and not isinstance(value, str) and len(value) in (2, 3)
    reals = [x for x in value if x is not None] if numbers else [math.nan]
    if not all(type(x) is not bool and isinstance(x, Real) and math.isfinite(x) for x in reals):
        raise ValueError(
            "`support` must be 'auto', None, (lower, upper) or (lower, upper, step), each a finite number or "
            f"None for no limit or step, or a list with one of these or None for each output; got {value!r}."
        )
    found = Support(*(None if x is None else float(x) for x in value))
    lower, upper = found.ends
    if lower >= upper or (found.step is not None and found.step <= 0):
        raise ValueError(f"`support` must have lower < upper and a positive step; got {value!r}.")
    if found.step is not None and not found.contains([x for x in (lower, upper) if math.isfinite(x)]).all():
        raise ValueError(f"`support` must have a whole number of steps between its limits; got {value!r}.")
    return None if found == Support() else found


def restored_supports(value: Any, n_outputs: int) -> tuple[Support | None, ...]:
    """Check the supports in a model file: one for each output, or none."""
    if not isinstance(value, list) or len(value) not in (0, n_outputs):
        raise ValueError(f"supports of {n_outputs} outputs, {value!r}")
    return tuple(map(_checked_values, value))


class Plan(NamedTuple):
    """Supports of a fit: that of training, and others to choose from after training."""

    base: Support | None = None  # rows at its limits are censored
    cells: Support | None = None  # whose cells the rows at a limit have
    candidates: tuple[Support, ...] = ()  # in the order in which they are compared
    censored: bool = False  # whether other rows are censored, too


NO_PLAN = Plan()


def plan_supports(given: Support | str | list[Support | None], Y: Floats) -> tuple[Plan, ...]:
    """Find the supports that each target may have, (rows, n), NaN where one is missing."""
    each = given if isinstance(given, list) else Y.shape[1] * [given]
    if len(each) != Y.shape[1]:
        raise ValueError(
            f"`support` has {len(each)} entries, and `y` has {Y.shape[1]} outputs. Pass one for each output."
        )
    return tuple(plan_support(one, y[~np.isnan(y)]) for one, y in zip(each, Y.T, strict=True))


def plan_support(given: Support | str | None, y: Floats) -> Plan:
    """Find the supports that one target, (N,), may have; raise if it is not in the given one.

    Limits are values at the ends that many rows share, and the zeros of counts: rows at them are censored.
    Other bounds (0 for nonnegative targets, 1 and 100 for shares) and steps are candidates.
    """
    if given is None:
        return NO_PLAN
    if isinstance(given, Support):
        if not (good := given.contains(y)).all():
            raise ValueError(
                f"`support` is {tuple(given)}, which does not contain the target {y[~good][0]:g}. "
                "Leave such rows out, or fit with another support."
            )
        return Plan(given, given)
    values, counts = np.unique(y, return_counts=True)
    if len(y) < FEWEST_ROWS or len(values) < FEWEST_VALUES:
        return NO_PLAN
    step = _step(values) if len(values) * REPEATS <= len(y) else None
    lower, upper = _repeated_limits(values, counts)
    zeros = counts[0] if values[0] == 0 else 0
    if step and zeros >= max(LEAST_SHARE * len(y), LEAST_COUNT) and len(y) - zeros >= FEWEST_INSIDE:
        lower = 0.0
    base = Support(lower, upper) if lower is not None or upper is not None else None
    if lower is None and values[0] >= 0:
        lower = 0.0
    if upper is None and lower == 0:
        near = [values[-1] <= top and np.mean(y >= 0.9 * top) >= LEAST_SHARE for top in NATURAL_TOPS]
        upper = next((top for top, good in zip(NATURAL_TOPS, near, strict=True) if good), None)
    bounded = Support(lower, upper)
    often = counts >= GRADE_SHARE * len(y)
    stepped = Support(
        float(values[0]) if often[0] else lower, float(values[-1]) if often[-1] else upper, step
    )
    if step is None or not stepped.contains(values).all():  # a limit is not on the lattice
        stepped = bounded
    candidates = [each for each in (bounded, stepped) if each != (base or Support())]
    return Plan(base, base and base._replace(step=stepped.step), tuple(dict.fromkeys(candidates)))


def _repeated_limits(values: Floats, counts: Any) -> tuple[float | None, float | None]:
    """Return the least and the greatest value where many rows have them."""
    total, found = counts.sum(), [False, False]
    inner = counts[1:-1]
    for k, end in enumerate((0, -1)):
        others = inner.max(initial=0)
        enough = counts[end] >= max(LEAST_SHARE * total, LEAST_COUNT)
        found[k] = bool(enough and counts[end] >= LEAST_RATIO * others)
    inside = slice(1 if found[0] else 0, -1 if found[1] else None)
    if counts[inside].sum() < FEWEST_INSIDE or len(values[inside]) < FEWEST_VALUES:
        return None, None
    return (float(values[0]) if found[0] else None), (float(values[-1]) if found[1] else None)


def _step(values: Floats) -> float | None:
    """Return the largest round step of which all values are multiples."""
    size = np.abs(values[values != 0])
    for step in _STEPS:
        if step < size.max() / _LARGEST_PLACE:
            return None
        place = values / step
        if step <= size.min() * (1 + ON_LATTICE) and (np.abs(place - np.round(place)) <= ON_LATTICE).all():
            return step
    return None
