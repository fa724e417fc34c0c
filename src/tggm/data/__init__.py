"""Read rows that do not fit into memory: sources in pieces, with one pass per epoch.

    from_arrays(X, y)            arrays on disk: np.load("X.npy", mmap_mode="r")
    from_parquet(folder, "y")    a folder of Parquet files, or one file
    from_batches(batches)        any repeatable source of batches (X, y)

Pass the result to `fit` instead of X, without y. The first pass counts the rows and measures their columns;
each epoch is another pass, in an order that is as random as the source allows.
"""

from tggm.data.stream import Piece, Stream, from_arrays, from_batches, from_parquet

__all__ = ["Piece", "Stream", "from_arrays", "from_batches", "from_parquet"]
