"""Predictive distributions of one output, with the operations of an `Arithmetic`, on the scale of the model.

They are those of `tggm.predictive`: `moment` (a mixture of Gaussians), `student`, `beta_map` and
`transformed`, where the formulas are explained. Values have the axes (rows, points).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import numpy as np
from numpy.polynomial.hermite_e import hermegauss
from scipy.special import betaincinv, betaln, gammaln, ndtri

from tggm.arrays import Floats
from tggm.deployment.arithmetic import Arithmetic, Value
from tggm.deployment.classes import log_sum
from tggm.deployment.units import SQRT_2PI, log_probability
from tggm.predictive.calibration import Calibration
from tggm.predictive.shaped import ShapedPredictive
from tggm.predictive.student import StudentPredictive

N_STEPS = 40  # of Newton's method for a quantile, inside a bracket that halves where it would leave it
_LOG_ROOT_2PI = float(np.log(SQRT_2PI))


class Law(ABC):
    """What is asked of the distribution of each row."""

    def __init__(self, ops: Arithmetic) -> None:
        self.ops = ops

    @abstractmethod
    def log_density(self, z: Value) -> Value:
        """Log-density at points, (rows, points)."""

    @abstractmethod
    def quantiles(self, levels: Sequence[float]) -> Value:
        """Quantiles, (rows, levels)."""

    @abstractmethod
    def moments(self) -> tuple[Value, Value] | None:
        """Mean and variance, (rows, 1) each, where they are known in closed form."""

    def log_mean_exp(self, order: float) -> Value | None:
        """Log of E exp(order · Z), (rows, 1), where it is known in closed form."""
        return None


class MixtureLaw(Law):
    """Gaussians, of the members as a rule, with weights that sum to one."""

    def __init__(self, ops: Arithmetic, mean: Value, var: Value, weights: Floats) -> None:
        super().__init__(ops)
        self.mean, self.std, self.members = mean, ops.sqrt(var), len(weights)  # (members, rows, 1)
        self._weight = ops.constant(weights.reshape(-1, 1, 1))
        self._log_weight = ops.constant(np.log(weights).reshape(-1, 1, 1))

    def _mixed(self, log: Value) -> Value:
        return self.ops.squeezed(log_sum(self.ops, log + self._log_weight, 0))

    def _average(self, x: Value) -> Value:
        return self.ops.squeezed(self.ops.sum(x * self._weight, 0))

    def log_density(self, z: Value) -> Value:
        """By the largest of the members."""
        u = (z - self.mean) / self.std
        return self._mixed(u * u * -0.5 - self.ops.log(self.std) - _LOG_ROOT_2PI)

    def log_tail(self, z: Value, side: float) -> Value:
        """Log of P(Z ≤ z), or of P(Z > z) for a side of −1."""
        return self._mixed(log_probability(self.ops, (z - self.mean) / self.std * side))

    def moments(self) -> tuple[Value, Value]:
        """Within members and between them."""
        centre = self._average(self.mean)
        away = self.mean - centre
        return centre, self._average(self.std * self.std + away * away)

    def log_mean_exp(self, order: float) -> Value:
        """Of a mixture of lognormals."""
        return self._mixed(self.mean * order + self.std * self.std * (0.5 * order**2))

    def quantiles(self, levels: Sequence[float]) -> Value:
        """Between the smallest and the largest quantile of a member."""
        ops, q = self.ops, as_array(levels)
        ends = self.mean + self.std * ops.constant(ndtri(q))  # (members, rows, levels)
        high, low = ops.squeezed(ops.max(ends, 0)), -ops.squeezed(ops.max(-ends, 0))
        wanted = ops.constant(q)

        def step(state: list[Value]) -> list[Value]:
            z, low, high = state
            excess = ops.exp(self.log_tail(z, 1.0)) - wanted
            high, low = ops.where(excess > 0.0, z, high), ops.where(excess > 0.0, low, z)
            newton, middle = z - excess / ops.exp(self.log_density(z)), (low + high) * 0.5
            return [ops.where(newton > low, ops.where(newton < high, newton, middle), middle), low, high]

        return ops.repeated(step, [(low + high) * 0.5, low, high], N_STEPS)[0]


class StudentLaw(Law):
    """One Student-t a row, `tggm.predictive.pools` says of which width."""

    def __init__(self, mixture: MixtureLaw, numbers: tuple[float, ...]) -> None:
        super().__init__(mixture.ops)
        f, g, heaviness = numbers
        self.mean, square = centre_and_square(mixture, f, g)
        self.width = self.ops.sqrt(square)
        self.standard = StudentPredictive(np.zeros(1), np.ones(1), heaviness)
        self.heaviness = heaviness
        self.gaussian = bool(np.isfinite(np.asarray(self.standard.log_mean_exp(1.0))).all())

    def log_density(self, z: Value) -> Value:
        """Of Student's or of the normal distribution."""
        ops, u = self.ops, (z - self.mean) / self.width
        if self.gaussian:
            return u * u * -0.5 - ops.log(self.width) - _LOG_ROOT_2PI
        nu = 1 / self.heaviness
        constant = float(gammaln((nu + 1) / 2) - gammaln(nu / 2) - 0.5 * np.log(nu * np.pi))
        return ops.log(u * u / nu + 1.0) * (-0.5 * (nu + 1)) - ops.log(self.width) + constant

    def quantiles(self, levels: Sequence[float]) -> Value:
        """Those of T itself, moved and scaled."""
        u = self.standard.ppf(as_array(levels)[None, :])[0]
        return self.mean + self.width * self.ops.constant(u)

    def moments(self) -> tuple[Value, Value]:
        """Closed forms."""
        return self.mean, self.width * self.width * float(self.standard.var()[0])

    def log_mean_exp(self, order: float) -> Value | None:
        """Of a lognormal; infinite with heavy tails."""
        log = self.standard.log_mean_exp(order)
        return self.mean * order + self.width * self.width * float(np.asarray(log)[0])


