"""Class probabilities: the probit integral over the moments of the scores, mixed over members.

Scores are approximated by normals with exact means and with variances that fit those of the differences
between likely classes (`tggm.formulas.contended_std`).
"""

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray
from scipy import sparse

from tggm.arrays import Bools, Floats, Ints
from tggm.data.standardise import Columns
from tggm.estimators._fitted import Fitted
from tggm.models import Model
from tggm.models.layers import Product
from tggm.predictive.class_mixture import class_mixture
from tggm.predictive.conformal import class_set
from tggm.predictive.marginal import averages, log_averages
from tggm.predictive.member_moments import (
    block_size,
    member_places,
    numpy_network,
    outputs_by_blocks,
    over_blocks,
    padded_to,
)
from tggm.predictive.numpy_network import Network, Outputs, class_log_mixture, nodes_needed
from tggm.runtime import GPU_COMPILER_OPTIONS, full_precision, precision
from tggm.training.rows import bucket, model_inputs

SPARSE_BLOCK = 512  # rows of a sparse table
FAR = 1e7  # standard deviations


def probabilities(fitted: Fitted, X: Any) -> Floats:
    """Return probabilities, (rows, n), that sum to 1; inputs are those of `fit`, encoded."""
    given, (X, starts) = X, _filled(fitted, X)
    p = averages(_evaluate(fitted, X, log=False), starts)
    total = p.sum(1, keepdims=True)
    if not (total > 0.5).all():  # scores so far apart that all probabilities vanish
        return np.exp(log_probabilities(fitted, given))
    return p / total


def log_probabilities(fitted: Fitted, X: Any) -> Floats:
    """Return log-probabilities, accurate even where a probability underflows."""
    X, starts = _filled(fitted, X)
    log_p = log_averages(_evaluate(fitted, X, log=True), starts)
    log_p -= np.logaddexp.reduce(log_p, axis=1)[:, None]
    return log_p


def sets(fitted: Fitted, X: Any, level: float) -> Bools:
    """Return which classes are in the set of each row, (rows, n)."""
    if fitted.guarantee is None:
        raise ValueError(
            f"no rows were set aside for sets of classes: fit with TGGMClassifier(guarantee={level:g})."
        )
    return class_set(probabilities(fitted, X), fitted.guarantee[0], level)


def _filled(fitted: Fitted, X: Any) -> tuple[Any, Ints | None]:
    """Replace rows with unknown inputs by draws; inputs are not standardised."""
    if not isinstance(X, np.ndarray) or not np.isnan(X).any():
        return X, None
    shift, scale = (a[None, :] for a in fitted.scales.x)
    full, starts = fitted.filled(fitted.standardised(X))
    whole = X if starts is None else np.repeat(X, np.diff(starts), axis=0)
    return np.where(np.isnan(whole), shift + scale * full, whole), starts


def _evaluate(fitted: Fitted, X: Any, log: bool) -> Floats:
    """Evaluate the mixture of members or its logarithm, (rows, n), in double precision."""
    if (network := numpy_network(fitted.model, X)) is not None:
        return _finite(_evaluate_in_numpy(fitted, network, X, log), fitted.dtype, log)
    model, columns = fitted.model, fitted.scales.x
    shifted = sparse.issparse(X) and bool(columns.shift.any())  # the training rows were dense
    stays_sparse = sparse.issparse(X) and not shifted
    by_scipy = stays_sparse and model.features.linear and jax.default_backend() == "cpu"
    dense = by_scipy or not stays_sparse
    size = block_size(model, X.shape[0]) if dense else SPARSE_BLOCK
    rows = padded_to(X.shape[0], size)

    def block(at: slice) -> NDArray[Any]:
        """Compute each row with the nodes that it needs, independently of the other rows."""
        inputs = _rows(X[at].toarray() if shifted else X[at], model, columns, by_scipy)
        count = jax.tree.leaves(inputs)[0].shape[-2]
        padded = _pad(inputs, count, rows)
        mean, std = map(np.asarray, _scores(model, padded, by_scipy))
        found = class_mixture(mean, std, log=log)[:count]
        if fitted.neighbors is None:
            return found
        points = np.asarray(member_places(model, padded, fitted.neighbors.projection, by_scipy))[:count]
        return fitted.neighbors.near(points).mix_classes(found, log=log)

    with precision(fitted.dtype):
        parts = over_blocks(block, X.shape[0], size)
    return _finite(np.concatenate(parts).astype(np.float64), fitted.dtype, log)


