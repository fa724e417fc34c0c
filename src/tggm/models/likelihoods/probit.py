"""Classes: multinomial probit, §4.1 of Su et al. (2016).

    z = W1 h + b1 + ε,  ε ~ N(0, I)      class = argmax z

The unit noise of z is a gauge like s0: scaling z changes no class.
"""

from typing import Any, ClassVar, Self

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from tggm.models.hidden.base import Hidden, Latent
from tggm.models.likelihoods.base import EvidenceEngine, Likelihood, Output
from tggm.models.part import Zeros, part
from tggm.special.probit import log_probit

CONTENDERS = 0.8  # weight of the classes that may win, against all alike
LEAST_VARIANCE = 0.25
MANY = 100  # classes beyond which `log_probit` measures its grid
OF_MANY = 20  # nodes that suffice then


def training_nodes(n_classes: int) -> int:
    """Nodes of the probit integral in training: errors far below the noise of a mini-batch (1e-4 nats).

    Grids of many classes are measured, and reach over little more than the bulk of the integrand.
    """
    return OF_MANY if n_classes > MANY else int(-(-(8 + 2.5 * n_classes**0.5) // 4)) * 4


@part
class Probit(Likelihood):
    """Classes, one linear output each."""

    output: Output

    offers: ClassVar = frozenset({"moments", "mean", "gaussian"})
    judged_by_moments: ClassVar = True

    def scores(self, latent: Latent) -> tuple[Array, Array]:
        r"""Means of z, and standard deviations that make independent normals of the classes.

        Which z is largest depends on differences only, so what all classes share is no uncertainty about the
        class. With w̄ the mean of W1 over classes, the variances

        .. math:: D_j = 1 + \frac{n}{n-1} \mathrm{Var}[(w_{1,j} - \bar w)^T h \mid x]

        are those of n independent normals whose contrasts z_j − z̄ have the exact variances up to the rest of
        their sum, and whose pairwise differences have the exact total variance; for two classes D_1 + D_2 is
        exactly Var[z_1 − z_2].
        """
        W1 = self.output.W1
        n = len(W1)
        h, shared = latent.variances(W1 - W1.mean(0, keepdims=True))
        return self.output.of(h), jnp.sqrt(1 + jnp.maximum(shared, 0.0) * (n / (n - 1)))

    def contended_scores(self, latent: Latent) -> tuple[Array, Array]:
        """As `scores`, with the deviations of `contended_std`: what is predicted."""
        W1 = self.output.W1
        h, var = latent.variances(W1)
        mean = self.output.of(h)
        return mean, contended_std(mean, var, lambda w: latent.products(W1, w))

    def by_moments(self, y: Array, latent: Latent) -> Array:
        """Log-probability of each row's class, h integrated out through the moments of z given x."""
        return self._log_probability(y, *self.scores(latent))

    def by_mean(self, y: Array, mean: Array) -> Array:
        """Log-probability of each row's class under unit noise around E[z | x]."""
        return self._log_probability(y, mean, jnp.ones_like(mean))

    def by_engine(self, y: Array, hidden: Hidden, psi: Any, engine: EvidenceEngine) -> Array:
        """Log p(class | x): units and scores together."""
        return engine.class_gain(hidden, psi, self.output, y)

    def _log_probability(self, label: Array, mean: Array, std: Array) -> Array:
        return log_probit(mean, std, label, n_nodes=training_nodes(mean.shape[1]), n_steps=3)

    @classmethod
    def draw(cls, output: Output, noise: Any) -> Self:
        """The noise is a gauge."""
        return cls(output)

    @classmethod
    def template(cls, zeros: Zeros, output: Output) -> Self:
        """The outputs alone."""
        return cls(output)


def contended_std(mean: Array, var: Array, product: Any) -> Array:
    r"""Deviations of independent normals whose differences vary as those of the classes that may win.

    With C the covariance of W1 h given x, t_ij = 2 + C_ii + C_jj − 2 C_ij are the variances of differences.
    Independent normals have D_i + D_j instead: exact for up to three classes, and the least squares

    .. math:: \min_D \sum_{i<j} w_i w_j\, (D_i + D_j - t_{ij})^2

    for more, in closed form. The class with the largest mean has half of the weight, the others share the
    rest by the square of the chance of each to pass it, and a part is for all alike.

    Parameters
    ----------
    mean, var : Array, shape (rows, n)
        Means of z, and the diagonal of C.
    product : callable
        (rows, n) weights to the rows' C w.
    """
    n = mean.shape[1]
    if n == 2:
        sign = jnp.asarray([1.0, -1.0], mean.dtype)[None, :]
        difference = (product(jnp.broadcast_to(sign, mean.shape)) * sign).sum(1, keepdims=True)
        return jnp.broadcast_to(jnp.sqrt(1 + 0.5 * difference), mean.shape)
    first = mean.argmax(1)[:, None] == jnp.arange(n)[None, :]
    spread = 2 + var + jnp.where(first, var, 0.0).sum(1, keepdims=True)
    behind = (mean.max(1, keepdims=True) - mean) / jnp.sqrt(2 * spread)
    chance = jnp.where(first, 0.0, lax.erfc(behind) ** 2 + np.finfo(mean.dtype).tiny)
    share = jnp.where(first, 0.5, 0.5 * chance / chance.sum(1, keepdims=True))
    w = (1 - CONTENDERS) / n + CONTENDERS * share  # sums to 1, and no weight reaches 1/2
    t = 2 * (1 - w) + var * (1 - 2 * w) + (w * var).sum(1, keepdims=True) - 2 * (product(w) - w * var)
    # Σ_j≠i w_j t_ij = D_i (1 − 2 w_i) + Σ_j w_j D_j; the last sum follows from multiplying by w_i and adding
    rest, free, D = 1 - 2 * w, jnp.ones_like(w), jnp.zeros_like(w)
    for _ in range(3):  # where classes exclude each other D may want to be negative: held, the others follow
        held = (w * (1 - free)).sum(1, keepdims=True) * LEAST_VARIANCE
        total = (free * w * (t - held) / rest).sum(1, keepdims=True)
        total = total / (1 + (free * w / rest).sum(1, keepdims=True))
        D = jnp.where(free > 0, (t - held - total) / rest, LEAST_VARIANCE)
        free = jnp.where(D > LEAST_VARIANCE, free, 0.0)
    return jnp.sqrt(jnp.maximum(D, LEAST_VARIANCE))
