"""What each training method maximises, one number a row.

A method is a small frozen object that asks a model for one capability: equal objects share one compiled
training program. `METHODS` is the only table of them.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from tggm.models import Model
from tggm.products import full_precision
from tggm.training.engine import Inference


class Rows(NamedTuple):
    """Rows of a table."""

    X: Any  # (rows, d), or SparseRows
    y: Any  # what the likelihood takes: (rows, n) numbers, `Incomplete` ones, (rows,) labels


class Options(NamedTuple):
    """How the methods that infer the hidden units do it."""

    solver: str = "newton"
    cycles: tuple[int, int] = (10, 10)  # of the cyclic solver, at the first step and at the last
    prior: str = "auto"
    factorised: bool = False  # whether q(z) of a class is split into its components


_DEFAULT = Options()


@dataclass(frozen=True)
class Method(ABC):
    """Shared by all methods: the score of held-out rows is the objective, the penalty ½‖W‖²."""

    options: Options = _DEFAULT  # for those that use them

    needs: ClassVar[str]  # a capability, as `tggm.models.hidden.base` names them

    @abstractmethod
    def __call__(self, model: Model, rows: Rows, progress: Array) -> Array:
        """Objective of each row when a part `progress` of training, 0 to 1, is done."""

    def score(self, model: Model, rows: Rows) -> Array:
        """Figure of merit of each held-out row; larger is better."""
        return self(model, rows, jnp.zeros(()))

    def penalty(self, model: Model) -> Array:
        """What weight decay multiplies."""
        return model.weight_norm()

    def finish(self, members: Model, rows: Callable[[], Rows]) -> Model:
        """The trained model, where what was trained means something else; a leading axis of members."""
        return members


@dataclass(frozen=True)
class MomentMatching(Method):
    """`moments`: the density that has the mean and covariance of y given x; for classes, of their scores."""

    needs: ClassVar = "moments"

    def __call__(self, model: Model, rows: Rows, progress: Array) -> Array:
        """Log-density of each row."""
        return model.outputs(rows.X).by_moments(rows.y, model.latent(rows.X, _TRAINING))


@dataclass(frozen=True)
class Squares(Method):
    """`bp`: the squared error, or cross-entropy, of E[y | x]: the paper's TGGM-BP."""

    needs: ClassVar = "mean"

    def __call__(self, model: Model, rows: Rows, progress: Array) -> Array:
        """Log-density of each row, as though the hidden units had no variance."""
        return model.outputs(rows.X).by_mean(rows.y, model.mean(rows.X, _TRAINING))

    def finish(self, members: Model, rows: Callable[[], Rows]) -> Model:
        """Take the units' mean share of the variance out of what was trained for all of it."""
        finished: Model = _without_share(members, rows().X)
        return finished


@jax.jit
@full_precision
def _without_share(members: Model, X: Any) -> Model:
    def one(model: Model) -> Model:
        _, share = model.latent(X, _MEAN_FIELD).variances(model.likelihood.output.W1)
        return replace(model, likelihood=model.likelihood.finished(share.mean(0)))

    finished: Model = jax.vmap(one)(members)
    return finished


@dataclass(frozen=True)
class Engine(Method, ABC):
    """Log p(y | x) through the log Z that an engine finds; abstract.

    The gradient of log Z being the engine's moments, following it is the paper's EM with a gradient M-step
    (TGGM-ML).
    """

    engine: ClassVar[str]
    needs: ClassVar = "gaussian"

    @full_precision
    def __call__(self, model: Model, rows: Rows, progress: Array) -> Array:
        """Log-likelihood of each row: a lower bound for mean field in one layer, nearly exact for EP."""
        first, last = self.options.cycles
        cycles = jnp.round(first + progress * (last - first)).astype(jnp.int32)
        inference = Inference(
            self.engine, self.options.solver, cycles, self.options.prior, self.options.factorised
        )
        return model.outputs(rows.X).by_engine(rows.y, model.hidden, model.features(rows.X), inference)

    @full_precision
    def score(self, model: Model, rows: Rows) -> Array:
        """The same where the density is predicted from it, and what the moments say where that is predicted.

        (For classes with the deviations of training, `Probit.scores`: predictions refine them.)
        """
        if not model.judged_by_moments:
            return super().score(model, rows)
        return model.outputs(rows.X).by_moments(rows.y, model.latent(rows.X, Inference(self.engine)))


@dataclass(frozen=True)
class MeanField(Engine):
    """`meanfield`: the mean-field bound, the paper's method."""

    engine: ClassVar = "mean_field"


@dataclass(frozen=True)
class Propagation(Engine):
    """`ep`: expectation propagation."""

    engine: ClassVar = "ep"


@dataclass(frozen=True)
class Exact(Method):
    """`exact`: log p(y | x) of one output by Fourier inversion."""

    needs: ClassVar = "sum"

    @full_precision
    def __call__(self, model: Model, rows: Rows, progress: Array) -> Array:
        """Log-density of y = b1 + Σ w h + ε, the h independent truncated normals."""
        return model.outputs(rows.X).by_sum(rows.y, model.hidden, model.features(rows.X), _MEAN_FIELD)


_MEAN_FIELD = Inference("mean_field")
TRAINING_NODES = 3  # of the quadrature through layers: a model is used with those that it was trained with
_TRAINING = Inference("mean_field", nodes=TRAINING_NODES)

METHODS: dict[str, type[Method]] = {
    "bp": Squares,
    "moments": MomentMatching,
    "meanfield": MeanField,
    "ep": Propagation,
    "exact": Exact,
}