def _evaluate_in_numpy(fitted: Fitted, network: Network, X: Floats, log: bool) -> Floats:
    """Evaluate the mixture for few rows, in double precision."""

    def parts(outputs: Outputs) -> tuple[Floats, ...]:
        mean, std = outputs.scores()
        found = class_log_mixture(np, mean, std, nodes_needed(mean, std))
        return found, *(() if near is None else (outputs.places(near.projection),))

    near = fitted.neighbors
    with np.errstate(all="ignore"):  # `_finite` checks the result
        Z = fitted.standardised(X).astype(fitted.dtype).astype(np.float64)
        lost = np.asarray(~np.isfinite(Z).all(1))
        found, *places = outputs_by_blocks(network, np.where(lost[:, None], 0.0, Z), parts, variances=True)
    found[lost] = np.nan
    found = found if log else np.exp(found)
    return found if near is None else near.near(places[0]).mix_classes(found, log=log)


def _finite(result: Floats, dtype: str, log: bool) -> Floats:
    """Raise for rows whose probabilities could not be computed."""
    lost = np.isnan(result).any(1) | (result.max(1) == -np.inf)
    if lost.any():
        row = int(np.argmax(lost))
        raise ValueError(
            f"`X` has values that are too large (first in row {row}); leave out rows that are so far from "
            "the training rows."
        )
    return np.maximum(result, -np.finfo(dtype).max) if log else result


def _rows(X: Any, model: Model, columns: Columns, by_scipy: bool) -> Any:
    """Return inputs for the model; sparse inputs are already multiplied by W0 and A."""
    W0 = model.arrays()["hidden.W0"]
    if not by_scipy:
        return model_inputs(X, columns, W0.dtype, most=model.features.most)
    A = model.arrays().get("likelihood.output.A")
    with np.errstate(over="ignore", invalid="ignore"):  # checked later
        products: list[Any] = [
            None
            if W is None
            else _product(X.astype(W.dtype, copy=False), W / columns.scale.astype(W.dtype)[None, None])
            for W in (W0, A)
        ]
    return Product(*products)


def _product(X: Any, W: NDArray[Any]) -> NDArray[Any]:
    """Return sparse rows times Wᵀ of each member, (members, rows, m)."""
    members, m, d = W.shape
    product: NDArray[Any] = X @ W.reshape(members * m, d).T
    return np.moveaxis(product.reshape(-1, members, m), 1, 0)


def _pad(inputs: Any, count: int, rows: int) -> Any:
    extra = rows - count
    if not extra:
        return inputs  # no copy
    return jax.tree.map(lambda a: np.pad(a, [(0, 0)] * (a.ndim - 2) + [(0, extra), (0, 0)]), inputs)


def mixture_of(model: Model, inputs: Any, members: list[int]) -> NDArray[Any]:
    """Return log-probabilities of the mixture of some members, (rows, n); inputs are standardised."""
    count = jax.tree.leaves(inputs)[0].shape[-2]
    mean, std = map(np.asarray, _scores(model, _pad(inputs, count, bucket(count)), False))
    # one member at a time: groups of any size use the same compiled program
    each = [class_mixture(mean[[k]], std[[k]], log=True)[:count] for k in members]
    return np.logaddexp.reduce(each) - math.log(len(each))


@partial(jax.jit, static_argnames="per_member", compiler_options=GPU_COMPILER_OPTIONS)
@full_precision
def _scores(model: Model, X: Any, per_member: bool) -> tuple[Array, Array]:
    """Return means and deviations of z, (members, rows, n); `per_member`: each member has its own inputs."""

    def scores(member: Model, X: Any) -> Any:
        likelihood, latent = member.at(X)
        return likelihood.contended_scores(latent)

    mean, std = jax.vmap(scores, in_axes=(0, 0 if per_member else None))(model, X)
    # clip score differences so that their squares fit in float32
    return jnp.maximum(mean - mean.max(-1, keepdims=True), -FAR * std.max(-1, keepdims=True)), std
