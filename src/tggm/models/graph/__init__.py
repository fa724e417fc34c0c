"""Models designed by naming blocks of variables and tying them together."""

from tggm.models.graph.evidence import Censored as Censored
from tggm.models.graph.graph import Graph as Graph
from tggm.models.graph.structure import Structure as Structure

__all__ = ["Censored", "Graph", "Structure"]
