"""Inputs of a classifier: dense or sparse tables, standardised, in the form that training takes."""

from typing import Any

import numpy as np
from scipy import sparse

from tggm.arrays import Floats
from tggm.models.sparse import SparseRows
from tggm.streams.columns import Columns
from tggm.training.membership import bucket


def standardisation(X: Any, weight: Floats, how: bool | str) -> Columns:
    """The map that brings inputs to unit size.

    True treats each column by itself, "whole" the table as one column, False leaves it. A sparse table keeps
    its zeros: it is divided by one number that makes the mean square of a column 1.
    """
    d = X.shape[1]
    if not how:
        return Columns.unchanged(d)
    if sparse.issparse(X):
        squares = np.asarray(X.multiply(X).sum(axis=1), np.float64).reshape(-1)
        size = np.sqrt(np.average(squares, weights=weight) / d)
        return Columns(np.zeros(d), np.full(d, size if size > 0 else 1.0))
    if how != "whole":
        return Columns.of(np.asarray(X, np.float64), weight)
    one = Columns.of(X.mean(1, dtype=np.float64)[:, None], weight)
    centred = X - one.shift.astype(X.dtype)[None, :]
    variance = np.average(np.einsum("ij,ij->i", centred, centred).astype(np.float64), weights=weight) / d
    return Columns(np.full(d, one.shift[0]), np.full(d, np.sqrt(variance) if variance > 0 else 1.0))


def prepared(X: Any, columns: Columns, dtype: Any) -> Any:
    """A dense table standardised, or sparse rows with as many places as the fullest row needs."""
    if not sparse.issparse(X):
        with np.errstate(over="ignore"):  # values that overflow are seen to where they are used
            if not columns.mild():
                return columns.apply(np.asarray(X, np.float64)).astype(dtype)
            X = np.asarray(X, dtype)
        if columns.shift.any():
            X = X - columns.shift.astype(dtype)[None, :]
        return X if (columns.scale == 1).all() else X * (1 / columns.scale).astype(dtype)[None, :]
    X = X.tocsr()
    counts = np.diff(X.indptr)
    places = bucket(int(counts.max(initial=1)))
    row = np.repeat(np.arange(X.shape[0]), counts)
    place = np.arange(X.nnz) - np.repeat(X.indptr[:-1], counts)
    # unused places hold 0 of different columns: additions to one and the same would wait for each other
    indices = np.tile(np.arange(places, dtype=np.int32) % X.shape[1], (X.shape[0], 1))
    values = np.zeros((X.shape[0], places), dtype)
    indices[row, place] = X.indices
    values[row, place] = X.data / columns.scale[X.indices]
    return SparseRows(indices, values)  # type: ignore[arg-type]  # NumPy until training
