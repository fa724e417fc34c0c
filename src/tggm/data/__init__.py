"""Rows that do not fit into memory: sources that are read piece by piece, once a pass.

    from_arrays(X, y)            arrays on a disk: np.load("X.npy", mmap_mode="r")
    from_parquet(folder, "y")    a folder of Parquet files, or one file
    from_batches(batches)        anything that gives (X, y) again and again

Pass the result to `fit` in place of X, without y. A source is passed over once to learn how many rows there
are and how large their columns, and then once an epoch, in an order as random as it allows.
"""

from tggm.data.parquet import from_parquet as from_parquet
from tggm.data.stream import Piece as Piece
from tggm.data.stream import Stream as Stream
from tggm.data.stream import from_arrays as from_arrays
from tggm.data.stream import from_batches as from_batches

__all__ = ["Piece", "Stream", "from_arrays", "from_batches", "from_parquet"]
