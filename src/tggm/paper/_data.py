"""Rows as the models take them: checked settings of scale, standardised columns, padded arrays, labels."""

from typing import Any

import jax
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.utils.validation import column_or_1d

from tggm.data.standardise import Columns, require_moderate
from tggm.training.rows import bucket, sparse_rows


def input_columns(X: Any, how: bool | str) -> Columns:
    """Return the map that standardises the inputs.

    True treats each column by itself, "whole" all columns as one (pixels), False changes nothing. A sparse
    table keeps its zeros: it is divided by the root of the mean square of a column.
    """
    d = X.shape[1]
    if not how:
        return Columns.unchanged(d)
    if sparse.issparse(X):
        size = np.sqrt(np.asarray(X.multiply(X).sum(axis=1), np.float64).mean() / d)
        return Columns(np.zeros(d), np.full(d, size if size > 0 else 1.0))
    if how != "whole":
        return Columns.of(np.asarray(X, np.float64), np.ones(len(X)))
    centre = X.mean(dtype=np.float64)
    deviation = np.sqrt(np.square(X - centre, dtype=np.float64).mean())
    return Columns(np.full(d, centre), np.full(d, deviation if deviation > 0 else 1.0))


def prepare(X: Any, columns: Columns, dtype: Any) -> Any:
    """Standardise a dense table, or make `SparseRows` with as many places as the fullest row needs."""
    if not sparse.issparse(X):
        with np.errstate(over="ignore"):  # `require_moderate` raises
            if columns.mild():  # no float64 copy of a large table
                Z = (np.asarray(X, dtype) - columns.shift.astype(dtype)) * (1 / columns.scale).astype(dtype)
            else:
                Z = columns.apply(np.asarray(X, np.float64)).astype(dtype)
        require_moderate(Z, "`X`", "use standardize=True, or remove such rows")
        return Z
    found = sparse_rows(X, columns.scale, dtype)
    require_moderate(np.asarray(found.values), "`X`", "use standardize=True, or remove such rows")
    return found


def pad(rows: Any, size: int | None = None) -> Any:
    """Add rows of zeros to every array, up to `size` or to one of a few sizes, so that few shapes compile."""

    def one(a: NDArray[Any]) -> NDArray[Any]:
        missing = (bucket(len(a)) if size is None else size) - len(a)
        return np.pad(a, [(0, missing), *[(0, 0)] * (a.ndim - 1)])

    return jax.tree.map(one, rows)


def encode(y: ArrayLike, classes: NDArray[Any]) -> NDArray[np.int32]:
    """Return the position of each label among the sorted `classes`."""
    labels = column_or_1d(y)
    unknown = np.setdiff1d(labels, classes)
    if len(unknown):
        raise ValueError(
            f"`y` contains classes that are not in `classes_`: {unknown[:5].tolist()}; "
            f"the model was fitted to {classes[:10].tolist()}."
        )
    places: NDArray[np.int32] = np.searchsorted(classes, labels).astype(np.int32)
    return places
