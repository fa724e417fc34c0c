"""Couplings as contractions: given ones come back, and no numbers make K indefinite."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from tggm.models.graph.parameters import contraction, coupling_weights, residual_precision, tie_weights
from tggm.models.graph.structure import Block, Coupling, Edge, Structure

PAIR = Structure((Block("a", 2, "latent"), Block("b", 3, "latent")), (Edge("a", "b"),), (Coupling("a", "b"),))
NOISE = {"a": np.log([0.5, 2.0]), "b": np.log([1.0, 3.0, 0.2])}


def test_a_coupling_comes_back_as_given(rng):
    J = 0.1 * rng.standard_normal((2, 3))
    U = coupling_weights(PAIR, PAIR.couplings[0], J, {"log_noise": NOISE})
    K = residual_precision(PAIR, {"log_noise": NOISE, "coupling": {"a -- b": U}}, ("a", "b"))
    assert_allclose(K.coupled["a", "b"], -J, atol=1e-14)
    assert_allclose(K.coupled["b", "a"], -J.T, atol=1e-14)
    assert_allclose(K.own["b"], [1, 1 / 3, 5], rtol=1e-14)


def test_couplings_of_blocks_left_out_are_left_out():
    K = residual_precision(PAIR, {"log_noise": NOISE, "coupling": {"a -- b": np.ones((2, 3))}}, ("a",))
    assert set(K.own) == {"a"}
    assert not K.coupled


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_a_contraction_has_norm_below_one(scale, rng):
    U = scale * rng.standard_normal((3, 5))
    V = np.asarray(contraction(U))
    L = np.linalg.cholesky(np.eye(3) + U @ U.T)
    assert_allclose(L @ V, U, rtol=1e-10, atol=1e-12 * scale)
    assert np.linalg.norm(V, 2) < 1


def test_shapes_are_checked():
    with pytest.raises(
        ValueError, match=r"Edge 'a -> b': .* of shape \(3, 2\) \(child by parent\); got shape"
    ):
        tie_weights(PAIR, PAIR.edges[0], np.ones((2, 3)))
    with pytest.raises(
        ValueError, match=r"Coupling 'a -- b': weights must be finite, of shape \(2, 3\); got"
    ):
        tie_weights(PAIR, PAIR.couplings[0], np.full((2, 3), np.nan))
