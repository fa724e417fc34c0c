"""Moments of units that are not independent: an engine infers them from their truncated Gaussian."""

from jax import Array

from tggm.gaussian import TruncatedGaussian
from tggm.models.hidden.base import Latent, LinearEngine


class Inferred(Latent):
    """What an engine says of the last units of a truncated Gaussian."""

    def __init__(self, tg: TruncatedGaussian, engine: LinearEngine, start: Array | None) -> None:
        self._tg, self._engine, self._start = tg, engine, start

    def covariance(self, W: Array) -> tuple[Array, Array]:
        """Both from one run of the engine."""
        return self._engine.linear_moments(self._tg, W, self._start)
