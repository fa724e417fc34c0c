"""A graph in words."""

from tggm import Graph

BASE = Graph().input("x", 2).latent("h", 3).observed("y").connect("x", "h").connect("h", "y")


def test_summary():
    text = str(BASE.couple("h", rank=2))
    assert text.splitlines()[0] == "Graph of 3 blocks, 3 latent variables; nonlinear"
    assert "  h      latent ≥ 0  3     W x + b   1, fixed" in text.splitlines()
    assert "  h -- h  rank 2  to be learned" in text.splitlines()


def test_noise_and_strength_are_told():
    graph = Graph().latent("h", 7, noise=0.1).observed("y", 2, noise=[0.5, 2.0])
    lines = str(graph.connect("h", "y", [[3.0] * 7] * 2, fixed=True)).splitlines()
    assert "  h      latent ≥ 0  7     b         0.1, fixed" in lines
    assert "  y      observed    2     W h + b   0.5 to 2, fixed" in lines
    assert "  h -> y  2×7    root mean square 3, fixed" in lines
    assert str(Graph().observed("y")).startswith("Graph of 1 blocks, 0 latent variables; linear")
