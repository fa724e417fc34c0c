"""Structured precision matrices. See `tggm.precision.protocol` for the contract."""

from tggm.precision.protocol import Factor, Precision
from tggm.precision.structures import Dense, Diagonal, Layered, LowRank

__all__ = ["Dense", "Diagonal", "Factor", "Layered", "LowRank", "Precision"]
