"""The pool that an ensemble's held-out rows speak for: a word and a few numbers, as a model file keeps them.

Each pool's numbers maximise the weighted log score of rows that members held out, as far as all members
together would have predicted them (`held_out`), less a penalty that keeps few rows from saying much; the pool
with the best score wins, a number costing one nat, as in Akaike's criterion. The Student's 1/ν is at least
2/n, the tails that a Gaussian of estimated width has. Where many rows speak for another law of the errors,
uniform or skewed say, the Student's is bent (`shaped`); the mean stays. Not where no row is held out twice:
how much members differ is a guess there, and the law would be bent by it.

Several outputs are calibrated one by one: each marginal has its own `Calibration`, and what joins them is not
calibrated. Members are taken for Gaussians with their moments; where they are not, `beta` and `linear` keep
their shape.
"""

from collections.abc import Callable, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.optimize import minimize

from tggm import settings
from tggm.arrays import Floats
from tggm.predictive.base import ScalarPredictive
from tggm.predictive.held_out import HeldOut, PooledRows
from tggm.predictive.pools import POOLS, Numbers, Pool, PoolNumber, shaped
from tggm.predictive.shape import KNOTS, most_likely
from tggm.predictive.transforms import Transform

if TYPE_CHECKING:  # predictions without JAX are pooled here, too
    from tggm.models import Model

_MOST_ROWS = 5_000  # widths are then good to a hundredth
_FEWEST_ROWS = 5  # of equal weight; fewer leave members alone
_WORST = 50.0  # nats a row that one row can lose at most by: lost sensors should not set the width
SEARCHED = tuple(kind for kind in POOLS if kind != "shaped")
_FEWEST_BENT = 100  # rows of equal weight: fewer hardly tell one law of the errors from another
_ROUNDS = 3
_WIDTHS = (-3.0, -2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0)  # logarithms of the widths where searches may start


class Calibration(NamedTuple):
    """How members are pooled; `pools` says what the numbers are."""

    kind: str = "linear"
    numbers: tuple[float, ...] = ()


def checked(kind: Any, numbers: Any) -> Calibration:
    """What a file or a user says, or an error that names what is wrong with it."""
    known = POOLS[settings.one_of("calibration", kind, POOLS)]
    if not isinstance(numbers, Sequence | np.ndarray) or len(numbers) != len(known.numbers):
        names = ", ".join(n.name for n in known.numbers) or "none"
        raise ValueError(
            f"`numbers` of the calibration {kind!r} must be {len(known.numbers)} ({names}); got {numbers!r}."
        )
    for n, value in zip(known.numbers, numbers, strict=True):
        x = settings.number(f"{n.name} of the calibration {kind}", value)
        if not n.lowest <= x <= n.highest:
            raise ValueError(
                f"`{n.name}` of the calibration {kind!r} must be from {n.lowest:g} to {n.highest:g}; "
                f"got {x!r}."
            )
    return Calibration(kind, tuple(float(x) for x in numbers))


def factors_of(calibration: Calibration) -> tuple[float, float]:
    """What members' deviations, and the deviation between their means, are multiplied by: f and g, or 1."""
    numbers = dict(zip((n.name for n in POOLS[calibration.kind].numbers), calibration.numbers, strict=True))
    return numbers.get("f", 1.0), numbers.get("g", 1.0)


def has_tails(calibration: Calibration) -> bool:
    """Whether its tails are heavier than a Gaussian's."""
    pairs = zip(POOLS[calibration.kind].numbers, calibration.numbers, strict=True)
    return any(number.tails and value > 0 for number, value in pairs)


def pooled(calibration: Calibration, members: ScalarPredictive) -> ScalarPredictive:
    """The calibrated distribution of rows of which this is the members' mixture."""
    return POOLS[calibration.kind].build(members, calibration.numbers)


def calibrations(model: "Model", transform: Transform | None, held: list[HeldOut]) -> tuple[Calibration, ...]:
    """How the members of a model are pooled for each output; those with exact densities keep their shape.

    The exponential of a Student-t has no mean, and powers may have none: these have tails that end. Under a
    logarithm tails are a Gaussian's, or rare large errors would decide on the mean.
    """
    light = transform is not None and transform.exponential
    kinds: tuple[str, ...] = ("student",) if transform is None or light else ("scales",)
    if "sum" in model.hidden.offers or not model.hidden.by_moments:
        kinds = ("linear", "beta")
    return tuple(fitted(each, kinds=kinds, light_tails=light) for each in held)


