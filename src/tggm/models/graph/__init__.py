"""Graphs of named blocks: from their numbers and what is known of a row to a truncated Gaussian."""

from tggm.models.graph.evidence import Censored as Censored
from tggm.models.graph.structure import Structure as Structure

__all__ = ["Censored", "Structure"]
