"""Inputs of a classifier: dense or sparse tables, standardised, in the form that training takes."""

from typing import Any

import numpy as np
from scipy import sparse

from tggm.estimators.columns import Columns, Floats
from tggm.learning.rows import bucket
from tggm.models.sparse import SparseRows

STANDARDIZE = (True, False, "whole")


def standardisation(X: Any, weight: Floats, how: bool | str) -> Columns:
    """The map that brings inputs to unit size.

    True treats each column by itself, "whole" the table as one column, False leaves it. A sparse table keeps
    its zeros: it is divided by one number that makes the mean square of a column 1.
    """
    d = X.shape[1]
    if how is False:
        return Columns.unchanged(d)
    if sparse.issparse(X):
        squares = np.asarray(X.multiply(X).sum(axis=1), np.float64).reshape(-1)
        size = np.sqrt(np.average(squares, weights=weight) / d)
        return Columns(np.zeros(d), np.full(d, size if size > 0 else 1.0))
    if how is True:
        return Columns.of(np.asarray(X, np.float64), weight)
    means = np.average(X, axis=0, weights=weight).astype(np.float64)
    squares = np.average(np.square(X, dtype=np.float64), axis=0, weights=weight)
    variance = squares.mean() - means.mean() ** 2
    deviation = np.sqrt(variance) if variance > 1e-24 * squares.mean() else 1.0
    return Columns(np.full(d, means.mean()), np.full(d, deviation))


def prepared(X: Any, columns: Columns, dtype: Any) -> Any:
    """A dense table standardised, or sparse rows with as many places as the fullest row needs."""
    if not sparse.issparse(X):
        if not columns.shift.any() and (columns.scale == 1).all():
            return np.asarray(X, dtype)
        return columns.apply(np.asarray(X, np.float64)).astype(dtype)
    X = X.tocsr()
    counts = np.diff(X.indptr)
    places = bucket(int(counts.max(initial=1)))
    row = np.repeat(np.arange(X.shape[0]), counts)
    place = np.arange(X.nnz) - np.repeat(X.indptr[:-1], counts)
    indices = np.zeros((X.shape[0], places), np.int32)
    values = np.zeros((X.shape[0], places), dtype)
    indices[row, place] = X.indices
    values[row, place] = X.data / columns.scale[X.indices]
    return SparseRows(indices, values)  # type: ignore[arg-type]  # NumPy until training