class ShapedLaw(StudentLaw):
    """One law, moved and scaled, for all rows."""

    def __init__(self, mixture: MixtureLaw, numbers: tuple[float, ...]) -> None:
        super().__init__(mixture, numbers[:3])
        self.standard = ShapedPredictive(np.zeros(1), np.ones(1), numbers[2], numbers[3:])

    def log_density(self, z: Value) -> Value:
        """Asked of transformed targets only, which are pooled otherwise."""
        raise NotImplementedError("the density of the pool 'shaped' cannot be exported")

    def log_mean_exp(self, order: float) -> None:
        """Not in closed form."""


class BetaLaw(Law):
    """The mixture with its distribution function mapped."""

    def __init__(self, mixture: MixtureLaw, numbers: tuple[float, ...]) -> None:
        super().__init__(mixture.ops)
        self.mixture, (self.a, self.b) = mixture, numbers

    def log_density(self, z: Value) -> Value:
        """With the weight of the map."""
        low, high = (self.mixture.log_tail(z, side) for side in (1.0, -1.0))
        weight = low * (self.a - 1) + high * (self.b - 1) - float(betaln(self.a, self.b))
        return self.mixture.log_density(z) + weight

    def quantiles(self, levels: Sequence[float]) -> Value:
        """Those of the mixture at other levels."""
        return self.mixture.quantiles(betaincinv(self.a, self.b, as_array(levels)).tolist())

    def moments(self) -> None:
        """None in closed form."""


def as_array(levels: Sequence[float]) -> Floats:
    """Levels as an array."""
    return np.asarray(levels, dtype=np.float64)


def centre_and_square(mixture: MixtureLaw, f: float, g: float) -> tuple[Value, Value]:
    """The mean of the members' means, and f² v + g² D, of `tggm.predictive.pools`; members weigh alike."""
    ops, K = mixture.ops, mixture.members
    centre, total = mixture.moments()
    away = mixture.mean - centre
    between = ops.squeezed(ops.sum(away * away, 0))
    within = total - between / float(K)
    return centre, within * f**2 + between * (g**2 / max(K - 1, 1))


def scale_mixture(mixture: MixtureLaw, numbers: tuple[float, ...]) -> MixtureLaw:
    """Five Gaussians a row, of one centre."""
    ops, (f, g, tau) = mixture.ops, numbers
    places, shares = hermegauss(5)
    centre, square = centre_and_square(mixture, f, g)
    widths = ops.constant(np.exp(2 * tau * places).reshape(-1, 1, 1))
    return MixtureLaw(ops, centre + widths * 0.0, square * widths, shares / shares.sum())


def pooled_law(pool: Calibration, mixture: MixtureLaw) -> Law:
    """The calibrated distribution of which this is the members' mixture."""
    if pool.kind not in LAWS:
        raise ValueError(f"the pool {pool.kind!r} cannot be exported; fit with calibrate=False.")
    return LAWS[pool.kind](mixture, pool.numbers)


LAWS: dict[str, Callable[[MixtureLaw, tuple[float, ...]], Law]] = {
    "linear": lambda mixture, numbers: mixture,
    "student": StudentLaw,
    "shaped": ShapedLaw,
    "scales": scale_mixture,
    "beta": BetaLaw,
}
