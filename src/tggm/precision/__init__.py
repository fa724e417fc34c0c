"""Structured precision matrices. See `tggm.precision.protocol` for the contract."""

from tggm.precision.dense import Dense as Dense
from tggm.precision.diagonal import Diagonal as Diagonal
from tggm.precision.layered import Layered as Layered
from tggm.precision.low_rank import LowRank as LowRank
from tggm.precision.protocol import Factor as Factor
from tggm.precision.protocol import Precision as Precision

__all__ = ["Dense", "Diagonal", "Factor", "Layered", "LowRank", "Precision"]
