"""Ensembles with known distributions."""

import numpy as np

from tggm.predictive import GaussianMixture
from tggm.predictive.calibration import HeldOut


class Ensemble:
    """y = m + s · noise; members predict N(m + s √D · normal, (width · s)²), nearer to y if trained on it."""

    def __init__(
        self, seed, *, K=10, width=1.0, D=0.3, noise=np.random.Generator.standard_normal, unequal=0.5
    ):
        self.rng, self.K, self.width, self.D = np.random.default_rng(seed), K, width, D
        self.noise, self.unequal = noise, unequal

    def _rows(self, N):
        s = np.exp(self.unequal * self.rng.standard_normal(N))
        m = self.rng.standard_normal(N)
        scatter = np.sqrt(self.D) * s * self.rng.standard_normal((self.K, N))
        var = np.tile((self.width * s) ** 2, (self.K, 1))
        return m + scatter, var, m + s * self.noise(self.rng, size=N)

    def held_out(self, N, k=3, lean=0.4):
        """Draw training rows, each held out by k members."""
        mean, var, y = self._rows(N)
        mask = np.argsort(self.rng.random((self.K, N)), axis=0) < k
        return HeldOut(np.where(mask, mean, mean + lean * (y - mean)), var, mask, y, np.ones(N))

    def fresh(self, N):
        """Draw the members' distributions of new rows, and their targets."""
        mean, var, y = self._rows(N)
        return GaussianMixture(mean, var), y


def student(rng, size):
    """Draw noise with four degrees of freedom."""
    return rng.standard_t(4.0, size)
