"""Models designed by hand: named blocks tied together, or weights and precision matrices given outright."""

from tggm.graph.graph import Graph as Graph
from tggm.graph.training import fit_graph as fit_graph
from tggm.models.graph import Censored as Censored

__all__ = ["Censored", "Graph", "fit_graph"]
