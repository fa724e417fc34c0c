"""Classes: multinomial probit, §4.1 of Su et al. (2016).

    z = W1 h + b1 + ε,  ε ~ N(0, I)      class = argmax z

The unit noise of z is a gauge like s0: scaling z changes no class.
"""

from typing import Any, ClassVar, Self

import jax.numpy as jnp
from jax import Array, lax

from tggm import formulas
from tggm.models.hidden.base import Hidden, Latent
from tggm.models.likelihoods.base import EvidenceEngine, Likelihood, Output
from tggm.models.part import Zeros, part
from tggm.special.probit import log_probit

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
    """Return `formulas.contended_std` of JAX arrays."""
    return formulas.contended_std(jnp, lax.erfc, mean, var, product)
