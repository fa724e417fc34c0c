"""Models built by hand from named blocks of variables."""

from tggm.censored import Censored as Censored
from tggm.graph.graph import Graph as Graph
from tggm.graph.graph import fit_graph as fit_graph

__all__ = ["Censored", "Graph", "fit_graph"]
