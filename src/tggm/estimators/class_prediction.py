"""What a fitted classifier says about new rows."""

import math
from abc import ABC
from functools import partial
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.scipy.special import logsumexp
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from tggm.arrays import Floats
from tggm.blas_lock import blas_lock
from tggm.data.standardise import Columns
from tggm.estimators.ensemble import Ensemble
from tggm.estimators.labels import encoded
from tggm.estimators.sources import prepared
from tggm.models import Model
from tggm.models.hidden.base import LinearEngine
from tggm.models.sparse import Product
from tggm.predictive.moments import block_size, over_blocks, padded_to
from tggm.predictive.temperature import tempered
from tggm.products import QUICKLY, full_precision
from tggm.special.probit import grid_length, log_probit, log_probit_all, probit_all
from tggm.training.rows import bucket

SPARSE_BLOCK = 512  # rows of a sparse table, whose places take memory
NODES = (24, 64, 192)  # sizes of the grid of a row; the smallest that suffices is used
CHUNKS = (64, 256, 1024)  # rows with longer grids computed at once: few shapes, as each is compiled
FAR = 1e7  # standard deviations
# standard deviations between nodes: probabilities above e^-50 err by less than 1e-6 of themselves
SPACING = {"float32": 0.6, "float64": 0.4}


class ClassPrediction(Ensemble, ABC):
    """Labels, probabilities and scores."""

    explainable = ("probability", "log-odds")

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The most probable class of each row."""
        best = self._probabilities(X).argmax(1)
        labels: NDArray[Any] = self.classes_[best]
        return labels

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Probability of each class, shape (n_rows, n_classes), the latent variables integrated out.

        Columns are in the order of `classes_`. Rows sum to 1, and no entry is 0 or 1. They are the mixture of
        members, made sharper or softer as held-out rows advise, unless ``calibrate=False``. Scores are taken
        for normal, with their exact means and with variances that fit those of the differences between
        classes that may win (`tggm.models.probit`): an approximation, coarser the fewer hidden units there
        are.
        """
        limits = np.finfo(np.float64)
        probability: Floats = np.clip(self._probabilities(X), limits.tiny, 1 - limits.epsneg)
        return probability

    def _probabilities(self, X: ArrayLike) -> Floats:
        """Rows that sum to 1, by logarithms where scores are so far apart that nothing is left otherwise."""
        p = self._evaluated(X, log=False)
        total = p.sum(1, keepdims=True)
        if not (total > 0.5).all():
            return np.exp(self.predict_log_proba(X))
        result: Floats = p / total
        for pool in self.fitted_.calibration:
            with np.errstate(divide="ignore"):
                result = np.exp(tempered(np.log(result), pool.numbers))
        return result

    def predict_log_proba(self, X: ArrayLike) -> Floats:
        """Logarithms of the probabilities, right even where a probability is too small for a float."""
        log_p = self._raw_log_proba(X)
        for pool in self.fitted_.calibration:
            log_p = tempered(log_p, pool.numbers)
        return np.minimum(log_p, -np.finfo(np.float64).epsneg)

    def _raw_log_proba(self, X: ArrayLike) -> Floats:
        """Those of the mixture of members."""
        log_p = self._evaluated(X, log=True)
        log_p -= np.logaddexp.reduce(log_p, axis=1)[:, None]
        return log_p

    def decision_function(self, X: ArrayLike) -> Floats:
        """Log-odds of the second class, (n_rows,), or the log-probability of each of several classes."""
        log_p = self.predict_log_proba(X)
        return log_p[:, 1] - log_p[:, 0] if log_p.shape[1] == 2 else log_p

    def label_log_proba(self, X: ArrayLike, y: ArrayLike) -> Floats:
        """Log-probability of each row's label, shape (n_rows,)."""
        log_p = self.predict_log_proba(X)
        label = encoded(y, self.classes_)
        if len(label) != len(log_p):
            raise ValueError(f"`y` has {len(label)} labels, but `X` has {len(log_p)} rows.")
        picked: Floats = log_p[np.arange(len(log_p)), label]
        return picked

    def recalibrate(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn anew how sharp probabilities are, from rows that no member was trained on; members stay."""
        from tggm.estimators.class_calibration import temperature

        log_p, label = self._raw_log_proba(X), encoded(y, self.classes_)
        if len(label) != len(log_p):
            raise ValueError(f"`y` has {len(label)} labels, but `X` has {len(log_p)} rows.")
        pool = temperature(log_p, label, np.ones(len(label)))
        self.fitted_ = self.fitted_._replace(calibration=pool)
        return self

    def eval_figures(self, X: Any, y: ArrayLike) -> dict[str, float]:
        """What `fit` watches of an `eval_set`; training may end when the first no longer falls."""
        log_p, label = self.predict_log_proba(X), encoded(y, self.classes_)
        right = log_p.argmax(1) == label
        return {
            "log_loss": -float(log_p[np.arange(len(label)), label].mean()),
            "accuracy": float(right.mean()),
        }

    def _answers(self, X: Floats, what: str) -> Floats:
        if what == "log-odds":
            return self.decision_function(X).reshape(len(X), -1)
        p = self.predict_proba(X)
        return p[:, 1:] if p.shape[1] == 2 else p

    def _losses(self, X: Floats, y: Any) -> Floats:
        return -self.label_log_proba(X, y)

    def _held_losses(self, Z: Floats, y: Any, members: list[int]) -> Floats:
        with self._precision(), blas_lock(not self.fitted_.model.knows_moments):
            log_p = mixture_of(self.fitted_.model, Z, members, self.engine()).astype(np.float64)
        losses: Floats = np.logaddexp.reduce(log_p, axis=1) - log_p[np.arange(len(Z)), y]
        return losses

    def _evaluated(self, X: ArrayLike, log: bool) -> Floats:
        """Probabilities of the mixture of members or their logarithms, (rows, n), in double precision."""
        X_ = self._new_rows(X, {"accept_sparse": "csr", "dtype": [np.float64, np.float32]})
        model, columns = _unscaled(self.fitted_.model, self.fitted_.scales.x, self.dtype)
        folded = columns is not self.fitted_.scales.x
        by_scipy = sparse.issparse(X_) and folded and jax.default_backend() == "cpu"
        dense = by_scipy or not sparse.issparse(X_)
        size = block_size(model, X_.shape[0]) if dense else SPARSE_BLOCK
        rows = padded_to(X_.shape[0], size)
        engine, alone = self.engine(), not model.knows_moments

        def block(at: slice) -> NDArray[Any]:
            return _block(model, _rows(X_[at], model, columns, by_scipy), by_scipy, log, engine, rows)

        with self._precision(), blas_lock(alone):
            parts = over_blocks(block, X_.shape[0], size, alone=alone)
        result = np.concatenate(parts).astype(np.float64)
        lost = np.isnan(result).any(1) | (result.max(1) == -np.inf)
        if lost.any():
            row = int(np.argmax(lost))
            raise ValueError(
                f"`X` has values too large to be computed with (first in row {row}); leave out rows so far "
                "from what the model has seen."
            )
        return np.maximum(result, -np.finfo(self.dtype).max) if log else result  # finite, however far away


def _unscaled(model: Model, columns: Columns, dtype: Any) -> tuple[Model, Columns]:
    """The same model with the map of its inputs in its weights, where that costs no digits."""
    if not (columns.mild() and model.features.linear):
        return model, columns
    arrays = model.arrays()
    W0 = arrays["hidden.W0"] / columns.scale.astype(dtype)[None, None, :]
    # not a product of matrices: threads of BLAS would go on spinning and keep JAX's from the cores
    b0 = arrays["hidden.b0"] - (W0 * columns.shift.astype(dtype)[None, None, :]).sum(-1)
    moved = {"hidden.W0": W0, "hidden.b0": b0}
    if (A := arrays.get("likelihood.output.A")) is not None:
        A = A / columns.scale.astype(dtype)[None, None, :]
        lowered = (A * columns.shift.astype(dtype)[None, None, :]).sum(-1)
        b1 = arrays["likelihood.output.b1"] - lowered
        moved |= {"likelihood.output.A": A, "likelihood.output.b1": b1}
    return model.replaced(arrays | moved), Columns.unchanged(W0.shape[2])


def _rows(X: Any, model: Model, columns: Columns, by_scipy: bool) -> Any:
    """Inputs as models take them; sparse ones multiplied by W0 already, whatever their counts."""
    W0 = model.arrays()["hidden.W0"]
    if not by_scipy:
        return prepared(X, columns, W0.dtype, most=model.features.most)
    A = model.arrays().get("likelihood.output.A")
    with np.errstate(over="ignore", invalid="ignore"):  # values that overflow are seen to where they are used
        products: list[Any] = [
            None if W is None else _product(X.astype(W.dtype, copy=False), W) for W in (W0, A)
        ]
    return Product(*products)


def _product(X: Any, W: NDArray[Any]) -> NDArray[Any]:
    """Sparse rows times Wᵀ of each member, (members, rows, m)."""
    members, m, d = W.shape
    product: NDArray[Any] = X @ W.reshape(members * m, d).T
    return np.moveaxis(product.reshape(-1, members, m), 1, 0)


def _padded(inputs: Any, count: int, rows: int) -> Any:
    extra = rows - count
    if not extra:
        return inputs  # to pad by nothing would copy all
    return jax.tree.map(lambda a: np.pad(a, [(0, 0)] * (a.ndim - 2) + [(0, extra), (0, 0)]), inputs)


def _block(
    model: Model, inputs: Any, members: bool, log: bool, engine: LinearEngine, rows: int
) -> NDArray[Any]:
    """Each row is computed with the nodes that it needs itself, whatever rows are beside it."""
    count = jax.tree.leaves(inputs)[0].shape[-2]
    return _mixed(*_member_scores(model, _padded(inputs, count, rows), members, engine), count, log)


def mixture_of(model: Model, inputs: Any, members: list[int], engine: LinearEngine) -> NDArray[Any]:
    """Log-probabilities of the mixture of some members, (rows, n); inputs in units of the model."""
    count = jax.tree.leaves(inputs)[0].shape[-2]
    mean, std = _member_scores(model, _padded(inputs, count, bucket(count)), False, engine)
    # one by one: a program serves groups of any size
    each = [_mixed(mean[[k]], std[[k]], count, True) for k in members]
    mixed: NDArray[Any] = np.logaddexp.reduce(each) - math.log(len(each))
    return mixed


def _member_scores(
    model: Model, inputs: Any, members: bool, engine: LinearEngine
) -> tuple[NDArray[Any], NDArray[Any]]:
    mean, std = _scores(model, inputs, members, engine)
    return np.asarray(mean), np.asarray(std)


@jax.jit
def _lengths(mean: Array, std: Array) -> Array:
    lengths: Array = jax.vmap(grid_length)(mean, std).max(0)
    return lengths


def _mixed(mean: NDArray[Any], std: NDArray[Any], count: int, log: bool) -> NDArray[Any]:
    """What the shortest grid gives, with the rows that need longer ones computed anew."""
    result = np.asarray(_mixture(mean, std, NODES[0], log))[:count].copy()
    kind = np.searchsorted(NODES, np.asarray(_lengths(mean, std))[:count] / SPACING[str(mean.dtype)])
    for k in range(1, kind.max(initial=0) + 1):
        (chosen,) = np.nonzero(kind == k)
        size = next((size for size in CHUNKS if size >= len(chosen)), CHUNKS[-1])
        for begin in range(0, len(chosen), size):
            part = np.resize(chosen[begin : begin + size], size)
            long = _mixture(mean[:, part], std[:, part], (*NODES, None)[k], log)
            result[part] = np.asarray(long)  # what fills the last part up repeats its rows
    return result


@partial(jax.jit, static_argnames=("members", "engine"), compiler_options=QUICKLY)
@full_precision
def _scores(model: Model, X: Any, members: bool, engine: LinearEngine) -> tuple[Array, Array]:
    """Means and deviations of z, (members, rows, n); `members` says whether each has inputs of its own."""

    def scores(member: Model, X: Any) -> tuple[Array, Array]:
        return member.outputs(X).contended_scores(member.latent(X, engine))

    mean, std = jax.vmap(scores, in_axes=(0, 0 if members else None))(model, X)
    # only differences count, and farther behind the first than this single precision has no square of them
    return jnp.maximum(mean - mean.max(-1, keepdims=True), -FAR * std.max(-1, keepdims=True)), std


@partial(jax.jit, static_argnames=("n_nodes", "log"))
def _mixture(mean: Array, std: Array, n_nodes: int | None, log: bool) -> Array:
    """The mixture of members on one grid a row or, without `n_nodes`, on one for each class."""
    if not log and n_nodes is not None:
        p: Array = jax.vmap(partial(probit_all, n_nodes=n_nodes))(mean, std)
        return p.mean(0)
    if n_nodes is None:
        log_p = jax.vmap(_class_by_class)(mean, std)
    else:
        log_p = jax.vmap(partial(log_probit_all, n_nodes=n_nodes))(mean, std)
    mixed: Array = logsumexp(log_p, axis=0) - math.log(len(mean))
    return mixed if log else jnp.exp(mixed)


def _class_by_class(mean: Array, std: Array) -> Array:
    """Log-probabilities for scores too far apart for one grid."""
    classes = jnp.arange(mean.shape[1], dtype=jnp.int32)
    rows = jnp.zeros(mean.shape[0], jnp.int32)
    log_p: Array = lax.map(lambda c: log_probit(mean, std, rows + c), classes)
    return log_p.T
