"""Models designed by hand: named blocks tied together, or weights and precision matrices given outright."""

from tggm.graph.general import TGGM as TGGM
from tggm.graph.graph import Graph as Graph
from tggm.graph.training import fit_graph as fit_graph
from tggm.models.graph import Censored as Censored

__all__ = ["TGGM", "Censored", "Graph", "fit_graph"]
