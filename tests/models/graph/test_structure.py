"""Which variables remain when leaves are left out, and what weights a tie has."""

import pytest

from tggm.models.graph.structure import Block, Coupling, Edge, Structure

CHAIN = Structure(
    (Block("x", 2, "input"), Block("h", 3, "latent"), Block("y", 1, "observed"), Block("z", 4, "observed")),
    (Edge("x", "h"), Edge("h", "y"), Edge("y", "z")),
)


@pytest.mark.parametrize(
    ("unobserved", "kept"),
    [((), ("h", "y", "z")), (("z",), ("h", "y")), (("y",), ("h", "y", "z")), (("h", "y", "z"), ("h",))],
)
def test_unobserved_leaves_go_one_after_the_other(unobserved, kept):
    assert CHAIN.without_leaves(unobserved) == kept


def test_a_coupled_block_is_no_leaf():
    coupled = CHAIN.with_coupling(Coupling("z", "z", 2))
    assert not coupled.is_leaf("z")
    assert coupled.without_leaves(("y", "z")) == ("h", "y", "z")


def test_shapes_of_weights():
    assert CHAIN.shape(Edge("y", "z")) == (4, 1)
    assert CHAIN.shape(Coupling("y", "z")) == (1, 4)
    assert CHAIN.shape(Coupling("z", "z", 2)) == (2, 4)


def test_a_longer_cycle_is_refused():
    with pytest.raises(ValueError, match="Edge 'z -> h' closes a directed cycle"):
        CHAIN.with_edge(Edge("z", "h"))


def test_a_second_coupling_of_the_same_blocks_is_refused():
    with pytest.raises(ValueError, match="Coupling 'y -- h' is already there"):
        CHAIN.with_coupling(Coupling("h", "y")).with_coupling(Coupling("y", "h"))
