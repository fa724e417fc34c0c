"""What each training method for classes maximises, one number per row; see `tggm.learning.objectives`."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array

from tggm.learning.objectives import Context, Objective
from tggm.models import Shallow
from tggm.models.probit import class_mean, class_moments
from tggm.special.probit import log_probit


class Labelled(NamedTuple):
    """Rows of a classification table."""

    X: Any  # (rows, d), or SparseRows
    label: Array  # (rows,) int32


def training_nodes(n_classes: int) -> int:
    """Nodes of the probit integral in training: errors far below the noise of a mini-batch (1e-4 nats)."""
    return int(-(-(8 + 2.5 * n_classes**0.5) // 4)) * 4


@dataclass(frozen=True)
class _Classification:
    """Shared by the methods: the score is the objective, the penalty ½‖W‖²."""

    def __call__(self, params: Shallow, batch: Labelled, context: Context) -> Array:
        raise NotImplementedError

    def score(self, params: Shallow, batch: Labelled, context: Context) -> Array:
        """The method's own view of the log-probability of each row's class."""
        return self(params, batch, context)

    def penalty(self, params: Shallow) -> Array:
        """½‖W0‖² + ½‖W1‖²."""
        return params.weight_norm()


@dataclass(frozen=True)
class ProbitMoments(_Classification):
    """`moments`: log P(class | x) with h integrated out through the exact moments of z given x."""

    def __call__(self, params: Shallow, batch: Labelled, context: Context) -> Array:
        """Log-probability of each row's class."""
        mean, std = class_moments(params, batch.X, context.s0)
        return log_probit(mean, std, batch.label, n_nodes=training_nodes(mean.shape[1]), n_steps=3)


@dataclass(frozen=True)
class ProbitBackPropagation(_Classification):
    """`bp`: the cross-entropy of E[z | x], as though h had no variance: the paper's TGGM-BP."""

    def __call__(self, params: Shallow, batch: Labelled, context: Context) -> Array:
        """Log-probability of each row's class under unit noise around E[z | x]."""
        mean = class_mean(params, batch.X, context.s0)
        n_nodes = training_nodes(mean.shape[1])
        return log_probit(mean, jnp.ones_like(mean), batch.label, n_nodes=n_nodes, n_steps=3)


CLASS_METHODS: dict[str, Callable[..., Objective]] = {"bp": ProbitBackPropagation, "moments": ProbitMoments}
