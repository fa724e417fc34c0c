"""Moments of units that are not independent: an engine infers them from their truncated Gaussian."""

from typing import Any

import numpy as np
from jax import Array

from tggm.gaussian import TruncatedGaussian
from tggm.models.hidden.base import Latent, LinearEngine

# Between units: 1 is lost beside its square when a matrix I + V'V is factorised. And of locations over σ0.
MOST_CONNECTION = {"float32": 1e3, "float64": 1e6}
MOST_LOCATION = {"float32": 1e6, "float64": 1e12}


def require_connections(what: str, connections: Any, narrow: str) -> None:
    """Raise for connections with which engines do not converge to numbers."""
    size, most = float(np.abs(connections).max()), MOST_CONNECTION[narrow]
    if not size <= most:
        raise ValueError(f"{what} must be at most {most:g} in {narrow}; they reach {size:.3g}")


def require_locations(weights: Any, biases: Any, s0: Any, psi: float, narrow: str) -> None:
    """Raise for units whose locations W ψ + b are too many deviations from 0 for engines."""
    sizes = float(np.abs(weights).max()) * max(1.0, psi), float(np.abs(biases).max())
    reach, most = max(sizes) / float(np.sqrt(np.min(s0))), MOST_LOCATION[narrow]
    if not reach <= most:
        raise ValueError(f"locations reach {reach:.3g} σ0, where {most:g} is the most in {narrow}")


class Inferred(Latent):
    """What an engine says of the last units of a truncated Gaussian."""

    def __init__(self, tg: TruncatedGaussian, engine: LinearEngine, start: Array | None) -> None:
        self._tg, self._engine, self._start = tg, engine, start

    def covariance(self, W: Array) -> tuple[Array, Array]:
        """Both from one run of the engine."""
        return self._engine.linear_moments(self._tg, W, self._start)
