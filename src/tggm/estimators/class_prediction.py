"""What a fitted classifier says about new rows."""

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.scipy.special import logsumexp
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from tggm.estimators.base import BaseTGGM
from tggm.estimators.columns import Floats
from tggm.estimators.inputs import prepared
from tggm.learning.rows import bucket
from tggm.models import Shallow
from tggm.models.probit import class_moments
from tggm.special.probit import grid_length, log_probit, log_probit_all

BLOCK = 8192  # rows predicted at once
SPARSE_BLOCK = 512  # rows of a sparse table, whose places take memory
NODES = (48, 96, 192)  # sizes of the table of log Φ; the smallest that suffices is used
SPACING = 0.4  # standard deviations between nodes: errors below 1e-6 of every probability above e^-50


class ClassPrediction(BaseTGGM):
    """Labels, probabilities and scores."""

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The most probable class of each row."""
        best = self._log_proba(X).argmax(1)
        labels: NDArray[Any] = self.classes_[best]
        return labels

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Probability of each class, shape (n_rows, n_classes), the latent variables integrated out.

        Columns are in the order of `classes_`. Rows sum to 1, and no entry is 0 or 1.
        """
        p = np.exp(self._log_proba(X))
        limits = np.finfo(np.float64)
        probability: Floats = np.clip(p / p.sum(1, keepdims=True), limits.tiny, 1 - limits.epsneg)
        return probability

    def predict_log_proba(self, X: ArrayLike) -> Floats:
        """Logarithms of the probabilities; finite even where a probability is too small for a float."""
        return np.minimum(self._log_proba(X), -np.finfo(np.float64).epsneg)

    def decision_function(self, X: ArrayLike) -> Floats:
        """Log-odds of the second class, (n_rows,), or the log-probability of each of several classes."""
        log_p = self._log_proba(X)
        return log_p[:, 1] - log_p[:, 0] if log_p.shape[1] == 2 else log_p

    def label_log_proba(self, X: ArrayLike, y: ArrayLike) -> Floats:
        """Log-probability of each row's label, shape (n_rows,)."""
        log_p = self.predict_log_proba(X)
        picked: Floats = log_p[np.arange(len(log_p)), self._encoded(y)]
        return picked

    def _encoded(self, y: ArrayLike) -> NDArray[np.int32]:
        """Position of each label in `classes_`; labels that were never seen are an error."""
        y = column_or_1d(y)
        strange = np.setdiff1d(y, self.classes_)
        if len(strange):
            raise ValueError(
                f"`y` contains classes that are not in `classes_`: {strange[:5].tolist()}; "
                f"the model knows {self.classes_[:10].tolist()}."
            )
        return np.searchsorted(self.classes_, y).astype(np.int32)

    def _log_proba(self, X: ArrayLike) -> Floats:
        """Log-probabilities of the mixture of members, (rows, n), in double precision."""
        check_is_fitted(self, "W0_")
        X_ = validate_data(self, X, reset=False, accept_sparse="csr", dtype=[np.float64, np.float32])
        block = SPARSE_BLOCK if sparse.issparse(X_) else BLOCK
        s0 = np.asarray(float(self.sigma0) ** 2, self.dtype)
        parts = []
        with self._precision(), jax.default_matmul_precision("highest"):
            for begin in range(0, X_.shape[0], block):
                rows = prepared(X_[begin : begin + block], self._x, self.dtype)
                parts.append(self._log_proba_block(rows, s0))
        log_p = np.concatenate(parts)
        log_p -= np.logaddexp.reduce(log_p, axis=1)[:, None]
        return log_p

    def _log_proba_block(self, rows: Any, s0: NDArray[Any]) -> Floats:
        count = len(jax.tree.leaves(rows)[0])
        extra = bucket(count) - count
        padded = jax.tree.map(lambda a: np.pad(a, [(0, extra), (0, 0)]), rows)
        mean, std, length = _moments(self._params, padded, s0)
        wanted = float(np.asarray(length)[:, :count].max()) / SPACING
        if wanted <= NODES[-1]:
            log_p = _mixture(mean, std, min(k for k in NODES if k >= wanted))
        else:
            log_p = _mixture(mean, std, None)
        return np.asarray(log_p)[:count].astype(np.float64)


@jax.jit
def _moments(params: Shallow, X: Any, s0: Array) -> tuple[Array, Array, Array]:
    """Means and deviations of z for each member, (members, rows, n), and how long a grid spans them."""
    mean, std = jax.vmap(class_moments, in_axes=(0, None, None))(params, X, s0)
    return mean, std, jax.vmap(grid_length)(mean, std)


@partial(jax.jit, static_argnames="n_nodes")
def _mixture(mean: Array, std: Array, n_nodes: int | None) -> Array:
    """Log-probabilities of the mixture of members, by a table or (None) class after class."""
    if n_nodes is None:
        log_p = jax.vmap(_class_by_class)(mean, std)
    else:
        log_p = jax.vmap(partial(log_probit_all, n_nodes=n_nodes))(mean, std)
    mixed: Array = logsumexp(log_p, axis=0) - math.log(len(mean))
    return mixed


def _class_by_class(mean: Array, std: Array) -> Array:
    """Log-probabilities for scores too far apart for one grid."""
    classes = jnp.arange(mean.shape[1], dtype=jnp.int32)
    rows = jnp.zeros(mean.shape[0], jnp.int32)
    log_p: Array = lax.map(lambda c: log_probit(mean, std, rows + c), classes)
    return log_p.T