def fitted(held: HeldOut, *, kinds: Sequence[str] = SEARCHED, light_tails: bool = False) -> Calibration:
    """The calibration with the best held-out log score.

    Parameters
    ----------
    held : HeldOut
        Rows without a weight, and rows that no member held out, are ignored.
    kinds : sequence of str
        Pools to choose from, keys of `POOLS`; a Student may become `shaped`.
    light_tails : bool
        No tails heavier than a Gaussian's: with them, targets of which logarithms are modelled have no mean.
    """
    some = held.usable(_MOST_ROWS)
    if not some.weight.size:
        return Calibration()
    rows = some.pooled()
    if rows.n_effective < _FEWEST_ROWS:
        return Calibration()
    able = [kind for kind in kinds if POOLS[kind].fewest <= rows.n_effective]
    if not able:
        return Calibration()
    found = {kind: _best(POOLS[kind], rows, light_tails) for kind in able}
    winner = max(found, key=lambda kind: found[kind][1])
    best = Calibration(winner, found[winner][0])
    tells = rows.n_effective >= _FEWEST_BENT and rows.certain  # a guess would bend the law by itself
    return _bent(best, rows) if winner == "student" and tells and not light_tails else best


def _bent(student: Calibration, rows: PooledRows) -> Calibration:
    """The same with a shape of its own, if that gains more nats than the shape has knots.

    What is bent is centred at its mean, which moves with the shape: a few rounds settle both, as a rule.
    """
    before = pooled(student, rows.members).logpdf(rows.y)
    found, tried = Calibration("shaped", student.numbers + KNOTS * (0.0,)), []
    for _ in range(_ROUNDS):
        law = shaped(rows.members, found.numbers)
        logs = most_likely(law.unbent(rows.y), rows.weight)
        found = Calibration("shaped", student.numbers + tuple(map(float, logs)))
        gain = rows.weight @ (pooled(found, rows.members).logpdf(rows.y) - before)
        tried.append((float(gain), found))
    most, best = max(tried)
    return best if most > KNOTS else student


def _best(pool: Pool, rows: PooledRows, light_tails: bool) -> tuple[Numbers, float]:
    """Numbers of a pool, and what they score in nats, less what the numbers cost."""
    scores = pool.scores(rows.members, rows.y)
    free = [n for n in pool.numbers if not (light_tails and n.tails)]
    prior = np.array([_coordinate(n, n.neutral) for n in free])
    deviation = np.array([n.deviation for n in free])
    least = [min(2 / rows.n_effective, n.highest) if n.tails else n.lowest for n in free]
    bounds = [(_coordinate(n, low), _coordinate(n, n.highest)) for n, low in zip(free, least, strict=True)]

    def numbers(u: Floats) -> Numbers:
        values = iter(np.clip(u, *np.transpose(bounds)) if len(u) else u)
        return tuple(_value(n, next(values)) if n in free else n.neutral for n in pool.numbers)

    def loss(u: Floats) -> float:
        each = np.maximum(scores(numbers(u)), -_WORST)
        return float(-rows.weight @ each + 0.5 * np.sum(((u - prior) / deviation) ** 2))

    u = _lowest(loss, prior, np.array([n.width for n in free]), bounds)
    return numbers(u), -loss(u) - len(free)


def _lowest(
    loss: Callable[[Floats], float], neutral: Floats, width: Floats, bounds: list[tuple[float, float]]
) -> Floats:
    """Where a loss is smallest: from the best of several widths, of each number apart, downhill."""
    if not len(neutral):
        return neutral
    logs = product(*(_WIDTHS if w else (0.0,) for w in width))
    start = min((neutral + np.array(log) * width for log in logs), key=loss)
    low, high = np.transpose(bounds)
    # a number at the end of its range would have a one-sided derivative: start inside
    start = np.clip(start, low + 0.02 * (high - low), high - 0.02 * (high - low))
    found = minimize(loss, start, method="L-BFGS-B", bounds=bounds)
    return min((found.x, np.clip(neutral, low, high)), key=loss)


def _coordinate(n: PoolNumber, value: float) -> float:
    return float(np.log(value)) if n.by_log else value


def _value(n: PoolNumber, u: float) -> float:
    return float(np.clip(np.exp(u) if n.by_log else u, n.lowest, n.highest))
