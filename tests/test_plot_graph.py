"""A graph's picture holds its blocks, its ties and their strengths."""

import numpy as np
from matplotlib.figure import Figure
from numpy.testing import assert_allclose

from tggm import Graph
from tggm.plotting import plot_graph
from tggm.plotting.graph import positions, strengths

GRAPH = (
    Graph()
    .input("x", 2)
    .latent("h", 3)
    .free("f")
    .observed("y")
    .connect("x", "h", np.full((3, 2), 0.5))
    .connect("h", "y", np.full((1, 3), -2.0))
    .connect("f", "y")
    .couple("h", weights=[[1.0, 1.0, -1.0]])
)


def test_every_block_and_tie_is_drawn():
    ax = plot_graph(GRAPH, ax=Figure().add_subplot())
    assert [text.get_text() for text in ax.texts] == ["x\n2 given", "h\n3 ≥ 0", "f\n1 free", "y\n1 observed"]
    ties = {patch.get_label(): patch for patch in ax.patches}
    assert set(ties) == {"x -> h", "h -> y", "f -> y", "h -- h"}
    assert ties["f -> y"].get_linestyle() == ":"  # no weights yet
    assert ties["h -> y"].get_linewidth() > ties["h -- h"].get_linewidth() > ties["x -> h"].get_linewidth()


def test_children_stand_to_the_right_of_their_parents():
    place = positions(GRAPH.structure)
    assert place["x"][0] < place["h"][0] < place["y"][0]
    assert len(set(place.values())) == 4


def test_strengths_are_root_mean_squares():
    found = strengths(GRAPH)
    assert found.pop("f -> y") is None
    assert_allclose([found["x -> h"], found["h -> y"], found["h -- h"]], [0.25, 1.0, 0.5])
