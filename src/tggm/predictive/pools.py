"""Ways of making one distribution of an ensemble's, each with a few numbers that held-out rows tell.

A linear pool of calibrated members is too wide (Ranjan & Gneiting, 2010), and members need not be calibrated.
A `Pool` is a table entry: its numbers, and how they and the members' distribution make the pooled one.
With m_k and v_k the members'
means and variances at a row, m their mean, v that of the variances, D = Σ (m_k − m)² / (K − 1):

=========  ===============  ==========================================================================
linear     ()               the mixture itself, (1/K) Σ p_k
student    (f, g, 1/ν)      m + √(f² v + g² D) · T, T Student with ν degrees of freedom; 1/ν = 0: Gaussian
shaped     (f, g, 1/ν, h)   the same with T's cdf bent by a density with logarithms h at its knots, centred
scales     (f, g, τ)        Σ w_i N(m, (f² v + g² D) e^{2 τ x_i}), x_i, w_i of a Gauss-Hermite rule of 5 nodes
beta       (a, b)           cdf I_{a,b}(F), F that of the mixture, whatever its members are
=========  ===============  ==========================================================================
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.polynomial.hermite_e import hermegauss

from tggm.arrays import Floats
from tggm.predictive.base import ScalarPredictive
from tggm.predictive.beta_map import BetaMapped, log_beta_weight
from tggm.predictive.moment import MomentPredictive
from tggm.predictive.shape import HIGHEST, KNOTS
from tggm.predictive.shaped import ShapedPredictive
from tggm.predictive.student import StudentPredictive

_NODES, _SHARES = hermegauss(5)
SCATTER = 0.5  # of D that is expected to count: what members disagree on their mean gets partly right
Numbers = tuple[float, ...]
Scores = Callable[[Numbers], Floats]


class PoolNumber(NamedTuple):
    """One number of a pool: what it may be, and what is expected of it before any row is seen."""

    name: str
    neutral: float  # as of a pool that leaves members alone
    lowest: float
    highest: float
    deviation: float  # of the prior, a normal around the neutral value; of the logarithm if `by_log`
    by_log: bool = True  # searched by its logarithm
    width: float = 0.0  # how its logarithm changes with that of the pool's width
    tails: bool = False  # makes tails heavier than a Gaussian's


class Pool(NamedTuple):
    """One way of pooling; see the table above."""

    numbers: tuple[PoolNumber, ...]
    build: Callable[[ScalarPredictive, Numbers], ScalarPredictive]
    scores: Callable[[ScalarPredictive, Floats], Scores]  # log-densities of y as a function of the numbers
    fewest: int = 0  # rows of equal weight that its numbers can be told from


def disagreement(members: ScalarPredictive) -> tuple[Floats, Floats, Floats]:
    """m, v and D of each row, standardised units."""
    mean, var = members.member_moments()
    mix = members.member_weights
    centre = mix @ mean
    unbiased = 1 - mix @ mix
    between = mix @ (mean - centre) ** 2 / (unbiased if unbiased > 1e-9 else 1.0)
    return centre, mix @ var, between


def _centre_and_width(members: ScalarPredictive, f: float, g: float) -> tuple[Floats, Floats]:
    centre, var, between = disagreement(members)
    return centre, np.sqrt(f**2 * var + g**2 * between)


def student(members: ScalarPredictive, numbers: Numbers) -> StudentPredictive:
    """One Student-t a row."""
    f, g, heaviness = numbers
    centre, width = _centre_and_width(members, f, g)
    loc, scale = members.units
    return StudentPredictive(centre, width, heaviness, loc=loc, scale=scale)


def shaped(members: ScalarPredictive, numbers: Numbers) -> ShapedPredictive:
    """One law, moved and scaled, for all rows."""
    f, g, heaviness, *logs = numbers
    centre, width = _centre_and_width(members, f, g)
    loc, scale = members.units
    return ShapedPredictive(centre, width, heaviness, tuple(logs), loc=loc, scale=scale)


def scales(members: ScalarPredictive, numbers: Numbers) -> MomentPredictive:
    """Five Gaussians a row, of one centre: heavy tails that end, so that a function of y may have moments."""
    f, g, tau = numbers
    centre, var, between = disagreement(members)
    loc, scale = members.units
    widths = np.exp(2 * tau * _NODES)[:, None] * (f**2 * var + g**2 * between)
    means = np.broadcast_to(centre, widths.shape)
    return MomentPredictive(means, widths, member_weights=_SHARES, loc=loc, scale=scale)


def beta(members: ScalarPredictive, numbers: Numbers) -> BetaMapped:
    """The mixture with its cdf mapped."""
    return BetaMapped(members, *numbers)


def linear(members: ScalarPredictive, numbers: Numbers) -> ScalarPredictive:
    """The mixture itself."""
    return members


def by_building(build: Callable[[ScalarPredictive, Numbers], ScalarPredictive], *numbers: PoolNumber) -> Pool:
    """A pool whose scores are those of the distributions that it builds."""

    def scores(members: ScalarPredictive, y: Floats) -> Scores:
        return lambda values: build(members, values).logpdf(y)

    return Pool(numbers, build, scores)


def _beta_scores(members: ScalarPredictive, y: Floats) -> Scores:
    """As of the distribution, the members being asked once."""
    log, low, high = members.logpdf(y), members.logcdf(y), members.logsf(y)
    return lambda values: log + log_beta_weight(values[0], values[1], low, high)


_FACTORS = (
    PoolNumber("f", 1.0, 0.01, 100.0, 1.0, width=1.0),
    PoolNumber("g", SCATTER**0.5, 0.01, 100.0, 0.5, width=1.0),
)
_STUDENT = (*_FACTORS, PoolNumber("1/ν", 0.0, 0.0, 0.4, 0.2, by_log=False, tails=True))
_KNOTS = (PoolNumber(f"h{k}", 0.0, -HIGHEST, HIGHEST, 1.0, by_log=False) for k in range(KNOTS))
POOLS: dict[str, Pool] = {
    "linear": by_building(linear),
    "student": by_building(student, *_STUDENT),
    "shaped": by_building(shaped, *_STUDENT, *_KNOTS),
    "scales": by_building(scales, *_FACTORS, PoolNumber("τ", 0.0, 0.0, 0.5, 0.3, by_log=False, tails=True)),
    "beta": Pool(  # smaller numbers make tails of which moments take seconds
        tuple(PoolNumber(name, 1.0, 0.3, 1000.0, 1.4, width=-2.0) for name in "ab"),
        beta,
        _beta_scores,
        fewest=200,
    ),
}
