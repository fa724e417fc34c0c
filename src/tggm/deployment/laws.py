"""Predictive distributions of one output, with the operations of an `Arithmetic`, on the scale of the model.

They are those of `tggm.predictive`: mixtures of Gaussians and (shaped) Student-t distributions, where the
formulas are explained. Values have the axes (rows, points).
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
from scipy.special import ndtri

from tggm.arrays import Floats
from tggm.deployment.arithmetic import Arithmetic, Value
from tggm.deployment.classes import log_sum
from tggm.deployment.units import SQRT_2PI, log_probability
from tggm.predictive.calibration import Calibration, pooled
from tggm.predictive.gaussian_mixture import GaussianMixture

N_STEPS = 40  # of Newton's method for a quantile, inside a bracket that halves where it would leave it
_LOG_ROOT_2PI = float(np.log(SQRT_2PI))


class Law(ABC):
    """What is asked of the distribution of each row."""

    def __init__(self, ops: Arithmetic) -> None:
        self.ops = ops

    @abstractmethod
    def quantiles(self, levels: Sequence[float]) -> Value:
        """Quantiles, (rows, levels)."""

    @abstractmethod
    def moments(self) -> tuple[Value, Value]:
        """Return mean and variance, (rows, 1) each."""

    @abstractmethod
    def log_mean_exp(self, order: float) -> Value:
        """Compute log E exp(order · Z), (rows, 1)."""


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
    """One Student-t per row; see `tggm.predictive.calibration` for its width."""

    def __init__(self, mixture: MixtureLaw, numbers: tuple[float, ...]) -> None:
        super().__init__(mixture.ops)
        f, g, heaviness, *logs = numbers
        self.mean, self.square = centre_and_square(mixture, f, g)
        one = GaussianMixture(np.zeros((1, 1)), np.ones((1, 1)))
        self.standard = pooled(
            Calibration("shaped" if logs else "student", (1.0, 1.0, heaviness, *logs)), one
        )

    def quantiles(self, levels: Sequence[float]) -> Value:
        """Scale and shift the quantiles of T."""
        u = self.standard.ppf(as_array(levels)[None, :])[0]
        return self.mean + self.ops.sqrt(self.square) * self.ops.constant(u)

    def moments(self) -> tuple[Value, Value]:
        """Return mean and variance."""
        return self.mean, self.square * float(self.standard.var()[0])

    def log_mean_exp(self, order: float) -> Value:
        """Compute log E exp(order · Z) of a Gaussian: transformed targets have no other pool."""
        return self.mean * order + self.square * (0.5 * order**2)


def as_array(levels: Sequence[float]) -> Floats:
    """Levels as an array."""
    return np.asarray(levels, dtype=np.float64)


def centre_and_square(mixture: MixtureLaw, f: float, g: float) -> tuple[Value, Value]:
    """Compute m and f² v + g² D of `tggm.predictive.calibration`; members have equal weights."""
    ops, K = mixture.ops, mixture.members
    centre, total = mixture.moments()
    away = mixture.mean - centre
    between = ops.squeezed(ops.sum(away * away, 0))
    within = total - between / float(K)
    return centre, within * f**2 + between * (g**2 / max(K - 1, 1))


def pooled_law(pool: Calibration, mixture: MixtureLaw) -> Law:
    """The calibrated distribution of which this is the members' mixture."""
    return mixture if pool.kind == "linear" else StudentLaw(mixture, pool.numbers)
