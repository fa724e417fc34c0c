"""Training objectives: one number for each row, which `tggm.training.train` maximises.

An objective is a small frozen object; equal objects share one compiled training program.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from tggm.matmul_precision import full_precision
from tggm.paper._inference import Inference
from tggm.paper._model import START_NODES, PaperModel

MEAN_FIELD = Inference("mean_field")


class PaperRows(NamedTuple):
    """Rows of a table."""

    X: Any  # (rows, d), or SparseRows
    y: Any  # (rows, n) numbers, or (rows,) labels


class PaperObjective(ABC):
    """Score held-out rows by the objective and penalise ½‖W‖²; subclasses may override both."""

    @abstractmethod
    def __call__(self, model: PaperModel, rows: PaperRows, progress: Array) -> Array:
        """Return the objective of each row; `progress` is the completed part of training, 0 to 1."""

    def score(self, model: PaperModel, rows: PaperRows) -> Array:
        """Return the score of each held-out row; larger is better."""
        return self(model, rows, jnp.zeros(()))

    def penalty(self, model: PaperModel) -> Array:
        """Return what weight decay multiplies."""
        return model.weight_norm()


@dataclass(frozen=True)
class MomentObjective(PaperObjective):
    """`moments`: the Gaussian with mean and covariance of y given x; for classes, of their scores."""

    def __call__(self, model: PaperModel, rows: PaperRows, progress: Array) -> Array:
        """Return the log-density of each row."""
        return model.output.by_moments(rows.y, model.latent(rows.X, MEAN_FIELD))


@dataclass(frozen=True)
class BackPropagation(PaperObjective):
    """`bp`: squared error, or cross-entropy, of E[y | x]: the paper's TGGM-BP."""

    def __call__(self, model: PaperModel, rows: PaperRows, progress: Array) -> Array:
        """Return the log-density of each row, without the variance of the hidden units."""
        return model.output.by_mean(rows.y, model.mean(rows.X, MEAN_FIELD))


@dataclass(frozen=True)
class EvidenceObjective(PaperObjective):
    """`meanfield` and `ep`: log p(y | x) from log Z, TGGM-ML.

    The gradient of log Z is the engine's moments: gradient ascent is the paper's EM with a gradient M-step.
    """

    inference: Inference
    cycles: tuple[int, int] = (10, 10)  # of the cyclic solver, at the first and at the last step

    @full_precision
    def __call__(self, model: PaperModel, rows: PaperRows, progress: Array) -> Array:
        """Return the log-likelihood of each row; for mean field in one layer a lower bound."""
        first, last = self.cycles
        cycles = jnp.round(first + progress * (last - first)).astype(jnp.int32)
        inference = replace(self.inference, cycles=cycles)
        hidden: Any = model.hidden
        return model.output.by_inference(rows.y, hidden, rows.X, inference)

    @full_precision
    def score(self, model: PaperModel, rows: PaperRows) -> Array:
        """Return the log-likelihood by moments where predictions use moments: classes and several layers."""
        if model.has_exact_density:
            return super().score(model, rows)
        return model.output.by_moments(rows.y, model.latent(rows.X, Inference(self.inference.engine)))


@dataclass(frozen=True)
class ExactDensity(PaperObjective):
    """`exact`: log p(y | x) of one output of one layer by Fourier inversion."""

    @full_precision
    def __call__(self, model: PaperModel, rows: PaperRows, progress: Array) -> Array:
        """Return the log-density of each row."""
        output: Any = model.output
        value: Array = output.by_density(rows.y, model.hidden, rows.X)
        return value


@jax.jit
@full_precision
def subtract_unit_variance(members: PaperModel, X: Any) -> PaperModel:
    """Subtract the units' mean variance from a noise that was learned by back-propagation.

    Back-propagation takes exp(log_noise) for the whole variance v of y given x. At least v / 100 is left.
    """

    def one(model: PaperModel) -> PaperModel:
        output: Any = model.output
        _, share = model.latent(X, MEAN_FIELD, START_NODES).variances(output.W1)
        v = jnp.exp(output.log_noise)
        log_noise = jnp.log(jnp.maximum(v - share.mean(0), 0.01 * v))
        return replace(model, output=replace(output, log_noise=log_noise))

    return jax.vmap(one)(members)
