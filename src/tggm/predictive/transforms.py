"""Increasing maps z = T(y) of the target to the scale on which it is modelled, onto the whole real line.

A map that is not onto would leave probability that belongs to no y: Yeo and Johnson's λ is from 0 to 2 here.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from tggm import settings
from tggm.arrays import Floats
from tggm.predictive.base import ScalarPredictive

_LARGEST = 709.0  # exponent of which the exponential is finite
_SMALLEST = 1e-100  # power that is taken for 0
_NEARLY_LOG = 0.2  # power below which the inverse grows nearly like an exponential


class Transform(ABC):
    """z = T(y); values are finite where arguments are, those beyond all floats being the largest ones."""

    kind: ClassVar[str]

    @property
    def exponential(self) -> bool:
        """Whether y grows like an exponential of z on some side."""
        return False

    @property
    def numbers(self) -> tuple[float, ...]:
        """What a model file keeps besides the kind."""
        return ()

    @abstractmethod
    def forward(self, y: Floats) -> Floats:
        """T(y); −inf where y is below all that can be."""

    @abstractmethod
    def inverse(self, z: Floats) -> Floats:
        """T⁻¹(z); infinite where z is."""

    @abstractmethod
    def log_derivative(self, y: Floats) -> Floats:
        """Log of dT/dy at y: what a log-density of z gains to be one of y."""

    def log_slope(self, z: Floats) -> Floats:
        """Log of dy/dz at z."""
        return -self.log_derivative(self.inverse(z))

    def moments(self, law: ScalarPredictive) -> tuple[Floats, Floats] | None:
        """Mean and variance of T⁻¹(Z), where they are known in closed form."""
        return None


@dataclass(frozen=True)
class IdentityTransform(Transform):
    """T(y) = y."""

    kind = "identity"

    def forward(self, y: Floats) -> Floats:
        """Y itself."""
        return y

    def inverse(self, z: Floats) -> Floats:
        """Z itself."""
        return z

    def log_derivative(self, y: Floats) -> Floats:
        """Zero."""
        return np.zeros_like(y)

    def moments(self, law: ScalarPredictive) -> tuple[Floats, Floats] | None:
        """Those of Z."""
        return law.mean(), law.var()


@dataclass(frozen=True)
class LogTransform(Transform):
    """T(y) = log y, for targets that are positive."""

    kind = "log"

    @property
    def exponential(self) -> bool:
        """It does."""
        return True

    def forward(self, y: Floats) -> Floats:
        """Log y; −inf for y ≤ 0."""
        with np.errstate(divide="ignore"):
            z: Floats = np.log(np.maximum(y, 0.0))
        return z

    def inverse(self, z: Floats) -> Floats:
        """Exp z."""
        return np.where(z == np.inf, np.inf, np.exp(np.minimum(z, _LARGEST)))

    def log_derivative(self, y: Floats) -> Floats:
        """−log y; −inf for y ≤ 0, where no density is."""
        z = self.forward(y)
        return np.where(z == -np.inf, -np.inf, -z)

    def log_slope(self, z: Floats) -> Floats:
        """Z itself."""
        return z

    def moments(self, law: ScalarPredictive) -> tuple[Floats, Floats] | None:
        """Those of a mixture of lognormals: from E e^Z and E e^{2Z}."""
        first, second = law.log_mean_exp(1.0), law.log_mean_exp(2.0)
        if first is None or second is None:
            return None
        with np.errstate(divide="ignore", invalid="ignore"):
            gap = np.maximum(second - 2 * first, 0.0)
            log_var = 2 * first + gap + np.log(-np.expm1(-gap))
        return self.inverse(first), np.where(np.isfinite(second), self._positive(log_var), np.inf)

    def _positive(self, log: Floats) -> Floats:
        """What has this logarithm, a float above 0 in any case."""
        return np.maximum(self.inverse(log), np.finfo(float).tiny)


@dataclass(frozen=True)
class YeoJohnsonTransform(Transform):
    """Yeo & Johnson's power of u = (y − loc)/scale.

    T = ((1 + u)^λ − 1)/λ for u ≥ 0 and −((1 − u)^{2−λ} − 1)/(2 − λ) below, with limits log(1 + u) at λ = 0
    and −log(1 − u) at λ = 2; λ = 1 is linear.
    """

    power: float
    loc: float = 0.0
    scale: float = 1.0
    kind = "yeo-johnson"

    @property
    def exponential(self) -> bool:
        """Powers of more than five count."""
        return min(self.power, 2 - self.power) < _NEARLY_LOG

    def __post_init__(self) -> None:
        if not 0 <= self.power <= 2:
            raise ValueError(f"`power` must be from 0 to 2, or T is not onto; got {self.power!r}.")
        if not (np.isfinite(self.loc) and 0 < self.scale < np.inf):
            raise ValueError(
                f"`loc` must be finite and `scale` positive; got {self.loc!r} and {self.scale!r}."
            )

    @property
    def numbers(self) -> tuple[float, ...]:
        """λ, loc and scale."""
        return self.power, self.loc, self.scale

    def _units(self, y: Floats) -> Floats:
        u: Floats = (y - self.loc) / self.scale
        return np.clip(u, -np.finfo(float).max, np.finfo(float).max)

    def forward(self, y: Floats) -> Floats:
        """T(y)."""
        u = self._units(y)
        return np.where(
            u >= 0, _power(np.maximum(u, 0.0), self.power), -_power(np.maximum(-u, 0.0), 2 - self.power)
        )

    def inverse(self, z: Floats) -> Floats:
        """T⁻¹(z)."""
        up, down = _root(np.maximum(z, 0.0), self.power), _root(np.maximum(-z, 0.0), 2 - self.power)
        with np.errstate(over="ignore"):
            y = np.where(z >= 0, up, -down) * self.scale + self.loc
        return np.where(np.isfinite(z), np.nan_to_num(y), z)

    def log_derivative(self, y: Floats) -> Floats:
        """(λ − 1) log(1 + |u|), with the sign of u, less log scale."""
        u = self._units(y)
        log: Floats = np.sign(u) * (self.power - 1) * np.log1p(np.abs(u)) - np.log(self.scale)
        return log


def _power(u: Floats, p: float) -> Floats:
    """((1 + u)^p − 1)/p for u ≥ 0."""
    log = np.log1p(u)
    return log if p < _SMALLEST else np.expm1(np.minimum(p * log, _LARGEST)) / p


def _root(v: Floats, p: float) -> Floats:
    """The u with ((1 + u)^p − 1)/p = v."""
    log = v if p < _SMALLEST else np.log1p(p * v) / p
    root: Floats = np.expm1(np.minimum(log, _LARGEST))
    return root


TRANSFORMS: dict[str, type[Transform]] = {
    kind.kind: kind for kind in (IdentityTransform, LogTransform, YeoJohnsonTransform)
}


def checked_transform(kind: Any, numbers: Any) -> Transform:
    """What a file says, or an error that names what is wrong with it."""
    cls = TRANSFORMS[settings.one_of("transform", kind, TRANSFORMS)]
    wanted = 3 if cls is YeoJohnsonTransform else 0
    if not isinstance(numbers, list | tuple) or len(numbers) != wanted:
        raise ValueError(f"`numbers` of the transform {kind!r} must be {wanted}; got {numbers!r}.")
    return cls(*(settings.number(f"number of the transform {kind}", x) for x in numbers))
